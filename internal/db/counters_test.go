package db_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// countersTable creates a table for newCounters, with a key of each type.
func countersTable(t *testing.T, d *db.DB) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`CREATE TABLE counted (org_id TEXT NOT NULL, unit BIGINT NOT NULL, hash BYTEA NOT NULL,
			deleted BOOLEAN NOT NULL, n BIGINT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (org_id, unit, hash, deleted))`)
		return err
	}))
}

func newCounters() *db.Counters {
	return db.NewCounters("counted", []string{"org_id", "unit", "hash", "deleted"}, []string{"n", "size"})
}

func wantSums(t *testing.T, d *db.DB, c *db.Counters, want []int64, prefix ...any) {
	t.Helper()
	got, err := c.Sum(d.Read(t.Context()), prefix...)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v: -want +got:\n%s", prefix, diff)
	}
}

func wantCounterRows(t *testing.T, d *db.DB, want int) {
	t.Helper()
	var rows int
	must(t, d.Read(t.Context()).Row("SELECT count(*) FROM counted").Scan(&rows))
	if rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
}

func TestCounters(t *testing.T) {
	key := []any{"a", int64(60), []byte{0, 1}, true}
	other := []any{"a", int64(60), []byte{0, 2}, true}
	for _, test := range []struct {
		name     string
		write    func(d *db.DB, c *db.Counters, tx *db.Tx) error
		of       []any
		want     []int64
		wantRows int
	}{
		{
			name:  "nothing was added",
			write: func(_ *db.DB, _ *db.Counters, _ *db.Tx) error { return nil },
			of:    key,
			want:  []int64{0, 0},
		},
		{
			name: "a key is added to twice",
			write: func(_ *db.DB, c *db.Counters, tx *db.Tx) error {
				return errors.Join(c.Add(tx, key, 1, 10), c.Add(tx, other, 7, 7), c.Add(tx, key, 2, -3))
			},
			of:       key,
			want:     []int64{3, 7},
			wantRows: 2,
		},
		{
			name: "prefix",
			write: func(_ *db.DB, c *db.Counters, tx *db.Tx) error {
				elsewhere := []any{"b", int64(60), []byte{}, false}
				return errors.Join(c.Add(tx, key, 1, 10), c.Add(tx, other, 2, 20), c.Add(tx, elsewhere, 1, 1))
			},
			of:       []any{"a", int64(60)},
			want:     []int64{3, 30},
			wantRows: 3,
		},
		{
			name: "added and taken away",
			write: func(_ *db.DB, c *db.Counters, tx *db.Tx) error {
				return errors.Join(c.Add(tx, key, 5, 0), c.Add(tx, key, -5, 0))
			},
			of:   key,
			want: []int64{0, 0},
		},
		{
			name: "joined",
			write: func(d *db.DB, c *db.Counters, tx *db.Tx) error {
				return errors.Join(c.Add(tx, key, 1, 1), d.Write(tx.Context(), func(tx *db.Tx) error { return c.Add(tx, key, 2, 2) }))
			},
			of:       key,
			want:     []int64{3, 3},
			wantRows: 1,
		},
		{
			name: "joined and rolled back",
			write: func(d *db.DB, c *db.Counters, tx *db.Tx) error {
				_ = d.Write(tx.Context(), func(tx *db.Tx) error { return errors.Join(c.Add(tx, key, 2, 2), errors.New("no")) })
				return c.Add(tx, key, 1, 1)
			},
			of:       key,
			want:     []int64{1, 1},
			wantRows: 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				countersTable(t, d)
				c := newCounters()
				must(t, d.Write(t.Context(), func(tx *db.Tx) error { return test.write(d, c, tx) }))
				wantSums(t, d, c, test.want, test.of...)
				wantCounterRows(t, d, test.wantRows)
			})
		})
	}
}

func TestCountersRefuseBadKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newCounters()
		for name, add := range map[string]func(*db.Tx) error{
			"few keys": func(tx *db.Tx) error { return c.Add(tx, []any{"a"}, 1, 1) },
			"few sums": func(tx *db.Tx) error { return c.Add(tx, []any{"a", int64(1), []byte{}, true}, 1) },
			"NUL":      func(tx *db.Tx) error { return c.Add(tx, []any{"\x00", int64(1), []byte{}, true}, 1, 1) },
		} {
			if err := d.Write(t.Context(), add); err == nil || errs.KindOf(err) == errs.Unavailable {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

// TestZeroCountersHaveNoRows takes away by one process what another one added.
func TestZeroCountersHaveNoRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		countersTable(t, d)
		key := []any{"a", int64(1), []byte{1}, false}
		kept := []any{"a", int64(2), []byte{1}, false}
		for _, by := range []int64{3, -2, -1} {
			c := newCounters()
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				return errors.Join(c.Add(tx, key, by, 2*by), c.Add(tx, kept, by, 1))
			}))
		}
		wantSums(t, d, newCounters(), []int64{0, 0}, key...)
		wantSums(t, d, newCounters(), []int64{0, 3}, kept...)
		wantCounterRows(t, d, 1)
	})
}

// TestCountersOfManyWriters compares the sums with a model after concurrent transactions on shared
// keys, of which some are rolled back.
func TestCountersOfManyWriters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		countersTable(t, d)
		type key struct {
			orgID   string
			unit    int64
			hash    byte
			deleted bool
		}
		var mu sync.Mutex
		model := map[key][]int64{}
		var group sync.WaitGroup
		for writer := range uint64(8) {
			c := newCounters()
			random := rand.New(rand.NewPCG(14, writer))
			group.Go(func() {
				for range 60 {
					added := map[key][]int64{}
					for range 1 + random.IntN(6) {
						k := key{string(rune('a' + random.IntN(2))), random.Int64N(3), byte(random.IntN(2)), random.IntN(2) == 0}
						added[k] = []int64{random.Int64N(5) - 2, random.Int64N(3) - 1}
					}
					failed := errors.New("rolled back")
					if random.IntN(4) > 0 {
						failed = nil
					}
					err := d.Write(t.Context(), func(tx *db.Tx) error {
						for k, by := range added {
							if err := c.Add(tx, []any{k.orgID, k.unit, []byte{k.hash}, k.deleted}, by...); err != nil {
								return err
							}
						}
						return failed
					})
					if !errors.Is(err, failed) {
						t.Errorf("got %v", err)
					}
					if err != nil {
						continue
					}
					mu.Lock()
					for k, by := range added {
						if model[k] == nil {
							model[k] = []int64{0, 0}
						}
						model[k][0] += by[0]
						model[k][1] += by[1]
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		for k, want := range model {
			wantSums(t, d, newCounters(), want, k.orgID, k.unit, []byte{k.hash}, k.deleted)
		}
	})
}
