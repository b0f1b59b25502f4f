package db

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestOtherErrorsAreNotUnique(t *testing.T) {
	if IsUnique(errors.New("other")) {
		t.Error("another error has a code of SQLite")
	}
}

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// TestSQLiteContextInterruptsReads ends the context of a statement that takes long to return its first
// row, and of one between two rows. The connection can be used afterwards. SQLite ignores an interrupt
// that comes just before a statement starts, which then runs to its end.
func TestSQLiteContextInterruptsReads(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const long = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000) SELECT i FROM n WHERE i < 0`
	interrupted := 0
	for range 20 {
		var n int
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := d.Read(ctx).Row(long).Scan(&n)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			interrupted++
		} else if !errors.Is(err, ErrNoRows) {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		rows, err := d.Read(ctx).Query(endless + "SELECT i FROM n")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			cancel()
		}
		cancel()
		if err := rows.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := d.Read(t.Context()).Row("SELECT 1").Scan(&n); err != nil {
			t.Errorf("after an interrupt: %v", err)
		}
	}
	if interrupted == 0 {
		t.Error("no statement was interrupted")
	}
}
