package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/e2e/process"
	"steward/internal/blob"
	"steward/internal/db"
	objects "steward/internal/object"
	"steward/internal/seal"
)

// eachStorage runs a test on a fresh installation on each database with each blob store: files, or a
// bucket of an S3 cluster, which is another Steward here.
func eachStorage(t *testing.T, test func(t *testing.T, s *steward)) {
	for _, database := range process.Databases {
		t.Run(database+"/disk", func(t *testing.T) { test(t, start(t, database)) })
		t.Run(database+"/cluster", func(t *testing.T) {
			s, cluster := startOnCluster(t, database)
			test(t, s)
			if len(cluster.list("blobs/")) == 0 {
				t.Error("the cluster has no blobs")
			}
		})
	}
}

// startOnCluster starts a fresh installation whose blobs are in a bucket of another one, which it
// returns, too. The other one keeps its S3 address when it is started again.
func startOnCluster(t *testing.T, database string, args ...string) (s *steward, cluster bucket) {
	t.Helper()
	other := start(t, "sqlite")
	other.Args = append(other.Args, "--s3-listen", other.addresses().Listen["s3"])
	cluster = other.bucket("cluster")
	endpoint := url.Values{"endpoint": {other.addresses().S3URL}}
	s = prepare(t, database, append(args, "--blob-url", "s3://cluster/blobs?"+endpoint.Encode())...)
	s.Env = append(s.Env, "STEWARD_BLOB_ACCESS_KEY="+cluster.access, "STEWARD_BLOB_SECRET_KEY="+cluster.secret)
	s.start()
	return s, cluster
}

// bucket is a bucket of an installation, with its credentials.
type bucket struct {
	*steward
	name, access, secret string
}

// bucket creates a bucket.
func (s *steward) bucket(name string) bucket {
	s.t.Helper()
	var made struct {
		Created []struct{ Env map[string]string }
	}
	s.call("POST", "/resource/"+s.orgID+"/local", resources(name)).want(201).decode(&made)
	env := made.Created[0].Env
	if env["S3_ENDPOINT"] != s.addresses().S3URL {
		s.t.Errorf("S3_ENDPOINT is %s, want %s", env["S3_ENDPOINT"], s.addresses().S3URL)
	}
	return bucket{s, env["S3_BUCKET"], env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"]}
}

// remove deletes the bucket.
func (b bucket) remove() {
	b.t.Helper()
	b.call("DELETE", "/resource/"+b.orgID+"/local", resources(b.name)).want(204)
}

// resources is the body of a request that creates or deletes a bucket.
func resources(name string) object {
	return object{"resources": []object{{"type": "s3", "name": name}}}
}

// at returns the bucket as another replica serves it.
func (b bucket) at(replica *steward) bucket {
	b.steward = replica
	return b
}

// core returns a client with the credentials of the bucket, which does not retry.
func (b bucket) core() minio.Core {
	b.t.Helper()
	c, err := minio.New(b.addresses().Listen["s3"], &minio.Options{
		Creds: credentials.NewStaticV4(b.access, b.secret, ""), TrailingHeaders: true, MaxRetries: 1, Region: "us-east-1",
	})
	b.must(err)
	return minio.Core{Client: c}
}

// put stores an object.
func (b bucket) put(key, content string) {
	b.t.Helper()
	b.must(b.tryPut(key, content, minio.PutObjectOptions{}))
}

func (b bucket) tryPut(key, content string, options minio.PutObjectOptions) error {
	b.t.Helper()
	_, err := b.core().Client.PutObject(b.t.Context(), b.name, key, strings.NewReader(content), int64(len(content)), options)
	return err
}

// content returns the bytes of an object, or those that the options select.
func (b bucket) content(key string, options minio.GetObjectOptions) string {
	b.t.Helper()
	body, _, _, err := b.core().GetObject(b.t.Context(), b.name, key, options)
	b.must(err)
	defer body.Close()
	content, err := io.ReadAll(body)
	b.must(err)
	return string(content)
}

func (b bucket) get(key string) string {
	b.t.Helper()
	return b.content(key, minio.GetObjectOptions{})
}

// list returns the objects with a prefix as S3 lists them, page by page.
func (b bucket) list(prefix string) (all []minio.ObjectInfo) {
	b.t.Helper()
	for o := range b.core().ListObjectsIter(b.t.Context(), b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: 100}) {
		b.must(o.Err)
		all = append(all, o)
	}
	return all
}

// keys returns the keys that S3 lists.
func (b bucket) keys(prefix string) []string {
	b.t.Helper()
	keys := []string{}
	for _, o := range b.list(prefix) {
		keys = append(keys, o.Key)
	}
	return keys
}

// wantCode fails unless an error is the S3 error of a code.
func (b bucket) wantCode(what string, err error, code string) {
	b.t.Helper()
	if got := minio.ToErrorResponse(err).Code; err == nil || got != code {
		b.t.Errorf("%s: got %q (%v), want %q", what, got, err, code)
	}
}

// s3 sends a request to the S3 listener without a signature. The path is sent as it is; headers come
// in pairs.
func (s *steward) s3(method, path, body string, headers ...string) *response {
	s.t.Helper()
	return s.do(s.s3Request(method, path, body, headers...))
}

// signed sends a request to the S3 listener with the signature of the bucket's credentials.
func (b bucket) signed(method, path, body string, headers ...string) *response {
	b.t.Helper()
	r := b.s3Request(method, path, body, headers...)
	sum := sha256.Sum256([]byte(body))
	payload := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", payload)
	b.must(signer().SignHTTP(b.t.Context(), b.credentials(), r, payload, "s3", "us-east-1", time.Now()))
	return b.do(r)
}

// presigned returns a URL that was signed at some time.
func (b bucket) presigned(method, key string, at time.Time, expires string) string {
	b.t.Helper()
	r := b.s3Request(method, "/"+b.name+"/"+key+"?X-Amz-Expires="+expires, "")
	signed, _, err := signer().PresignHTTP(b.t.Context(), b.credentials(), r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", at)
	b.must(err)
	return signed
}

func signer() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

func (b bucket) credentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: b.access, SecretAccessKey: b.secret}
}

func (s *steward) s3Request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	address := s.addresses().Listen["s3"]
	r, err := http.NewRequest(method, "http://"+address, bytes.NewReader([]byte(body)))
	s.must(err)
	path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.URL.Opaque = "//" + address + path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	return r
}

// do sends a request. The signer needs the address in the opaque part of the URL, from which only a
// path with two slashes is sent as it is: as an absolute URL.
func (s *steward) do(r *http.Request) *response {
	s.t.Helper()
	what := r.Method + " " + r.URL.Opaque
	if path := strings.TrimPrefix(r.URL.Opaque, "//"+r.URL.Host); !strings.HasPrefix(path, "//") {
		r.URL.Opaque = path
	}
	res, err := client.Do(r)
	s.must(err)
	got, err := read(s.t, res)
	s.must(err)
	got.what = what
	return got
}

// offlineObjects calls a function with a cleaner of the installation's objects, on files, and its own
// clock, while the process is stopped.
func (s *steward) offlineObjects(now func() time.Time, do func(ctx context.Context, d *db.DB, cleaner *objects.Cleaner)) {
	s.t.Helper()
	s.offline(func(ctx context.Context, d *db.DB) {
		key, err := seal.KeyFile(s.Dir)
		s.must(err)
		ring, err := seal.NewRing(key)
		s.must(err)
		disk, err := blob.OpenDisk(filepath.Join(s.Dir, "blobs"))
		s.must(err)
		log := slog.New(slog.DiscardHandler)
		blobs := &objects.Blobs{DB: d, Store: disk, Now: now, Log: log}
		do(ctx, d, &objects.Cleaner{
			DB: d, Buckets: &objects.Buckets{DB: d, Ring: ring, Now: now}, Index: &objects.Index{DB: d, Blobs: blobs, Now: now},
			Blobs: blobs, Now: now, Log: log,
		})
	})
}

// wantDenied fails the test unless a request was refused. The deletion of several objects is refused
// for each of them.
func (r *response) wantDenied() {
	r.t.Helper()
	each := r.status == http.StatusOK && bytes.Contains(r.body, []byte("<DeleteResult><Error><Code>AccessDenied</Code>")) &&
		!bytes.Contains(r.body, []byte("<Deleted>"))
	if r.status != http.StatusForbidden && !each {
		r.t.Errorf("%s: got %d, want 403: %s", r.what, r.status, r.body)
	}
}
