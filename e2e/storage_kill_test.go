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
			s := start(t, name)
			b := s.bucket("photos")
			acked := map[string]bool{}
			for round := range 5 {
				b.putUntilKilled(round, acked)
				s.start()
			}
			b.checkStored(acked)
			b.checkSweep()
			b.checkStored(acked)
		})
	}
}

// putUntilKilled writes objects from several clients, some of them in parts, kills the process when 60
// of them were acknowledged, and adds these to acked.
func (b bucket) putUntilKilled(round int, acked map[string]bool) {
	b.t.Helper()
	var mu sync.Mutex
	var clients sync.WaitGroup
	n := 0
	for c := range 8 {
		core := b.core()
		clients.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("round-%d/%d/%d", round, c, i)
				content := contentOf(key)
				if err := put(core, b.name, key, content, i%4 == 3); err != nil {
					return
				}
				mu.Lock()
				acked[key] = true
				n++
				mu.Unlock()
			}
		})
	}
	waittest.Until(b.t, "60 acknowledged objects", func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		return n, n >= 60
	})
	b.kill()
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

// checkStored reads every object, and compares the list with the totals.
func (b bucket) checkStored(acked map[string]bool) {
	b.t.Helper()
	var size int64
	stored := map[string]bool{}
	for _, o := range b.list("") {
		stored[o.Key] = true
		size += o.Size
		if b.get(o.Key) != contentOf(o.Key) {
			b.t.Errorf("%s has other bytes", o.Key)
		}
	}
	for key := range acked {
		if !stored[key] {
			b.t.Errorf("%s was acknowledged and is missing", key)
		}
	}
	b.t.Logf("%d acknowledged, %d stored", len(acked), len(stored))
	b.checkTotals(int64(len(stored)), size)
}

// files returns the number of files with blobs, also incomplete ones.
func (b bucket) files() (n int) {
	b.t.Helper()
	b.must(filepath.WalkDir(filepath.Join(b.Dir, "blobs"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	}))
	return n
}

// checkSweep sweeps today and a day later.
func (b bucket) checkSweep() {
	b.t.Helper()
	later := time.Duration(0)
	now := func() time.Time { return time.Now().Add(later) }
	b.offlineObjects(now, func(ctx context.Context, d *db.DB, cleaner *objects.Cleaner) {
		b.must(cleaner.Blobs.Store.Put(ctx, id.Blob(time.Now()), strings.NewReader("orphan"), 6)) // at least one
		var referenced int
		b.must(d.Read(ctx).Row(`SELECT COUNT(*) FROM blobs`).Scan(&referenced))
		before := b.files()
		b.must(cleaner.Sweep(ctx))
		if got := b.files(); got != before {
			b.t.Errorf("%d of %d files are left after a sweep on the same day", got, before)
		}
		later = 25 * time.Hour
		b.must(cleaner.Sweep(ctx))
		if got := b.files(); got != referenced {
			b.t.Errorf("%d files are left after a sweep on the next day, want %d", got, referenced)
		}
		b.t.Logf("%d of %d files were orphans", before-referenced, before)
		if before == referenced {
			b.t.Error("there were no orphans")
		}
	})
}
