package app

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/errs"
)

// TestDirectoryOfPostgresGetsNoDatabase starts without --database-url where it was set before.
func TestDirectoryOfPostgresGetsNoDatabase(t *testing.T) {
	cfg := config.Config{Data: t.TempDir()}
	want := func(kind errs.Kind) {
		t.Helper()
		if err := checkDirectory(cfg); errs.KindOf(err) != kind {
			t.Errorf("got %v", err)
		}
	}
	want(errs.KindOf(nil))
	if _, err := datadir.NodeID(cfg.Data); err != nil {
		t.Fatal(err)
	}
	want(errs.Conflict)
	cfg.Force = true
	want(errs.KindOf(nil))
	cfg.Force = false
	if err := os.WriteFile(filepath.Join(cfg.Data, "steward.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(errs.KindOf(nil))
}
