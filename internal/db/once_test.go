package db_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestOnceKeepsTheFirstValue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for i, value := range []string{"a", "b"} {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				stored, first, err := tx.Once("key", value)
				if stored != "a" || first != (i == 0) {
					t.Errorf("%q: got %q, %v", value, stored, first)
				}
				return err
			}))
		}
	})
}

func TestStoredReturnsTheValueOfOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if value, ok, err := db.Stored(d.Read(t.Context()), "key"); value != "" || ok || err != nil {
			t.Errorf("before: %q, %v, %v", value, ok, err)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, _, err := tx.Once("key", "a")
			return err
		}))
		if value, ok, err := db.Stored(d.Read(t.Context()), "key"); value != "a" || !ok || err != nil {
			t.Errorf("after: %q, %v, %v", value, ok, err)
		}
	})
}

func TestOnceStoresOneOfManyValues(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const callers = 8
		var firsts atomic.Int64
		stored := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				var first bool
				err := d.Write(t.Context(), func(tx *db.Tx) (err error) {
					stored[i], first, err = tx.Once("key", fmt.Sprint(i))
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		all.Wait()
		for _, value := range stored {
			if value != stored[0] {
				t.Errorf("callers got %q", stored)
				break
			}
		}
		if firsts.Load() != 1 {
			t.Errorf("%d callers have stored a value", firsts.Load())
		}
	})
}
