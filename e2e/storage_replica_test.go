package e2e

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// TestReplicasShareBuckets writes through one replica and reads through another. What takes a right
// away at one is known to the other within a second.
func TestReplicasShareBuckets(t *testing.T) {
	t.Parallel()
	s, _ := startOnCluster(t, "postgres")
	other := s.replica()
	b := s.bucket("photos")
	there := b.at(other)
	there.put("a", "zero")
	b.put("a", "one")
	if got := there.get("a"); got != "one" {
		t.Errorf("got %q", got)
	}
	there.put("a", "two")
	if got := b.get("a"); got != "two" {
		t.Errorf("got %q", got)
	}
	b.checkUploadAcross(there)
	b.checkTotals(2, 3+5<<20+3)
	there.checkTotals(2, 3+5<<20+3)

	readable := func() bool { return other.s3("GET", "/photos/a", "").status == http.StatusOK }
	if readable() {
		t.Error("anybody can read")
	}
	b.configure(object{"public": true})
	within(t, time.Second, "the bucket to be public", readable)
	b.configure(object{"public": false})
	within(t, time.Second, "the bucket to be private", func() bool { return !readable() })

	b.remove()
	b.signed("GET", "/photos/a", "").want(403)
	within(t, time.Second, "the other replica to refuse the credentials", func() bool {
		return there.signed("GET", "/photos/a", "").status == http.StatusForbidden && there.signed("PUT", "/photos/b", "x").status == http.StatusForbidden
	})
	again := s.bucket("photos").at(other)
	within(t, time.Second, "a new bucket of the same name", func() bool {
		return again.signed("GET", "/photos", "").status == http.StatusOK
	})
	if got := again.keys(""); len(got) != 0 {
		t.Errorf("a new bucket of the same name has %q", got)
	}
}

// checkUploadAcross uploads an object whose parts are written by two replicas.
func (b bucket) checkUploadAcross(there bucket) {
	b.t.Helper()
	ctx := b.t.Context()
	upload, err := b.core().NewMultipartUpload(ctx, b.name, "large", minio.PutObjectOptions{})
	b.must(err)
	var parts []minio.CompletePart
	contents := []string{randomText(5 << 20), "end"}
	for i, by := range []bucket{there, b} {
		part, err := by.core().PutObjectPart(ctx, b.name, "large", upload, i+1, strings.NewReader(contents[i]), int64(len(contents[i])), minio.PutObjectPartOptions{})
		b.must(err)
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: part.ETag})
	}
	_, err = there.core().CompleteMultipartUpload(ctx, b.name, "large", upload, parts, minio.PutObjectOptions{})
	b.must(err)
	if b.get("large") != strings.Join(contents, "") {
		b.t.Error("the parts are not what was sent")
	}
}

// breakingReader calls a function after half of its bytes.
type breakingReader struct {
	io.Reader
	left int
	half func()
}

func (r *breakingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p[:min(len(p), 64<<10)])
	if r.left > 0 && r.left <= n {
		r.half()
	}
	r.left -= n
	return n, err
}

// TestClusterThatIsDown kills the blob store during a write. That and later writes and reads fail with
// an error that clients retry, nothing of them is left, and all works when it is back.
func TestClusterThatIsDown(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			s, cluster := startOnCluster(t, database)
			b := s.bucket("photos")
			b.put("kept", "stored before")
			const size = 24 << 20 // in two parts
			broken := &breakingReader{strings.NewReader(randomText(size)), size / 2, cluster.kill}
			_, err := b.core().PutObject(t.Context(), b.name, "half", broken, size, "", "", minio.PutObjectOptions{})
			b.wantCode("a write that is interrupted", err, "SlowDown")
			for _, r := range [][2]string{{"PUT", "/photos/new"}, {"PUT", "/photos/kept"}, {"GET", "/photos/kept"}} {
				body := ""
				if r[0] == "PUT" {
					body = "not stored"
				}
				got := b.signed(r[0], r[1], body).want(503)
				if !strings.Contains(string(got.body), "<Code>SlowDown</Code>") {
					t.Errorf("%s %s: %s", r[0], r[1], got.body)
				}
			}
			if got := b.keys(""); !slices.Equal(got, []string{"kept"}) {
				t.Errorf("keys are %q", got)
			}
			b.checkTotals(1, 13)
			b.signed("DELETE", "/photos/none", "").want(204)
			cluster.start()
			if got := b.get("kept"); got != "stored before" {
				t.Errorf("got %q", got)
			}
			b.put("new", "stored after")
			if got := b.get("new"); got != "stored after" {
				t.Errorf("got %q", got)
			}
			b.checkTotals(2, 25)
		})
	}
}
