package db_test

import (
	"context"
	"os"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestCloseCheckpointsTheLog verifies that a copy of the file alone is a complete backup after Close.
func TestCloseCheckpointsTheLog(t *testing.T) {
	o := dbtest.Options(t, db.SQLite)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ('a', 'b')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := d.Read(t.Context()).Row(`SELECT count(*) FROM meta`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{"-wal", "-shm"} {
		if info, err := os.Stat(o.Path + rest); err == nil {
			t.Errorf("%s is still there, with %d bytes", info.Name(), info.Size())
		}
	}
}
