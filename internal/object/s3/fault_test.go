package s3_test

import (
	"crypto/sha256"
	"hash"
	"io"
	"net"
	"net/http/httputil"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object/s3"
)

func TestFullOrMissingBlobStore(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.put(b, "a", "before")
		id, _ := f.upload(b, "m", minio.PutObjectOptions{})
		for _, fault := range []error{blob.ErrFull, blob.ErrUnavailable} {
			f.blobs.err = fault
			large := strings.Repeat("x", 2<<20)
			f.do(call{method: "PUT", path: "/docs/a", by: b, body: large}).want(t, fault.Error(), 503, "SlowDown")
			f.do(call{method: "PUT", path: "/docs/m?partNumber=1&uploadId=" + id, by: b, body: large}).want(t, fault.Error(), 503, "SlowDown")
			f.do(call{method: "PUT", path: "/docs/c", by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/a"}}).want(t, fault.Error(), 503, "SlowDown")
			f.blobs.err = nil
			if got := f.get(b, "a"); got != "before" {
				t.Errorf("content after %v = %q", fault, got)
			}
		}
		if keys := f.keys(b); len(keys) != 1 {
			t.Errorf("keys = %q", keys)
		}
		f.put(b, "a", "after")
	})
}

func TestStalledUploadIsCutOff(t *testing.T) {
	const sent = 100_000
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := start(t, d, &s3.Server{Limits: s3.Limits{Stall: 500 * time.Millisecond}})
		b := f.newBucket("docs")
		r := f.request(call{method: "PUT", path: "/docs/a", by: b, payload: "UNSIGNED-PAYLOAD"})
		conn, err := net.Dial("tcp", f.address)
		check(t, err)
		defer conn.Close()
		r.ContentLength = 1 << 20
		stalled, resume := io.Pipe()
		defer func() { _ = resume.Close() }()
		r.Body = stalled
		go func() { _ = r.Write(conn) }()
		_, err = resume.Write([]byte(strings.Repeat("x", sent)))
		check(t, err)
		answer := make([]byte, 4096)
		n, err := conn.Read(answer)
		check(t, err)
		if got := string(answer[:n]); !strings.HasPrefix(got, "HTTP/1.1 400") {
			t.Errorf("got %s", got)
		}
		if keys := f.keys(b); len(keys) != 0 {
			t.Errorf("keys = %q", keys)
		}
	})
}

// watchedReader returns bytes of a given number, computes their hash, and measures the heap.
type watchedReader struct {
	left int64
	hash hash.Hash
	peak *atomic.Uint64
}

func (r *watchedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), r.left))
	for i := range p[:n] {
		p[i] = byte(r.left >> (i % 24))
	}
	if r.left%(8<<20) < int64(n) {
		measure(r.peak)
	}
	r.left -= int64(n)
	r.hash.Write(p[:n])
	return n, nil
}

func measure(peak *atomic.Uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	peak.Store(max(peak.Load(), m.HeapInuse))
}

func TestObjectsAreStreamed(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	const size = 96 << 20
	runtime.GC()
	var before, peak atomic.Uint64
	measure(&before)
	for what, o := range map[string]minio.PutObjectOptions{
		"plain":       {DisableMultipart: true, DisableContentSha256: true},
		"aws-chunked": {DisableMultipart: true, Checksum: minio.ChecksumCRC32C},
	} {
		r := &watchedReader{left: size, hash: sha256.New(), peak: &peak}
		_, err := f.client(b).PutObject(t.Context(), b.Name, "big", r, size, o)
		check(t, err)
		body, _, _, err := f.core(b).GetObject(t.Context(), b.Name, "big", minio.GetObjectOptions{})
		check(t, err)
		got := sha256.New()
		for {
			n, err := io.CopyN(got, body, 8<<20)
			measure(&peak)
			if n == 0 || err != nil {
				break
			}
		}
		check(t, body.Close())
		if string(got.Sum(nil)) != string(r.hash.Sum(nil)) {
			t.Errorf("%s: the content differs", what)
		}
		if used := int64(peak.Load()) - int64(before.Load()); used > 64<<20 {
			t.Errorf("%s: %d MiB of memory for %d MiB", what, used>>20, size>>20)
		}
	}
}

func TestConnectionWithoutRequestIsClosed(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Limits: s3.Limits{Stall: 500 * time.Millisecond}})
	head, err := httputil.DumpRequestOut(f.request(call{method: "PUT", path: "/docs/a", by: f.newBucket("docs"), body: "hello"}), false)
	check(t, err)
	for what, sent := range map[string]string{
		"nothing": "", "half of the headers": "GET / HTTP/1.1\r\nHost: x\r\n", "half of a small body": string(head) + "he",
	} {
		conn, err := net.Dial("tcp", f.address)
		check(t, err)
		_, err = conn.Write([]byte(sent))
		check(t, err)
		answer, err := io.ReadAll(conn)
		if err != nil || len(answer) > 0 && !strings.Contains(string(answer), "<Code>RequestTimeout</Code>") {
			t.Errorf("%s: %v %s", what, err, answer)
		}
		check(t, conn.Close())
	}
}

// TestBodyIsNeverTakenForARequest sends bodies that are not read, with a request in them.
func TestBodyIsNeverTakenForARequest(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for what, sent := range map[string]string{
		"chunked":         "PUT /docs/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + hidden,
		"chunked message": "POST /docs?delete= HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n" + hidden,
		"large message":   "POST /docs?delete= HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + strings.Repeat("x", 300_000) + hidden,
		"both lengths":    "PUT /docs/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"no HTTP":         "hello\r\n\r\n" + hidden,
		"large headers":   "GET /docs/a HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n" + hidden,
	} {
		conn, err := net.Dial("tcp", f.address)
		check(t, err)
		_, _ = conn.Write([]byte(sent))
		answer, _ := io.ReadAll(conn) // it may end with a reset
		if n := strings.Count(string(answer), "HTTP/1.1 4"); n > 1 || strings.Contains(string(answer), "HTTP/1.1 5") {
			t.Errorf("%s: %d answers: %s", what, n, answer)
		}
		check(t, conn.Close())
	}
}
