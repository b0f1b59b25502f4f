package installation

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/object/s3/sigv4"
	"steward/internal/object/s3/sigv4/sigv4test"
	"steward/internal/porttest"
)

// StartOnCluster starts a fresh installation that keeps its blobs in another installation's bucket, which
// it also returns. The other installation keeps its S3 address across restarts.
func StartOnCluster(t *testing.T, database string, args ...string) (s *Steward, cluster Bucket) {
	t.Helper()
	other := Start(t, "sqlite", "--s3-listen", porttest.Address(porttest.Free(t)))
	cluster = other.NewBucket("cluster")
	endpoint := url.Values{"endpoint": {other.Addresses().S3URL}}
	s = Prepare(t, database, append(args, "--blob-url", "s3://cluster/blobs?"+endpoint.Encode())...)
	s.Env = append(s.Env, "STEWARD_BLOB_ACCESS_KEY="+cluster.Access, "STEWARD_BLOB_SECRET_KEY="+cluster.Secret)
	s.Start()
	return s, cluster
}

// Bucket is one of an installation's buckets, with its credentials.
type Bucket struct {
	*Steward
	Name, Access, Secret string
}

// NewBucket creates a bucket.
func (s *Steward) NewBucket(name string) Bucket {
	s.T.Helper()
	var made struct {
		Created []struct{ Env map[string]string }
	}
	s.Call("POST", "/resource/"+s.OrgID+"/local", BucketRequest(name)).Want(201).Decode(&made)
	env := made.Created[0].Env
	if env["S3_ENDPOINT"] != s.Addresses().S3URL {
		s.T.Errorf("S3_ENDPOINT is %s, want %s", env["S3_ENDPOINT"], s.Addresses().S3URL)
	}
	return Bucket{s, env["S3_BUCKET"], env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"]}
}

// Remove deletes the bucket.
func (b Bucket) Remove() {
	b.T.Helper()
	b.Call("DELETE", "/resource/"+b.OrgID+"/local", BucketRequest(b.Name)).Want(204)
}

// BucketRequest is the body for a request that creates or deletes a bucket.
func BucketRequest(name string) map[string]any {
	return map[string]any{"resources": []map[string]any{{"type": "s3", "name": name}}}
}

// At returns the bucket as another replica serves it.
func (b Bucket) At(replica *Steward) Bucket {
	b.Steward = replica
	return b
}

// Core returns a client with the bucket's credentials. It does not retry.
func (b Bucket) Core() minio.Core {
	b.T.Helper()
	c, err := minio.New(b.Addresses().Listen["s3"], &minio.Options{
		Creds: credentials.NewStaticV4(b.Access, b.Secret, ""), TrailingHeaders: true, MaxRetries: 1, Region: "us-east-1",
	})
	b.Must(err)
	return minio.Core{Client: c}
}

// Put stores an object.
func (b Bucket) Put(key, content string) {
	b.T.Helper()
	b.Must(b.TryPut(key, content, minio.PutObjectOptions{}))
}

// TryPut stores an object and returns S3's error, if there is one.
func (b Bucket) TryPut(key, content string, options minio.PutObjectOptions) error {
	b.T.Helper()
	_, err := b.Core().Client.PutObject(b.T.Context(), b.Name, key, strings.NewReader(content), int64(len(content)), options)
	return err
}

// Content returns an object's bytes, or the part that the options select.
func (b Bucket) Content(key string, options minio.GetObjectOptions) string {
	b.T.Helper()
	body, _, _, err := b.Core().GetObject(b.T.Context(), b.Name, key, options)
	b.Must(err)
	defer body.Close()
	content, err := io.ReadAll(body)
	b.Must(err)
	return string(content)
}

// Get returns an object's bytes.
func (b Bucket) Get(key string) string {
	b.T.Helper()
	return b.Content(key, minio.GetObjectOptions{})
}

// List returns the objects with a prefix, page by page as S3 lists them.
func (b Bucket) List(prefix string) (all []minio.ObjectInfo) {
	b.T.Helper()
	for o := range b.Core().ListObjectsIter(b.T.Context(), b.Name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: 100}) {
		b.Must(o.Err)
		all = append(all, o)
	}
	return all
}

// Keys returns the keys that S3 lists.
func (b Bucket) Keys(prefix string) []string {
	b.T.Helper()
	keys := []string{}
	for _, o := range b.List(prefix) {
		keys = append(keys, o.Key)
	}
	return keys
}

// WantCode fails unless err is an S3 error with this code.
func (b Bucket) WantCode(what string, err error, code string) {
	b.T.Helper()
	if got := minio.ToErrorResponse(err).Code; err == nil || got != code {
		b.T.Errorf("%s: got %q (%v), want %q", what, got, err, code)
	}
}

// S3 sends a request to the S3 listener without a signature. It sends the path unchanged; headers come in
// pairs.
func (s *Steward) S3(method, path, body string, headers ...string) *Response {
	s.T.Helper()
	return s.do(s.s3Request(method, path, body, headers...))
}

// Signed sends a request to the S3 listener, signed with the bucket's credentials.
func (b Bucket) Signed(method, path, body string, headers ...string) *Response {
	b.T.Helper()
	r := b.s3Request(method, path, body, headers...)
	sigv4test.Signer{Access: b.Access, Secret: b.Secret, Payload: sigv4test.Hash(body)}.Sign(r)
	return b.do(r)
}

// Presigned returns a URL that was signed at the given time. The key must need no escaping.
func (b Bucket) Presigned(method, key string, at time.Time, expires time.Duration) string {
	b.T.Helper()
	target := url.URL{Scheme: "http", Host: b.Addresses().Listen["s3"], Path: "/" + b.Name + "/" + key}
	return sigv4.Presign(sigv4.Presigned{
		Method: method, URL: target, AccessKey: b.Access, Secret: b.Secret, Region: "us-east-1", At: at, Expires: expires,
	})
}

func (s *Steward) s3Request(method, path, body string, headers ...string) *http.Request {
	s.T.Helper()
	address := s.Addresses().Listen["s3"]
	r, err := http.NewRequest(method, "http://"+address, bytes.NewReader([]byte(body)))
	s.Must(err)
	path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.URL.Opaque = "//" + address + path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	return r
}

// do sends a request. The signer needs the address in the URL's opaque part. Of that we keep only the
// path, unless the path begins with two slashes: such a path only goes out unchanged in an absolute URL.
func (s *Steward) do(r *http.Request) *Response {
	s.T.Helper()
	what := r.Method + " " + r.URL.Opaque
	if path := strings.TrimPrefix(r.URL.Opaque, "//"+r.URL.Host); !strings.HasPrefix(path, "//") {
		r.URL.Opaque = path
	}
	res, err := Client.Do(r)
	s.Must(err)
	got, err := ReadResponse(s.T, res)
	s.Must(err)
	got.What = what
	return got
}

// WantDenied fails the test unless the server refused the request. If the request deletes several
// objects, the server must refuse each of them.
func (r *Response) WantDenied() {
	r.T.Helper()
	each := r.Status == http.StatusOK && bytes.Contains(r.Body, []byte("<DeleteResult><Error><Code>AccessDenied</Code>")) &&
		!bytes.Contains(r.Body, []byte("<Deleted>"))
	if r.Status != http.StatusForbidden && !each {
		r.T.Errorf("%s: got %d, want 403: %s", r.What, r.Status, r.Body)
	}
}

// Configure changes the bucket's configuration.
func (b Bucket) Configure(config map[string]any) {
	b.T.Helper()
	b.Call("PUT", "/bucket/config/"+b.Name, config).Want(200)
}

// EachStorage runs a test on a fresh installation with each database and each blob store: SQLite with
// files, as on a single machine, and PostgreSQL with a bucket in an S3 cluster, which is another Steward
// here.
func EachStorage(t *testing.T, test func(t *testing.T, s *Steward)) {
	t.Run("sqlite/disk", func(t *testing.T) { test(t, Start(t, "sqlite")) })
	t.Run("postgres/cluster", func(t *testing.T) {
		s, cluster := StartOnCluster(t, "postgres")
		test(t, s)
		if len(cluster.List("blobs/")) == 0 {
			t.Error("the cluster has no blobs")
		}
	})
}
