package replicas

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestReplicasShareBuckets writes through one replica and reads through another. What takes a right
// away at one is known to the other within a second.
func TestReplicasShareBuckets(t *testing.T) {
	t.Parallel()
	s, _ := installation.StartOnCluster(t, "postgres")
	other := s.Replica()
	b := s.NewBucket("photos")
	there := b.At(other)
	there.Put("a", "zero")
	b.Put("a", "one")
	if got := there.Get("a"); got != "one" {
		t.Errorf("got %q", got)
	}
	there.Put("a", "two")
	if got := b.Get("a"); got != "two" {
		t.Errorf("got %q", got)
	}
	checkUploadAcross(b, there)
	b.CheckTotals(2, 3+5<<20+3)
	there.CheckTotals(2, 3+5<<20+3)

	readable := func() bool { return other.S3("GET", "/photos/a", "").Status == http.StatusOK }
	if readable() {
		t.Error("anybody can read")
	}
	b.Configure(object{"public": true})
	waittest.Within(t, time.Second, "the bucket to be public", readable)
	b.Configure(object{"public": false})
	waittest.Within(t, time.Second, "the bucket to be private", func() bool { return !readable() })

	b.Remove()
	b.Signed("GET", "/photos/a", "").Want(403)
	waittest.Within(t, time.Second, "the other replica to refuse the credentials", func() bool {
		return there.Signed("GET", "/photos/a", "").Status == http.StatusForbidden && there.Signed("PUT", "/photos/b", "x").Status == http.StatusForbidden
	})
	again := s.NewBucket("photos").At(other)
	waittest.Within(t, time.Second, "a new bucket of the same name", func() bool {
		return again.Signed("GET", "/photos", "").Status == http.StatusOK
	})
	if got := again.Keys(""); len(got) != 0 {
		t.Errorf("a new bucket of the same name has %q", got)
	}
}

// checkUploadAcross uploads an object whose parts are written by two replicas.
func checkUploadAcross(b installation.Bucket, there installation.Bucket) {
	b.T.Helper()
	ctx := b.T.Context()
	upload, err := b.Core().NewMultipartUpload(ctx, b.Name, "large", minio.PutObjectOptions{})
	b.Must(err)
	var parts []minio.CompletePart
	contents := []string{installation.RandomText(5 << 20), "end"}
	for i, by := range []installation.Bucket{there, b} {
		part, err := by.Core().PutObjectPart(ctx, b.Name, "large", upload, i+1, strings.NewReader(contents[i]), int64(len(contents[i])), minio.PutObjectPartOptions{})
		b.Must(err)
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: part.ETag})
	}
	_, err = there.Core().CompleteMultipartUpload(ctx, b.Name, "large", upload, parts, minio.PutObjectOptions{})
	b.Must(err)
	if b.Get("large") != strings.Join(contents, "") {
		b.T.Error("the parts are not what was sent")
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
			s, cluster := installation.StartOnCluster(t, database)
			b := s.NewBucket("photos")
			b.Put("kept", "stored before")
			const size = 24 << 20 // in two parts
			broken := &breakingReader{strings.NewReader(installation.RandomText(size)), size / 2, cluster.Kill}
			_, err := b.Core().PutObject(t.Context(), b.Name, "half", broken, size, "", "", minio.PutObjectOptions{})
			b.WantCode("a write that is interrupted", err, "SlowDown")
			for _, r := range [][2]string{{"PUT", "/photos/new"}, {"PUT", "/photos/kept"}, {"GET", "/photos/kept"}} {
				body := ""
				if r[0] == "PUT" {
					body = "not stored"
				}
				got := b.Signed(r[0], r[1], body).Want(503)
				if !strings.Contains(string(got.Body), "<Code>SlowDown</Code>") {
					t.Errorf("%s %s: %s", r[0], r[1], got.Body)
				}
			}
			if got := b.Keys(""); !slices.Equal(got, []string{"kept"}) {
				t.Errorf("keys are %q", got)
			}
			b.CheckTotals(1, 13)
			b.Signed("DELETE", "/photos/none", "").Want(204)
			cluster.Start()
			if got := b.Get("kept"); got != "stored before" {
				t.Errorf("got %q", got)
			}
			b.Put("new", "stored after")
			if got := b.Get("new"); got != "stored after" {
				t.Errorf("got %q", got)
			}
			b.CheckTotals(2, 25)
		})
	}
}
