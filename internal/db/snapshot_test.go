package db_test

import (
	"context"
	"errors"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func countMeta(q db.Querier) (n int64, err error) {
	return n, q.Row(`SELECT count(*) FROM meta WHERE key LIKE 'snapshot%'`).Scan(&n)
}

func insertMeta(t *testing.T, d *db.DB, key string) {
	t.Helper()
	if err := d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, 'x')`, key)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotDoesNotSeeLaterCommits(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		insertMeta(t, d, "snapshot 1")
		err := d.Snapshot(t.Context(), func(q db.Querier) error {
			before, err := countMeta(q)
			if err != nil {
				return err
			}
			insertMeta(t, d, "snapshot 2")
			after, err := countMeta(q)
			if before != 1 || after != 1 {
				t.Errorf("%d rows, then %d", before, after)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := countMeta(d.Read(t.Context())); n != 2 || err != nil {
			t.Errorf("%d rows afterwards, %v", n, err)
		}
	})
}

func TestSnapshotCannotWrite(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Snapshot(t.Context(), func(q db.Querier) error {
			var key string
			return q.Row(`INSERT INTO meta (key, value) VALUES ('snapshot', 'x') RETURNING key`).Scan(&key)
		})
		if n, _ := countMeta(d.Read(t.Context())); err == nil || n != 0 {
			t.Errorf("error %v, %d rows", err, n)
		}
	})
}

// TestSnapshotsGiveTheirConnectionsBack runs more than there are connections, with every kind of end.
func TestSnapshotsGiveTheirConnectionsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		broken := errors.New("broken")
		for range 20 {
			if err := d.Snapshot(t.Context(), func(db.Querier) error { return broken }); !errors.Is(err, broken) {
				t.Fatal(err)
			}
			_ = d.Snapshot(t.Context(), func(q db.Querier) error {
				_, err := q.Query(`SELECT nonsense`)
				return err
			})
			_ = d.Snapshot(t.Context(), func(q db.Querier) error {
				_, err := q.Query(`SELECT key FROM meta`) // left open
				return err
			})
			func() {
				defer func() { _ = recover() }()
				_ = d.Snapshot(t.Context(), func(q db.Querier) error {
					_, _ = countMeta(q)
					panic("test")
				})
			}()
			ctx, cancel := context.WithCancel(t.Context())
			err := d.Snapshot(ctx, func(q db.Querier) error {
				cancel()
				_, err := countMeta(q)
				return err
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, want Canceled", err)
			}
		}
		insertMeta(t, d, "snapshot")
		if err := d.Snapshot(t.Context(), func(q db.Querier) error {
			n, err := countMeta(q)
			if n != 1 {
				t.Errorf("%d rows", n)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSnapshotReadsInTheTransactionOfItsContext(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ('snapshot', 'x')`); err != nil {
				return err
			}
			return d.Snapshot(tx.Context(), func(q db.Querier) error {
				n, err := countMeta(q)
				if n != 1 {
					t.Errorf("%d rows", n)
				}
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
