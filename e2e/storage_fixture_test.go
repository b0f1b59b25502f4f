package e2e

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"steward/e2e/installation"
	"steward/internal/blob"
	"steward/internal/db"
	objects "steward/internal/object"
	"steward/internal/seal"
)

// offlineObjects calls a function with a cleaner of the installation's objects, on files, and its own
// clock, while the process is stopped.
func offlineObjects(s *installation.Steward, now func() time.Time, do func(ctx context.Context, d *db.DB, cleaner *objects.Cleaner)) {
	s.T.Helper()
	s.Offline(func(ctx context.Context, d *db.DB) {
		key, err := seal.KeyFile(s.Dir)
		s.Must(err)
		ring, err := seal.NewRing(key)
		s.Must(err)
		disk, err := blob.OpenDisk(filepath.Join(s.Dir, "blobs"))
		s.Must(err)
		log := slog.New(slog.DiscardHandler)
		blobs := &objects.Blobs{DB: d, Store: disk, Now: now, Log: log}
		do(ctx, d, &objects.Cleaner{
			DB: d, Buckets: &objects.Buckets{DB: d, Ring: ring, Now: now}, Index: &objects.Index{DB: d, Blobs: blobs, Now: now},
			Blobs: blobs, Now: now, Log: log,
		})
	})
}
