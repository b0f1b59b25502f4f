package db_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
)

// BenchmarkWrite measures writes of one row until they are acknowledged. Set STEWARD_TEST_FSYNC=1, or
// PostgreSQL does not fsync.
func BenchmarkWrite(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		for _, writers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/writers=%d", dialect, writers), func(b *testing.B) {
				d := dbtest.Open(b, dialect)
				spread(b, writers, func() error {
					return d.Write(b.Context(), func(tx *db.Tx) error {
						_, err := tx.Exec("INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, $5)",
							"org_1", id.New(id.Project), "a name of usual length", int64(1), int64(1))
						return err
					})
				})
			})
		}
	}
}

// BenchmarkSend is BenchmarkWrite with Tx.Send, which needs one round trip on PostgreSQL.
func BenchmarkSend(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String()+"/writers=64", func(b *testing.B) {
			d := dbtest.Open(b, dialect)
			spread(b, 64, func() error {
				return d.Write(b.Context(), func(tx *db.Tx) error {
					return tx.Send("INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, $5)",
						"org_1", id.New(id.Project), "a name of usual length", int64(1), int64(1))
				})
			})
		})
	}
}

// BenchmarkRow measures a lookup by primary key.
func BenchmarkRow(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.Open(b, dialect)
			err := d.Write(b.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO meta (key, value) VALUES ('a', 'b')")
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			q := d.Read(b.Context())
			spread(b, 8, func() error {
				var s string
				return q.Row("SELECT value FROM meta WHERE key = $1", "a").Scan(&s)
			})
		})
	}
}

// BenchmarkFsync is the yardstick: append a page and fsync, in the directory where SQLite would be.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	spread(b, 1, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return f.Sync()
	})
}

// spread makes b.N calls from several goroutines and reports calls per second. Calls made before the
// timer starts have opened the connections and prepared the statements.
func spread(b *testing.B, goroutines int, call func() error) {
	b.ReportAllocs()
	share(b, goroutines, 20*goroutines, call)
	b.ResetTimer()
	share(b, goroutines, b.N, call)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func share(b *testing.B, goroutines, calls int, call func() error) {
	var left atomic.Int64
	left.Store(int64(calls))
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
