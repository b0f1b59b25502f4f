package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/blob"
	"steward/internal/blob/blobtest"
	"steward/internal/id"
	"steward/internal/waittest"
)

// gateway returns the path of a real S3 server, versitygw, and builds it if that was not done before.
func gateway(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("../../tools/versitygw").Output()
	if err != nil {
		t.Fatalf("tools/versitygw: %v", err)
	}
	return strings.TrimSpace(string(out))
}

const (
	accessKey = "blob-test"
	secretKey = "blob-test-secret"
)

// startGateway starts a server and returns its origin.
func startGateway(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	meta := t.TempDir()
	address := freeAddress(t)
	server := exec.Command(gateway(t), "--access", accessKey, "--secret", secretKey, "--port", address, "--quiet", "--health", "/healthz",
		"posix", "--sidecar", meta, root)
	server.Stdout = os.Stderr
	server.Stderr = os.Stderr
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	waittest.True(t, "the S3 server", func() bool {
		r, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return false
		}
		return r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	return "http://" + address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

func client(t *testing.T, origin string) *minio.Client {
	t.Helper()
	c, err := minio.New(origin[len("http://"):], &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")})
	must(t, err)
	return c
}

func options(origin, bucket string) blob.S3Options {
	return blob.S3Options{Endpoint: origin, Region: "us-east-1", Bucket: bucket, Prefix: "some/prefix", AccessKey: accessKey, SecretKey: secretKey}
}

func TestS3(t *testing.T) {
	origin := startGateway(t)
	var buckets atomic.Int64
	newStore := func(t *testing.T) (s *blob.S3, bucket string) {
		bucket = fmt.Sprintf("blobs-%d", buckets.Add(1))
		must(t, client(t, origin).MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}))
		s, err := blob.OpenS3(t.Context(), options(origin, bucket))
		must(t, err)
		return s, bucket
	}
	blobtest.Run(t, func(t *testing.T) blob.Store {
		s, _ := newStore(t)
		return s
	})
	t.Run("what a crash left is listed", func(t *testing.T) {
		s, bucket := newStore(t)
		testCrashedUpload(t, s, minio.Core{Client: client(t, origin)}, bucket)
	})
	t.Run("halves are swept", func(t *testing.T) {
		s, bucket := newStore(t)
		testSweep(t, s, minio.Core{Client: client(t, origin)}, bucket)
	})
	t.Run("what cannot be used is refused", func(t *testing.T) { testRefused(t, options(origin, "missing")) })
}

// testCrashedUpload begins a multipart upload, as a Put that was killed would have.
func testCrashedUpload(t *testing.T, s *blob.S3, core minio.Core, bucket string) {
	left := id.Blob(time.Now())
	_, err := core.NewMultipartUpload(t.Context(), bucket, "some/prefix/"+left[24:]+"/"+left, minio.PutObjectOptions{})
	must(t, err)
	whole := id.Blob(time.Now())
	must(t, s.Put(t.Context(), whole, bytes.NewReader([]byte("x")), 1))
	if got := blobtest.IDs(t, s); !slices.Equal(got, []string{left, whole}) {
		t.Errorf("listed %v, want %v", got, []string{left, whole})
	}
	must(t, s.Delete(t.Context(), left))
	if got := blobtest.IDs(t, s); !slices.Equal(got, []string{whole}) {
		t.Errorf("listed %v afterwards", got)
	}
}

// testSweep begins uploads, and sweeps before and after a time.
func testSweep(t *testing.T, s *blob.S3, core minio.Core, bucket string) {
	whole := id.Blob(time.Now())
	must(t, s.Put(t.Context(), whole, bytes.NewReader([]byte("x")), 1))
	for _, prefix := range []string{"some/prefix/", "some/other/"} {
		for range 3 {
			left := id.Blob(time.Now())
			_, err := core.NewMultipartUpload(t.Context(), bucket, prefix+left[24:]+"/"+left, minio.PutObjectOptions{})
			must(t, err)
		}
	}
	must(t, s.Sweep(t.Context(), time.Now().Add(-time.Hour)))
	if got := blobtest.IDs(t, s); len(got) != 4 {
		t.Errorf("listed %v after what is older than an hour was deleted", got)
	}
	must(t, s.Sweep(t.Context(), time.Now().Add(time.Hour)))
	if got := blobtest.IDs(t, s); !slices.Equal(got, []string{whole}) {
		t.Errorf("listed %v after everything was swept", got)
	}
	other, err := core.ListMultipartUploads(t.Context(), bucket, "some/other/", "", "", "", 10)
	must(t, err)
	if len(other.Uploads) != 3 {
		t.Errorf("%d uploads are left elsewhere, want 3", len(other.Uploads))
	}
}

func testRefused(t *testing.T, o blob.S3Options) {
	if _, err := blob.OpenS3(t.Context(), o); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("no bucket: %v", err)
	}
	o.SecretKey = "wrong"
	if _, err := blob.OpenS3(t.Context(), o); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("wrong secret: %v", err)
	}
	o.Endpoint = "http://" + freeAddress(t)
	if _, err := blob.OpenS3(t.Context(), o); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
}

func TestS3URLHasNoCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"s3://b?endpoint=http://h":                            "s3://b?endpoint=http://h",
		"s3://b/p%20q/?endpoint=https%3A%2F%2FH%3A9000/":      "s3://b/p%20q?endpoint=https://h:9000",
		"s3://b/p?endpoint=https://user:SECRET@h&region=eu 1": "s3://b/p?endpoint=https://h&region=eu+1",
	} {
		o, err := blob.ParseS3URL(text)
		must(t, err)
		o.AccessKey = "SECRET"
		o.SecretKey = "SECRET"
		if got := fmt.Sprint(o); got != want {
			t.Errorf("%s: got %s", text, got)
		}
		again, err := blob.ParseS3URL(want)
		must(t, err)
		if again.String() != want {
			t.Errorf("%s: got %s", want, again)
		}
	}
}

func TestParseS3URL(t *testing.T) {
	o, err := blob.ParseS3URL("s3://blobs/a/b/?endpoint=https://s3.example.com&region=eu")
	if want := (blob.S3Options{Endpoint: "https://s3.example.com", Region: "eu", Bucket: "blobs", Prefix: "a/b"}); err != nil || o != want {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, text := range []string{
		"", "blobs", "s3:///a?endpoint=https://x", "https://blobs?endpoint=https://x", "s3://blobs", "s3://blobs?endpoint=x",
		"s3://blobs?endpoint=ftp://x", "s3://blobs?endpoint=https://x/path", "s3://blobs?endpoint=https://x&regoin=y",
		"s3://key:secret@blobs?endpoint=https://x",
	} {
		if _, err := blob.ParseS3URL(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// brokenServer answers every request for an object as it is told. stop is closed when the test ends.
func brokenServer(t *testing.T, timeout time.Duration, answer func(w http.ResponseWriter, r *http.Request, stop <-chan struct{})) *blob.S3 {
	t.Helper()
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && r.URL.Path == "/blobs/" {
			return // the bucket exists
		}
		answer(w, r, stop)
	}))
	t.Cleanup(func() {
		close(stop)
		server.Close()
	})
	o := options(server.URL, "blobs")
	o.Timeout = timeout
	s, err := blob.OpenS3(t.Context(), o)
	for ; err != nil && o.Timeout < time.Hour; o.Timeout *= 2 { // on a busy machine even a good answer takes longer
		s, err = blob.OpenS3(t.Context(), o)
	}
	must(t, err)
	return s
}

func TestS3ThatIsBusyOrFull(t *testing.T) {
	for status, want := range map[int]error{503: blob.ErrUnavailable, 500: blob.ErrUnavailable, 403: blob.ErrUnavailable, 507: blob.ErrFull} {
		s := brokenServer(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) { w.WriteHeader(status) })
		blobID := id.Blob(time.Now())
		if err := s.Put(t.Context(), blobID, bytes.NewReader([]byte("x")), 1); !errors.Is(err, want) {
			t.Errorf("put, status %d: %v, want %v", status, err, want)
		}
		if _, err := s.Open(t.Context(), blobID, 0, -1); !errors.Is(err, want) {
			t.Errorf("open, status %d: %v, want %v", status, err, want)
		}
	}
}

// TestS3ThatStalls has a server that takes a request and never answers, and one that stops in the
// middle of an answer.
func TestS3ThatStalls(t *testing.T) {
	silent := brokenServer(t, 100*time.Millisecond, func(_ http.ResponseWriter, _ *http.Request, stop <-chan struct{}) { <-stop })
	if err := silent.Put(t.Context(), id.Blob(time.Now()), bytes.NewReader([]byte("x")), 1); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	answerHalf := func(w http.ResponseWriter, _ *http.Request, stop <-chan struct{}) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write(make([]byte, 500))
		_ = http.NewResponseController(w).Flush()
		<-stop
	}
	read := int64(0)
	for timeout := 100 * time.Millisecond; read < 500; timeout *= 2 { // until the first half comes in time
		r, err := brokenServer(t, timeout, answerHalf).Open(t.Context(), id.Blob(time.Now()), 0, -1)
		if err == nil {
			read, err = io.Copy(io.Discard, r)
			must(t, r.Close())
		}
		if read > 500 || !errors.Is(err, blob.ErrUnavailable) {
			t.Fatalf("read %d bytes: %v", read, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := silent.Put(ctx, id.Blob(time.Now()), bytes.NewReader([]byte("x")), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
