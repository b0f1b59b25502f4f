package dbtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/waittest"
)

// Vacuum runs VACUUM ANALYZE on a PostgreSQL database, as autovacuum does in time. Then the planner
// knows the tables' sizes, and need not fetch rows to know that they are visible. While an older
// snapshot is open, such as that of autovacuum's ANALYZE, VACUUM cannot mark rows as visible to all, so
// we repeat it. By default it also skips pages with a few dead rows.
func Vacuum(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	waittest.Until(t, "VACUUM to mark all rows as visible", func() (rest string, done bool) {
		if _, err := conn.Exec(t.Context(), "VACUUM (ANALYZE, INDEX_CLEANUP ON)"); err != nil {
			t.Fatalf("VACUUM: %v", err)
		}
		if err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(format('%s: %s of %s pages', c.relname, c.relallvisible, c.relpages), ', '), '')
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND c.relallvisible < c.relpages`).
			Scan(&rest); err != nil {
			t.Fatalf("pages that VACUUM has not marked: %v", err)
		}
		return rest, rest == ""
	})
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
