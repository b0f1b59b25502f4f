package db

import (
	"database/sql"
	"testing"
)

func TestAssertDurable(t *testing.T) {
	// A database in memory has no write-ahead log, like a file on a file system that cannot share memory.
	pool, err := sql.Open("sqlite", "file::memory:?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := assertDurable(t.Context(), pool); err == nil {
		t.Error("a database without a write-ahead log was taken")
	}
}
