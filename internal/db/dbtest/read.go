package dbtest

import (
	"testing"

	"steward/internal/db"
)

// Vacuum runs VACUUM ANALYZE on a PostgreSQL database, as autovacuum does in time. Then the planner
// knows the tables' sizes, and need not fetch rows to know that they are visible.
func Vacuum(t testing.TB, url string) {
	t.Helper()
	command(t, url, "VACUUM ANALYZE")
}

// RowsRead returns how many rows and index entries a PostgreSQL transaction has read so far, and how
// many rows it has fetched for index entries, in tables whose names begin with a prefix.
func RowsRead(t testing.TB, tx *db.Tx, prefix string) (read, fetched int64) {
	t.Helper()
	if err := tx.Row(`SELECT SUM(pg_stat_get_xact_tuples_returned(oid))::bigint, SUM(pg_stat_get_xact_tuples_fetched(oid))::bigint
		FROM pg_class WHERE relname LIKE $1 || '%'`, prefix).Scan(&read, &fetched); err != nil {
		t.Fatalf("statistics of the transaction: %v", err)
	}
	return read, fetched
}

// BlocksRead returns how many blocks a PostgreSQL transaction has read so far, in indexes or tables
// whose names begin with a prefix.
func BlocksRead(t testing.TB, tx *db.Tx, prefix string) (blocks int64) {
	t.Helper()
	if err := tx.Row(`SELECT SUM(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class WHERE relname LIKE $1 || '%'`, prefix).
		Scan(&blocks); err != nil {
		t.Fatalf("statistics of the transaction: %v", err)
	}
	return blocks
}
