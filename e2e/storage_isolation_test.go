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
)

// TestCredentialsOpenOneBucketOnly tries every operation on a bucket with the credentials of another
// one of the same organization, and of another organization.
func TestCredentialsOpenOneBucketOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		foreign := s.secondOrganization()
		theirs := s.bucket("theirs")
		theirs.put("secret", "top secret")
		upload, err := theirs.core().NewMultipartUpload(t.Context(), "theirs", "secret", minio.PutObjectOptions{})
		s.must(err)
		for _, mine := range []bucket{s.bucket("mine"), foreign.bucket("foreign")} {
			mine.checkRefused(upload)
			if keys := mine.keys(""); len(keys) != 0 {
				t.Errorf("%s has %q", mine.name, keys)
			}
		}
		for _, path := range []string{"/storage/objects/theirs", "/storage/stats/theirs", "/storage/folders/theirs", "/storage/presign/theirs?key=secret", "/bucket/config/theirs"} {
			foreign.call("GET", path, nil).want(404)
		}
		foreign.call("DELETE", "/storage/objects/theirs?key=secret", nil).want(404)
		foreign.call("PUT", "/bucket/config/theirs", object{"public": true}).want(404)
		foreign.call("DELETE", "/resource/"+foreign.orgID+"/local", resources("theirs")).want(404)
		foreign.call("POST", "/resource/"+foreign.orgID+"/local", resources("theirs")).want(409)
		if got := theirs.keys(""); !slices.Equal(got, []string{"secret"}) || theirs.get("secret") != "top secret" {
			t.Errorf("keys are %q", got)
		}
	})
}

// checkRefused tries to use the bucket theirs, its object secret and an upload of it.
func (b bucket) checkRefused(upload string) {
	b.t.Helper()
	const deletion = "<Delete><Object><Key>secret</Key></Object></Delete>"
	sum := md5.Sum([]byte(deletion))
	own, err := b.core().NewMultipartUpload(b.t.Context(), b.name, "k", minio.PutObjectOptions{})
	b.must(err)
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
		{"PUT", "/" + b.name + "/stolen", "", from},
		{"PUT", "/" + b.name + "/stolen", "", []string{"X-Amz-Copy-Source", "theirs%2Fsecret"}},
		{"PUT", "/" + b.name + "/k?partNumber=1&uploadId=" + own, "", from},
		{"PUT", at, "", []string{"X-Amz-Copy-Source", "/" + b.name + "/k"}},
		{"DELETE", "/theirs", "", nil},
		{"PUT", "/theirs?policy=", "{}", nil},
	} {
		got := b.signed(r.method, r.path, r.body, r.headers...)
		got.wantDenied()
		anonymous := b.s3(r.method, r.path, r.body, r.headers...)
		anonymous.wantDenied()
		if strings.Contains(string(got.body)+string(anonymous.body), "top secret") {
			b.t.Errorf("%s %s returns the object", r.method, r.path)
		}
	}
}

// TestPathsDoNotLeaveTheBucket sends paths that name another bucket to servers which clean or decode
// them twice.
func TestPathsDoNotLeaveTheBucket(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	mine, theirs := s.bucket("mine"), s.bucket("theirs")
	theirs.put("secret", "top secret")
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
			got := mine.signed(method, path, map[string]string{"PUT": "changed"}[method])
			if strings.Contains(string(got.body), "top secret") || strings.Contains(string(got.body), "root:") || got.status >= 500 {
				t.Errorf("%s %s: got %d %s", method, path, got.status, got.body)
			}
			if got.status < 300 && method == "GET" && string(got.body) != "changed" {
				t.Errorf("%s %s: got %d %s", method, path, got.status, got.body)
			}
		}
	}
	if got := theirs.keys(""); !slices.Equal(got, []string{"secret"}) || theirs.get("secret") != "top secret" {
		t.Errorf("the other bucket has %q", got)
	}
	if got := mine.keys(""); len(got) != 0 {
		t.Errorf("what was deleted is listed: %q", got)
	}
	for _, source := range []string{"/mine/../theirs/secret", "mine/%2e%2e/theirs/secret", "/mine/..%2Ftheirs%2Fsecret", "//theirs/secret", "/./theirs/secret"} {
		got := mine.signed("PUT", "/mine/copy", "", "X-Amz-Copy-Source", source)
		if got.status < 400 || got.status >= 500 {
			t.Errorf("copy of %s: got %d %s", source, got.status, got.body)
		}
	}
}

// TestBucketsThatLookLikeHosts has buckets with the names of hosts, and a domain in which host names
// are those of buckets.
func TestBucketsThatLookLikeHosts(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite", "--s3-domain", "s3.example.com")
	for _, name := range []string{"127.0.0.1", "10.1.2.3", "a..b", "xn--bucket", "-a", "a_b", "Abc", "ab", "a/b", strings.Repeat("a", 64)} {
		s.call("POST", "/resource/"+s.orgID+"/local", resources(name)).want(422)
	}
	var all []bucket
	for _, name := range []string{"localhost", "example.com", "s3.example.com", "mine.s3.example.com", "mine", "api", "127-0-0-1", "1.2.3"} {
		b := s.bucket(name)
		b.put("name", name)
		b.put("mine/name", "below "+name)
		all = append(all, b)
	}
	got := map[string]string{}
	for _, b := range all {
		got[b.name] = b.get("name")
		for _, other := range all {
			if other.name != b.name {
				b.signed("GET", "/"+other.name+"/name", "").wantDenied()
			}
		}
	}
	want := map[string]string{}
	for _, b := range all {
		want[b.name] = b.name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	mine := all[slices.IndexFunc(all, func(b bucket) bool { return b.name == "mine" })]
	for _, r := range []struct {
		host, path, want string
	}{
		{"mine.s3.example.com", "/name", "mine"},
		{"mine.s3.example.com:9000", "/name", "mine"},
		{"mine.s3.example.com", "/mine/name", "below mine"},
		{"s3.example.com", "/mine/name", "mine"},
		{"", "/mine/name", "mine"},
	} {
		if body := mine.signed("GET", r.path, "", "Host", r.host).want(http.StatusOK).body; string(body) != r.want {
			t.Errorf("%s at %s: got %q, want %q", r.path, r.host, body, r.want)
		}
	}
	for _, host := range []string{"localhost.s3.example.com", "example.com.s3.example.com", "api.s3.example.com"} {
		mine.signed("GET", "/name", "", "Host", host).wantDenied()
		mine.signed("PUT", "/name", "changed", "Host", host).wantDenied()
	}
	for _, host := range []string{
		"mine.s3.example.com.s3.example.com", "mine.s3.example.com.evil.com", ".s3.example.com", "..s3.example.com", "mine.evil.com", "a/b.s3.example.com",
	} {
		for _, path := range []string{"/name", "/localhost/name", "/mine.s3.example.com/name"} {
			got := mine.signed("GET", path, "", "Host", host)
			if got.status == http.StatusOK && string(got.body) != "mine" || got.status >= 500 {
				t.Errorf("%s at %s: got %d %q", path, host, got.status, got.body)
			}
		}
	}
}
