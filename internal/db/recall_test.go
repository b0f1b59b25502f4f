package db_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestRecall: what is recalled is never behind, whoever has changed it, also the transaction itself, and what was never committed is not
// recalled. Two of them stand for two replicas.
func TestRecall(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var here, there db.Recall[string, string]
		reads := 0
		get := func(r *db.Recall[string, string], tx *db.Tx, keys ...string) (map[string]string, error) {
			return r.Get(tx, "recalled", keys, func(keys []string) (map[string]string, error) {
				reads++
				found := map[string]string{}
				for _, key := range keys {
					var value string
					err := tx.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&value)
					if errors.Is(err, db.ErrNoRows) {
						continue
					}
					if err != nil {
						return nil, err
					}
					found[key] = value
				}
				return found, nil
			})
		}
		set := func(tx *db.Tx, key, value string) error {
			_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
			return errors.Join(err, tx.Bump("recalled"))
		}
		wants := func(r *db.Recall[string, string], atMost int, want map[string]string, keys ...string) {
			t.Helper()
			var got map[string]string
			before := reads
			must(t, d.Write(t.Context(), func(tx *db.Tx) (err error) {
				got, err = get(r, tx, keys...)
				return err
			}))
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if n := reads - before; d.Dialect() == db.Postgres && n > atMost {
				t.Errorf("it was read %d times", n)
			}
		}
		change := func(key, value string) {
			t.Helper()
			must(t, d.Write(t.Context(), func(tx *db.Tx) error { return set(tx, key, value) }))
		}
		wants(&here, 1, map[string]string{}, "a")
		change("a", "1")
		for i, r := range []*db.Recall[string, string]{&here, &there, &here, &there} {
			wants(r, 1-i/2, map[string]string{"a": "1"}, "a")
		}
		change("b", "2")
		wants(&there, 1, map[string]string{"a": "1", "b": "2"}, "a", "b")
		wants(&there, 0, map[string]string{"b": "2"}, "b")
		wants(&here, 1, map[string]string{"a": "1"}, "a")

		failed := errors.New("not committed")
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if err := set(tx, "a", "never"); err != nil {
				return err
			}
			if got, err := get(&here, tx, "a"); err != nil || got["a"] != "never" {
				return fmt.Errorf("got %v, %w", got, err)
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		wants(&here, 0, map[string]string{"a": "1"}, "a")
	})
}

// TestRecallRefuses: a transaction that recalls what has changed leaves nothing behind but its second try.
func TestRecallRefuses(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	var r db.Recall[string, int]
	now, tries := 1, 0
	work := func(tx *db.Tx) error {
		tries++
		found, err := r.Get(tx, "recalled", []string{"k"}, func([]string) (map[string]int, error) { return map[string]int{"k": now}, nil })
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2)`, fmt.Sprint("try", tries), fmt.Sprint(found["k"]))
		return err
	}
	must(t, d.Write(t.Context(), work))
	now = 2
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { return tx.Bump("recalled") }))
	must(t, d.Write(t.Context(), work))
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
	for key, want := range map[string]string{"try1": "1", "try2": "", "try3": "2"} {
		if got := value(t, d, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
