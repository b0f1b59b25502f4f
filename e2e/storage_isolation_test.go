package e2e

import (
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
)

// TestCredentialsOpenOneBucketOnly tries every operation on a bucket with the credentials of another
// one of the same organization, and of another organization.
func TestCredentialsOpenOneBucketOnly(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	foreign := s.SecondOrganization()
	theirs := s.NewBucket("theirs")
	theirs.Put("secret", "top secret")
	upload, err := theirs.Core().NewMultipartUpload(t.Context(), "theirs", "secret", minio.PutObjectOptions{})
	s.Must(err)
	for _, mine := range []installation.Bucket{s.NewBucket("mine"), foreign.NewBucket("foreign")} {
		checkBucketRefused(mine, upload)
		if keys := mine.Keys(""); len(keys) != 0 {
			t.Errorf("%s has %q", mine.Name, keys)
		}
	}
	for _, path := range []string{"/storage/objects/theirs", "/storage/stats/theirs", "/storage/folders/theirs", "/storage/presign/theirs?key=secret", "/bucket/config/theirs"} {
		foreign.Call("GET", path, nil).Want(404)
	}
	foreign.Call("DELETE", "/storage/objects/theirs?key=secret", nil).Want(404)
	foreign.Call("PUT", "/bucket/config/theirs", object{"public": true}).Want(404)
	foreign.Call("DELETE", "/resource/"+foreign.OrgID+"/local", installation.BucketRequest("theirs")).Want(404)
	foreign.Call("POST", "/resource/"+foreign.OrgID+"/local", installation.BucketRequest("theirs")).Want(409)
	if got := theirs.Keys(""); !slices.Equal(got, []string{"secret"}) || theirs.Get("secret") != "top secret" {
		t.Errorf("keys are %q", got)
	}
}

// checkBucketRefused tries to use the bucket theirs, its object secret and an upload of it.
func checkBucketRefused(b installation.Bucket, upload string) {
	b.T.Helper()
	const deletion = "<Delete><Object><Key>secret</Key></Object></Delete>"
	sum := md5.Sum([]byte(deletion))
	own, err := b.Core().NewMultipartUpload(b.T.Context(), b.Name, "k", minio.PutObjectOptions{})
	b.Must(err)
	at, from := "/theirs/secret", []string{"X-Amz-Copy-Source", "/theirs/secret"}
	for _, r := range []struct {
		method, path, body string
		headers            []string
	}{
		{"HEAD", "/theirs", "", nil},
		{"GET", "/theirs", "", nil},
		{"GET", "/theirs?list-type=2", "", nil},
		{"GET", "/theirs?uploads=", "", nil},
		{"GET", at, "", nil},
		{"HEAD", at, "", nil},
		{"GET", at + "?tagging=", "", nil},
		{"GET", at + "?attributes=", "", []string{"X-Amz-Object-Attributes", "ObjectSize"}},
		{"PUT", at, "changed", nil},
		{"PUT", at + "?tagging=", "<Tagging><TagSet></TagSet></Tagging>", nil},
		{"DELETE", at, "", nil},
		{"POST", "/theirs?delete=", deletion, []string{"Content-Md5", base64.StdEncoding.EncodeToString(sum[:])}},
		{"POST", at + "?uploads=", "", nil},
		{"PUT", at + "?partNumber=1&uploadId=" + upload, "changed", nil},
		{"GET", at + "?uploadId=" + upload, "", nil},
		{"DELETE", at + "?uploadId=" + upload, "", nil},
		{"PUT", "/" + b.Name + "/stolen", "", from},
		{"PUT", "/" + b.Name + "/stolen", "", []string{"X-Amz-Copy-Source", "theirs%2Fsecret"}},
		{"PUT", "/" + b.Name + "/k?partNumber=1&uploadId=" + own, "", from},
		{"PUT", at, "", []string{"X-Amz-Copy-Source", "/" + b.Name + "/k"}},
		{"DELETE", "/theirs", "", nil},
		{"PUT", "/theirs?policy=", "{}", nil},
	} {
		got := b.Signed(r.method, r.path, r.body, r.headers...)
		got.WantDenied()
		anonymous := b.S3(r.method, r.path, r.body, r.headers...)
		anonymous.WantDenied()
		if strings.Contains(string(got.Body)+string(anonymous.Body), "top secret") {
			b.T.Errorf("%s %s returns the object", r.method, r.path)
		}
	}
}

// TestPathsDoNotLeaveTheBucket sends paths that name another bucket to servers which clean or decode
// them twice.
func TestPathsDoNotLeaveTheBucket(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	mine, theirs := s.NewBucket("mine"), s.NewBucket("theirs")
	theirs.Put("secret", "top secret")
	for _, path := range []string{
		"/mine/../theirs/secret",
		"/mine/%2e%2e/theirs/secret",
		"/mine/%2E%2E%2Ftheirs%2Fsecret",
		"/mine/..%2ftheirs%2fsecret",
		"/mine/..%5ctheirs%5csecret",
		"/mine/%252e%252e/theirs/secret",
		"/mine/%c0%ae%c0%ae/theirs/secret",
		"/mine/a/../../theirs/secret",
		"/mine//../../theirs/secret",
		"/./theirs/secret",
		"//theirs/secret",
		"/%74heirs/secret",
		"/theirs%2Fsecret",
		"/theirs%00/secret",
		"/mine%2F..%2Ftheirs/secret",
		"/THEIRS/secret",
		"/theirs./secret",
		"/../../../../etc/passwd",
		"/mine/../../../../etc/passwd",
		"/mine/secret%00",
		"/mine/%",
		"/mine/%zz",
		"/mine/%ff%fe",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			got := mine.Signed(method, path, map[string]string{"PUT": "changed"}[method])
			if strings.Contains(string(got.Body), "top secret") || strings.Contains(string(got.Body), "root:") || got.Status >= 500 {
				t.Errorf("%s %s: got %d %s", method, path, got.Status, got.Body)
			}
			if got.Status < 300 && method == "GET" && string(got.Body) != "changed" {
				t.Errorf("%s %s: got %d %s", method, path, got.Status, got.Body)
			}
		}
	}
	if got := theirs.Keys(""); !slices.Equal(got, []string{"secret"}) || theirs.Get("secret") != "top secret" {
		t.Errorf("the other bucket has %q", got)
	}
	if got := mine.Keys(""); len(got) != 0 {
		t.Errorf("what was deleted is listed: %q", got)
	}
	for _, source := range []string{"/mine/../theirs/secret", "mine/%2e%2e/theirs/secret", "/mine/..%2Ftheirs%2Fsecret", "//theirs/secret", "/./theirs/secret"} {
		got := mine.Signed("PUT", "/mine/copy", "", "X-Amz-Copy-Source", source)
		if got.Status < 400 || got.Status >= 500 {
			t.Errorf("copy of %s: got %d %s", source, got.Status, got.Body)
		}
	}
}

// TestBucketsThatLookLikeHosts has buckets with the names of hosts, and a domain in which host names
// are those of buckets.
func TestBucketsThatLookLikeHosts(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--s3-domain", "s3.example.com")
	for _, name := range []string{"127.0.0.1", "10.1.2.3", "a..b", "xn--bucket", "-a", "a_b", "Abc", "ab", "a/b", strings.Repeat("a", 64)} {
		s.Call("POST", "/resource/"+s.OrgID+"/local", installation.BucketRequest(name)).Want(422)
	}
	var all []installation.Bucket
	for _, name := range []string{"localhost", "example.com", "s3.example.com", "mine.s3.example.com", "mine", "api", "127-0-0-1", "1.2.3"} {
		b := s.NewBucket(name)
		b.Put("name", name)
		b.Put("mine/name", "below "+name)
		all = append(all, b)
	}
	got := map[string]string{}
	for _, b := range all {
		got[b.Name] = b.Get("name")
		for _, other := range all {
			if other.Name != b.Name {
				b.Signed("GET", "/"+other.Name+"/name", "").WantDenied()
			}
		}
	}
	want := map[string]string{}
	for _, b := range all {
		want[b.Name] = b.Name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	mine := all[slices.IndexFunc(all, func(b installation.Bucket) bool { return b.Name == "mine" })]
	for _, r := range []struct {
		host, path, want string
	}{
		{"mine.s3.example.com", "/name", "mine"},
		{"mine.s3.example.com:9000", "/name", "mine"},
		{"mine.s3.example.com", "/mine/name", "below mine"},
		{"s3.example.com", "/mine/name", "mine"},
		{"", "/mine/name", "mine"},
	} {
		if body := mine.Signed("GET", r.path, "", "Host", r.host).Want(http.StatusOK).Body; string(body) != r.want {
			t.Errorf("%s at %s: got %q, want %q", r.path, r.host, body, r.want)
		}
	}
	for _, host := range []string{"localhost.s3.example.com", "example.com.s3.example.com", "api.s3.example.com"} {
		mine.Signed("GET", "/name", "", "Host", host).WantDenied()
		mine.Signed("PUT", "/name", "changed", "Host", host).WantDenied()
	}
	for _, host := range []string{
		"mine.s3.example.com.s3.example.com", "mine.s3.example.com.evil.com", ".s3.example.com", "..s3.example.com", "mine.evil.com", "a/b.s3.example.com",
	} {
		for _, path := range []string{"/name", "/localhost/name", "/mine.s3.example.com/name"} {
			got := mine.Signed("GET", path, "", "Host", host)
			if got.Status == http.StatusOK && string(got.Body) != "mine" || got.Status >= 500 {
				t.Errorf("%s at %s: got %d %q", path, host, got.Status, got.Body)
			}
		}
	}
}
