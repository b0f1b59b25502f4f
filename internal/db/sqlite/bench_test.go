package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"steward/internal/db/sqlite"
)

const (
	benchTable  = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT, c TEXT, d INTEGER, e INTEGER, f TEXT, g TEXT, h INTEGER)"
	benchRead   = "SELECT id, a, b, c, d, e, f, g, h FROM t ORDER BY id LIMIT 1000"
	benchChange = "UPDATE t SET a = $2, b = $3, d = $4, e = $5, f = $6, h = $7 WHERE id = $1"
)

type benchRow struct {
	id, d, e, h int64
	a, b, c     string
	f, g        *string
}

func (r *benchRow) dest() []any { return []any{&r.id, &r.a, &r.b, &r.c, &r.d, &r.e, &r.f, &r.g, &r.h} }

func benchArgs(n int) []any {
	return []any{int64(n%1000) + 1, "receipt_01JCXQ5V3N8Z4W", strings.Repeat("b", 60), int64(n), int64(1), "application/json", int64(200)}
}

func benchFile(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "a.db")
	must(b, os.WriteFile(path, nil, 0o600))
	pool, err := sql.Open("sqlite", path)
	must(b, err)
	defer pool.Close()
	for _, text := range []string{
		"PRAGMA journal_mode(WAL)", benchTable, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
			INSERT INTO t SELECT i, 'a ' || i, 'b ' || i, 'some text that is longer', i, i * 1000000, 'f', NULL, 1 FROM n`,
	} {
		_, err := pool.Exec(text)
		must(b, err)
	}
	return path
}

// BenchmarkAgainstDriver reads a page of 1,000 rows, and changes single rows inside a transaction, through this package and through
// database/sql with the driver of the same library.
func BenchmarkAgainstDriver(b *testing.B) {
	path := benchFile(b)
	conn, err := sqlite.Open(path)
	must(b, err)
	defer conn.Close()
	pool, err := sql.Open("sqlite", path)
	must(b, err)
	defer pool.Close()
	pool.SetMaxOpenConns(1)

	b.Run("page/own", func(b *testing.B) {
		st, err := conn.Prepare(benchRead)
		must(b, err)
		defer st.Close()
		for b.Loop() {
			rows, err := st.Query(b.Context())
			must(b, err)
			for rows.Next() {
				var r benchRow
				must(b, rows.Scan(r.dest()...))
			}
		}
	})
	b.Run("page/driver", func(b *testing.B) {
		st, err := pool.Prepare(benchRead)
		must(b, err)
		defer st.Close()
		for b.Loop() {
			rows, err := st.Query()
			must(b, err)
			for rows.Next() {
				var r benchRow
				must(b, rows.Scan(r.dest()...))
			}
		}
	})
	b.Run("change/own", func(b *testing.B) {
		for _, text := range []string{"BEGIN", benchChange, "ROLLBACK"} {
			st, err := conn.Prepare(text)
			must(b, err)
			defer st.Close()
			if text != benchChange {
				_, err = st.Exec()
				must(b, err)
				continue
			}
			for n := 0; b.Loop(); n++ {
				_, err := st.Exec(benchArgs(n)...)
				must(b, err)
			}
		}
	})
	b.Run("change/driver", func(b *testing.B) {
		tx, err := pool.Begin()
		must(b, err)
		defer tx.Rollback()
		st, err := tx.Prepare(benchChange)
		must(b, err)
		for n := 0; b.Loop(); n++ {
			_, err := st.Exec(benchArgs(n)...)
			must(b, err)
		}
	})
}
