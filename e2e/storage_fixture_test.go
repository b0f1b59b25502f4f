package e2e

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/blob"
	"steward/internal/db"
	objects "steward/internal/object"
	"steward/internal/seal"
)

// eachStorage runs a test on a fresh installation on each database with each blob store: files, or a
// bucket of an S3 cluster, which is another Steward here.
func eachStorage(t *testing.T, test func(t *testing.T, s *installation.Steward)) {
	for _, database := range process.Databases {
		t.Run(database+"/disk", func(t *testing.T) { test(t, installation.Start(t, database)) })
		t.Run(database+"/cluster", func(t *testing.T) {
			s, cluster := installation.StartOnCluster(t, database)
			test(t, s)
			if len(cluster.List("blobs/")) == 0 {
				t.Error("the cluster has no blobs")
			}
		})
	}
}

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
