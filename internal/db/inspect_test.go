package db_test

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestInspectReadsAnOpenDatabase(t *testing.T) {
	for name, o := range map[string]db.Options{
		"sqlite": {Path: filepath.Join(t.TempDir(), "x.db")}, "postgres": {URL: dbtest.EmptyPostgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				state, err := db.Inspect(t.Context(), o, "k")
				if err != nil || state.Schema != 0 || state.Newest == 0 || state.Version == "" {
					t.Errorf("empty: %+v, %v", state, err)
				}
			}
			d, err := db.Open(t.Context(), o)
			must(t, err)
			defer d.Close()
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, _, err := tx.Once("k", "v")
				return err
			}))
			state, err := db.Inspect(t.Context(), o, "k")
			if err != nil || state.Schema != state.Newest || state.Meta != "v" || state.Dialect.String() != name || state.Version == "" {
				t.Errorf("open: %+v, %v", state, err)
			}
		})
	}
}

func TestInspectCreatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if state, err := db.Inspect(t.Context(), db.Options{Path: path}, "k"); err == nil {
		t.Errorf("got %+v", state)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}
