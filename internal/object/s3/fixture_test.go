package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/object/s3/sigv4/sigv4test"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/waittest"
)

const console = "https://steward.example.com"

// fixture is a running server with buckets of one organization.
type fixture struct {
	*testing.T

	db      *db.DB
	address string
	buckets *object.Buckets
	index   *object.Index
	server  *s3.Server
	blobs   *faultyBlobs
	now     func() time.Time

	transport *http.Transport // of all clients
}

// each runs a test with a server on each database.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, start(t, d, &s3.Server{})) })
}

// onSQLite starts a server for a test of what does not depend on the database.
func onSQLite(t *testing.T) *fixture {
	t.Helper()
	return start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
}

// start starts a server with these settings.
func start(t *testing.T, d *db.DB, server *s3.Server) *fixture {
	t.Helper()
	disk, err := blob.OpenDisk(t.TempDir())
	check(t, err)
	return serve(t, d, &faultyBlobs{Store: disk}, server)
}

// replica starts another server on the same database and blobs.
func (f *fixture) replica() *fixture {
	f.Helper()
	return serve(f.T, f.db, f.blobs, &s3.Server{Domain: f.server.Domain})
}

// serve starts a server on a database and blobs.
func serve(t *testing.T, d *db.DB, blobs *faultyBlobs, server *s3.Server) *fixture {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{1}, seal.KeySize))
	check(t, err)
	transport, err := minio.DefaultTransport(false)
	check(t, err)
	f := &fixture{T: t, db: d, blobs: blobs, server: server, now: time.Now, transport: transport}
	now := func() time.Time { return f.now() }
	log := slog.New(slog.DiscardHandler)
	stored := &object.Blobs{DB: d, Store: blobs, Now: now, Log: log}
	f.buckets = &object.Buckets{DB: d, Ring: ring, Now: now, Audit: &audit.Store{Now: now}}
	f.index = &object.Index{DB: d, Blobs: stored, Now: now}
	d.Watch(object.Cache, f.buckets.Forget)
	f.server.Buckets = f.buckets
	f.server.Index = f.index
	f.server.Uploads = &object.Uploads{DB: d, Index: f.index, Blobs: stored, Now: now}
	f.server.Blobs = stored
	f.server.Console = console
	f.server.Log = log
	f.server.Now = time.Now
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	f.address = listener.Addr().String()
	f.server.Origin = "http://" + f.address
	check(t, f.server.Start(listener))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		transport.CloseIdleConnections() // Shutdown waits a minute for one that has never sent a request
		check(t, f.server.Shutdown(context.Background()))
		check(t, waittest.Receive(t, "the end of the server", f.server.Ended()))
	})
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// faultyBlobs is a blob store that can be made to fail.
type faultyBlobs struct {
	blob.Store

	err     error           // of Put, after half of the bytes
	openErr error           // of Open
	closed  chan<- struct{} // receives when a blob that was opened is closed; may be nil
}

func (f *faultyBlobs) Put(ctx context.Context, id string, r io.Reader, size int64) error {
	if f.err == nil {
		return f.Store.Put(ctx, id, r, size)
	}
	if _, err := io.CopyN(io.Discard, r, max(size, 0)/2); err != nil {
		return err
	}
	return f.err
}

// newBucket creates a bucket.
func (f *fixture) newBucket(name string) *object.Bucket {
	f.Helper()
	return f.newBucketOf("org_1", name)
}

// newBucketOf creates an organization's bucket.
func (f *fixture) newBucketOf(orgID, name string) *object.Bucket {
	f.Helper()
	var b *object.Bucket
	check(f, f.db.Write(f.Context(), func(tx *db.Tx) (err error) {
		b, err = f.buckets.Create(tx, &auth.Caller{OrgID: orgID, UserID: "usr_1"}, object.NewBucket{Name: name, Region: "local"})
		return err
	}))
	return b
}

func refOf(b *object.Bucket) object.BucketRef {
	return object.BucketRef{OrgID: b.OrgID, Region: b.Region, Name: b.Name}
}

// configure changes the configuration of a bucket.
func (f *fixture) configure(b *object.Bucket, p object.Patch) {
	f.Helper()
	_, err := f.buckets.UpdateConfig(f.Context(), b, p, page.IfMatch{})
	check(f, err)
}

// client returns a client with the credentials of a bucket.
func (f *fixture) client(b *object.Bucket) *minio.Client {
	f.Helper()
	return f.clientOf(b.AccessKey, b.SecretKey)
}

func (f *fixture) clientOf(accessKey, secretKey string) *minio.Client {
	f.Helper()
	c, err := minio.New(f.address, &minio.Options{
		Creds: credentials.NewStaticV4(accessKey, secretKey, ""), TrailingHeaders: true, MaxRetries: 1, Transport: f.transport,
	})
	check(f, err)
	return c
}

func (f *fixture) core(b *object.Bucket) minio.Core { return minio.Core{Client: f.client(b)} }

// put stores an object.
func (f *fixture) put(b *object.Bucket, key, content string) minio.UploadInfo {
	f.Helper()
	info, err := f.client(b).PutObject(f.Context(), b.Name, key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
	check(f, err)
	return info
}

// get returns an object.
func (f *fixture) get(b *object.Bucket, key string) string {
	f.Helper()
	return string(f.read(b, key, minio.GetObjectOptions{}))
}

func (f *fixture) read(b *object.Bucket, key string, o minio.GetObjectOptions) []byte {
	f.Helper()
	body, _, _, err := f.core(b).GetObject(f.Context(), b.Name, key, o)
	check(f, err)
	defer body.Close()
	content, err := io.ReadAll(body)
	check(f, err)
	return content
}

// keys returns the keys of a bucket as the index has them.
func (f *fixture) keys(b *object.Bucket) []string {
	f.Helper()
	l, err := f.index.List(f.Context(), b, object.ListRequest{Limit: 1000})
	check(f, err)
	keys := []string{}
	for _, o := range l.Objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// wantCode fails unless an error is the S3 error of a code.
func wantCode(t testing.TB, doing string, err error, want string) {
	t.Helper()
	if got := minio.ToErrorResponse(err).Code; err == nil || got != want {
		t.Errorf("%s: got %q (%v), want %q", doing, got, err, want)
	}
}

// response is the response to a plain HTTP request.
type response struct {
	status int
	header http.Header
	body   string
}

// call is a plain HTTP request.
type call struct {
	method, path string // the path is sent as it is
	header       map[string]string
	body         string
	by           *object.Bucket // who signs it, or nil
	host         string
	at           time.Time // of the signature
	region       string
	payload      string // X-Amz-Content-Sha256, if not that of the body
}

func (f *fixture) do(c call) response {
	f.Helper()
	r := f.request(c)
	resp, err := http.DefaultClient.Do(r)
	check(f, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(f, err)
	return response{resp.StatusCode, resp.Header, string(body)}
}

func (f *fixture) request(c call) *http.Request {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), c.method, f.server.Origin+c.path, strings.NewReader(c.body))
	check(f, err)
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	r.Host = c.host
	if c.by != nil {
		f.sign(r, c)
	}
	return r
}

func (f *fixture) sign(r *http.Request, c call) {
	f.Helper()
	payload := c.payload
	if payload == "" {
		payload = sigv4test.Hash(c.body)
	}
	sigv4test.Signer{Access: c.by.AccessKey, Secret: c.by.SecretKey, Region: c.region, At: c.at, Payload: payload}.Sign(r)
}

func (r response) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if r.status != status || code != "" && !strings.Contains(r.body, "<Code>"+code+"</Code>") {
		t.Errorf("%s: got %d %s, want %d %s", what, r.status, r.body, status, code)
	}
}

// failingReader fails after some bytes, like a client that goes away.
type failingReader struct{ r io.Reader }

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the client goes away")
	}
	return n, err
}
