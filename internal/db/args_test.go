package db_test

import (
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// TestNamedArguments uses a name twice, and has an @ in a text.
func TestNamedArguments(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const insert = `INSERT INTO meta (key, value) VALUES (@key, @value || 'it''s @key' || @value)`
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(insert, db.Args{"key": "a", "value": "1"}); err != nil {
				return err
			}
			return tx.Send(insert, db.Args{"key": "b", "value": "2"})
		}))
		if _, err := d.Exec(t.Context(), insert, db.Args{"key": "c", "value": "3"}); err != nil {
			t.Error(err)
		}
		const read = `SELECT value FROM meta WHERE key = @key`
		for key, want := range map[string]string{"a": "1it's @key1", "b": "2it's @key2", "c": "3it's @key3"} {
			one, err := db.Value[string](d.Read(t.Context()).Row(read, db.Args{"key": key}))
			if err != nil || one != want {
				t.Errorf("%s is %q, %v", key, one, err)
			}
			all, err := db.Collect(d.Read(t.Context()), db.Value[string], read, db.Args{"key": key})
			if err != nil || len(all) != 1 || all[0] != want {
				t.Errorf("%s is %q, %v", key, all, err)
			}
		}
		for _, args := range []db.Args{{}, {"kye": "a"}, {"key": "a", "value": "b"}} {
			if _, err := db.Value[string](d.Read(t.Context()).Row(read, args)); err == nil {
				t.Errorf("%v is taken", args)
			}
		}
		if _, err := db.Value[string](d.Read(t.Context()).Row(read, db.Args{"key": "a\x00"})); errs.KindOf(err) != errs.Invalid {
			t.Errorf("a NUL: %v", err)
		}
	})
}

// BenchmarkArgs compares a lookup with named arguments to one with numbers.
func BenchmarkArgs(b *testing.B) {
	d := dbtest.Open(b, db.SQLite)
	q := d.Read(b.Context())
	b.Run("numbers", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Collect(q, db.Value[string], `SELECT value FROM meta WHERE key IN ($1, $2, $3, $4, $5, $6)`, "a", "b", "c", "d", "e", "f"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("names", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Collect(q, db.Value[string], `SELECT value FROM meta WHERE key IN (@a, @b, @c, @d, @e, @f)`,
				db.Args{"a": "a", "b": "b", "c": "c", "d": "d", "e": "e", "f": "f"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
