package db

import (
	"testing"

	"steward/internal/sqlite"
)

func TestDatabaseWithoutWALIsRefused(t *testing.T) {
	// A database in memory has no write-ahead log, like a file on a file system that cannot share memory.
	conn, err := sqlite.Open(":memory:", writerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := assertDurable(conn); err == nil {
		t.Error("a database without a write-ahead log was taken")
	}
}
