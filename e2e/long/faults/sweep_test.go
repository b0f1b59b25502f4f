package faults

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/id"
	objects "steward/internal/object"
)

// checkSweep sweeps the files of objects that no row refers to, as a server does, at once and a day later.
// Writes that were killed have left some.
func (c *cluster) checkSweep(s *process.Steward) {
	c.t.Helper()
	i := &installation.Steward{Steward: s, T: c.t, Key: s.Key}
	i.Offline(func(ctx context.Context, d *db.DB) {
		disk, err := blob.OpenDisk(filepath.Join(s.Dir, "blobs"))
		c.must(err)
		c.must(disk.Put(ctx, id.Blob(time.Now()), strings.NewReader("orphan"), 6)) // at least one
		later := time.Duration(0)
		now := func() time.Time { return time.Now().Add(later) }
		log := slog.New(slog.DiscardHandler)
		blobs := &objects.Blobs{DB: d, Store: disk, Now: now, Log: log}
		cleaner := &objects.Cleaner{DB: d, Blobs: blobs, Now: now, Log: log}
		var referenced int
		c.must(d.Read(ctx).Row(`SELECT COUNT(*) FROM blobs`).Scan(&referenced))
		before := countFiles(c.t, s)
		c.must(cleaner.Sweep(ctx))
		if got := countFiles(c.t, s); got != before {
			c.t.Errorf("%d of %d files are left after a sweep on the same day", got, before)
		}
		later = 25 * time.Hour
		c.must(cleaner.Sweep(ctx))
		if got := countFiles(c.t, s); got != referenced {
			c.t.Errorf("%d files are left after a sweep on the next day, want %d", got, referenced)
		}
		c.t.Logf("%d of %d files were orphans", before-referenced, before)
	})
	s.URL = "http://" + s.Args[1]
}

// countFiles returns the number of files with bytes of objects, also incomplete ones.
func countFiles(t *testing.T, s *process.Steward) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(s.Dir, "blobs"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
