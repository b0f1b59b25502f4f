package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/id"
	objects "steward/internal/object"
	"steward/internal/waittest"
)

// contentOf returns the bytes of a key in the kill tests, up to 64 KiB.
func contentOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strings.Repeat(string(sum[:]), 1+int(sum[0])*8)
}

// TestAcknowledgedObjectsSurviveKill kills the process five times while objects are written. Every
// acknowledged object must be there with its bytes, none may be there with others, and the totals must
// be those of the list. What the killed writes left is swept when it is a day old.
func TestAcknowledgedObjectsSurviveKill(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Start(t, name)
			b := s.NewBucket("photos")
			acked := map[string]bool{}
			for round := range 5 {
				putUntilKilled(b, round, acked)
				s.Start()
			}
			checkObjectsStored(b, acked)
			checkSweep(b)
			checkObjectsStored(b, acked)
		})
	}
}

// putUntilKilled writes objects from several clients, some of them in parts, kills the process when 60
// of them were acknowledged, and adds these to acked.
func putUntilKilled(b installation.Bucket, round int, acked map[string]bool) {
	b.T.Helper()
	var mu sync.Mutex
	var clients sync.WaitGroup
	n := 0
	for c := range 8 {
		core := b.Core()
		clients.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("round-%d/%d/%d", round, c, i)
				content := contentOf(key)
				if err := put(core, b.Name, key, content, i%4 == 3); err != nil {
					return
				}
				mu.Lock()
				acked[key] = true
				n++
				mu.Unlock()
			}
		})
	}
	waittest.Until(b.T, "60 acknowledged objects", func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		return n, n >= 60
	})
	b.Kill()
	clients.Wait()
}

// put writes an object, in one part of a multipart upload if inParts.
func put(c minio.Core, bucket, key, content string, inParts bool) error {
	ctx := context.Background()
	size := int64(len(content))
	if !inParts {
		_, err := c.PutObject(ctx, bucket, key, strings.NewReader(content), size, "", "", minio.PutObjectOptions{})
		return err
	}
	upload, err := c.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	part, err := c.PutObjectPart(ctx, bucket, key, upload, 1, strings.NewReader(content), size, minio.PutObjectPartOptions{})
	if err != nil {
		return err
	}
	parts := []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}
	_, err = c.CompleteMultipartUpload(ctx, bucket, key, upload, parts, minio.PutObjectOptions{})
	return err
}

// checkObjectsStored reads every object, and compares the list with the totals.
func checkObjectsStored(b installation.Bucket, acked map[string]bool) {
	b.T.Helper()
	var size int64
	stored := map[string]bool{}
	for _, o := range b.List("") {
		stored[o.Key] = true
		size += o.Size
		if b.Get(o.Key) != contentOf(o.Key) {
			b.T.Errorf("%s has other bytes", o.Key)
		}
	}
	for key := range acked {
		if !stored[key] {
			b.T.Errorf("%s was acknowledged and is missing", key)
		}
	}
	b.T.Logf("%d acknowledged, %d stored", len(acked), len(stored))
	checkTotals(b, int64(len(stored)), size)
}

// countBlobFiles returns the number of files with blobs, also incomplete ones.
func countBlobFiles(b installation.Bucket) (n int) {
	b.T.Helper()
	b.Must(filepath.WalkDir(filepath.Join(b.Dir, "blobs"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	}))
	return n
}

// checkSweep sweeps today and a day later.
func checkSweep(b installation.Bucket) {
	b.T.Helper()
	later := time.Duration(0)
	now := func() time.Time { return time.Now().Add(later) }
	offlineObjects(b.Steward, now, func(ctx context.Context, d *db.DB, cleaner *objects.Cleaner) {
		b.Must(cleaner.Blobs.Store.Put(ctx, id.Blob(time.Now()), strings.NewReader("orphan"), 6)) // at least one
		var referenced int
		b.Must(d.Read(ctx).Row(`SELECT COUNT(*) FROM blobs`).Scan(&referenced))
		before := countBlobFiles(b)
		b.Must(cleaner.Sweep(ctx))
		if got := countBlobFiles(b); got != before {
			b.T.Errorf("%d of %d files are left after a sweep on the same day", got, before)
		}
		later = 25 * time.Hour
		b.Must(cleaner.Sweep(ctx))
		if got := countBlobFiles(b); got != referenced {
			b.T.Errorf("%d files are left after a sweep on the next day, want %d", got, referenced)
		}
		b.T.Logf("%d of %d files were orphans", before-referenced, before)
		if before == referenced {
			b.T.Error("there were no orphans")
		}
	})
}
