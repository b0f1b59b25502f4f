package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// put inserts a row into meta.
func put(tx *db.Tx, key, value string) error {
	_, err := tx.Exec("INSERT INTO meta (key, value) VALUES ($1, $2)", key, value)
	return err
}

// keys returns the keys of meta.
func keys(t *testing.T, q db.Querier) []string {
	t.Helper()
	all, err := db.Collect(q, db.Value[string], "SELECT key FROM meta ORDER BY key")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantKeys(t *testing.T, d *db.DB, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), keys(t, d.Read(t.Context()))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStatementsRunOnBothEngines(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			// Out of order and repeated: SQLite numbers parameters in the order of the text.
			_, err := tx.Exec("INSERT INTO users (email, id, version, created_at, updated_at) VALUES ($2, $1, $3, $4, $4)",
				"u1", "a@b", 1, int64(7))
			return err
		})
		must(t, err)
		var id, email string
		var first *string
		var created, updated int64
		row := d.Read(t.Context()).Row(`SELECT id, email, first_name, created_at, updated_at FROM users
			WHERE email = $1 OR id = $1`, "a@b")
		must(t, row.Scan(&id, &email, &first, &created, &updated))
		if id != "u1" || email != "a@b" || first != nil || created != 7 || updated != 7 {
			t.Errorf("got %q %q %v %d %d", id, email, first, created, updated)
		}
	})
}

func TestBooleansAndBytesOnBothEngines(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		kind := map[db.Dialect]string{
			db.SQLite:   "id TEXT, gone INTEGER, body BLOB",
			db.Postgres: "id TEXT, gone BOOLEAN, body BYTEA",
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec("CREATE TABLE things (" + kind[d.Dialect()] + ")"); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT INTO things (id, gone, body) VALUES ($1, $2, $3), ($4, $5, $6)",
				"a", true, []byte{0, 1}, "b", false, nil)
			return err
		}))
		q := d.Read(t.Context())
		var gone bool
		var body []byte
		must(t, q.Row("SELECT gone, body FROM things WHERE gone").Scan(&gone, &body))
		if !gone || string(body) != "\x00\x01" {
			t.Errorf("got %v %v", gone, body)
		}
		var id string
		must(t, q.Row("SELECT id, gone, body FROM things WHERE NOT gone").Scan(&id, &gone, &body))
		if id != "b" || gone || body != nil {
			t.Errorf("got %q %v %v", id, gone, body)
		}
	})
}

func TestExecCountsRowsAndRowReportsNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, errors.Join(put(tx, "a", "1"), put(tx, "b", "1")))
			n, err := tx.Exec("UPDATE meta SET value = '2'")
			if n != 2 {
				t.Errorf("affected %d", n)
			}
			var s string
			if err := tx.Row("SELECT key FROM meta WHERE key = $1", "z").Scan(&s); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("want ErrNoRows in a transaction, got %v", err)
			}
			must(t, tx.Row("UPDATE meta SET value = '3' WHERE key = 'a' RETURNING value").Scan(&s))
			return err
		}))
		var s string
		if err := d.Read(t.Context()).Row("SELECT key FROM meta WHERE key = $1", "z").Scan(&s); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("want ErrNoRows, got %v", err)
		}
		none, err := db.Collect(d.Read(t.Context()), db.Value[string], "SELECT key FROM meta WHERE key = 'z'")
		if err != nil || none == nil || len(none) != 0 {
			t.Errorf("want an empty slice, got %#v, %v", none, err)
		}
	})
}

func TestIsUniqueRecognizesViolatedKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		user := func(id, email string) error {
			return d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO users (id, email, version, created_at, updated_at) VALUES ($1, $2, 1, 1, 1)", id, email)
				return err
			})
		}
		must(t, user("u1", "a"))
		if err := user("u1", "b"); !db.IsUnique(err) {
			t.Errorf("primary key: %v", err)
		}
		if err := user("u2", "a"); !db.IsUnique(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("unique index: %v", err)
		}
		err := d.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec("INSERT INTO nowhere VALUES (1)"); return err })
		if err == nil || db.IsUnique(err) {
			t.Errorf("no such table: %v", err)
		}
		must(t, user("u2", "b"))
	})
}

func TestTextThatPostgresCannotStoreIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, text := range []string{"a\x00b", "a\xffb"} {
			err := d.Write(t.Context(), func(tx *db.Tx) error { return put(tx, "k", text) })
			if errs.KindOf(err) != errs.Invalid {
				t.Errorf("write %q: %v", text, err)
			}
			var s string
			err = d.Read(t.Context()).Row("SELECT key FROM meta WHERE key = $1", text).Scan(&s)
			if errs.KindOf(err) != errs.Invalid {
				t.Errorf("read %q: %v", text, err)
			}
		}
		// Named types are not checked here; the server refuses them.
		type name string
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("DELETE FROM meta WHERE key = $1", name("\x00"))
			return err
		})
		if d.Dialect() == db.Postgres && errs.KindOf(err) != errs.Invalid {
			t.Errorf("SQLSTATE 22021: %v", err)
		}
	})
}

func TestSentStatementsRunInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		send := func(tx *db.Tx, key string) error {
			return tx.Send("INSERT INTO meta (key, value) VALUES ($1, '')", key)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return errors.Join(send(tx, "a"), send(tx, "b")) }))
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, send(tx, "c"))
			if diff := cmp.Diff([]string{"a", "b", "c"}, keys(t, tx)); diff != "" {
				t.Errorf("a later statement does not see it: %s", diff)
			}
			inner := d.Write(tx.Context(), func(tx *db.Tx) error { return errors.Join(send(tx, "d"), send(tx, "a")) })
			if !db.IsUnique(inner) {
				t.Errorf("joined: %v", inner)
			}
			return send(tx, "e")
		}))
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			tx.OnCommit(func() { t.Error("OnCommit ran") })
			return errors.Join(send(tx, "f"), send(tx, "a"), send(tx, "g"))
		})
		if !db.IsUnique(err) {
			t.Errorf("want a violated key, got %v", err)
		}
		if err := d.Write(t.Context(), func(tx *db.Tx) error { must(t, send(tx, "h")); return errors.New("no") }); err == nil {
			t.Error("no error")
		}
		wantKeys(t, d, "a", "b", "c", "e")
	})
}

func TestErrorOfTheFunctionRollsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine := errors.New("mine")
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			tx.OnCommit(func() { t.Error("OnCommit ran after a rollback") })
			must(t, put(tx, "a", ""))
			return mine
		})
		if !errors.Is(err, mine) {
			t.Errorf("want the function's own error, got %v", err)
		}
		wantKeys(t, d)
	})
}

func TestOnCommitRunsAfterTheOuterCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var order []string
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			tx.OnCommit(func() { order = append(order, "outer"); wantKeys(t, d, "a", "b") })
			inner := d.Write(tx.Context(), func(tx *db.Tx) error {
				tx.OnCommit(func() { order = append(order, "inner") })
				return put(tx, "b", "")
			})
			failed := d.Write(tx.Context(), func(tx *db.Tx) error {
				tx.OnCommit(func() { order = append(order, "failed") })
				return errors.New("no")
			})
			if failed == nil || len(order) != 0 {
				t.Errorf("before the commit: %v, %v", failed, order)
			}
			return errors.Join(inner, put(tx, "a", ""))
		}))
		if diff := cmp.Diff([]string{"outer", "inner"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJoinedWriteFailsAlone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, put(tx, "a", ""))
			must(t, d.Write(tx.Context(), func(tx *db.Tx) error {
				must(t, put(tx, "b", ""))
				err := d.Write(tx.Context(), func(tx *db.Tx) error { must(t, put(tx, "c", "")); return put(tx, "a", "again") })
				if !db.IsUnique(err) {
					t.Errorf("want a violated key, got %v", err)
				}
				return put(tx, "d", "")
			}))
			if diff := cmp.Diff([]string{"a", "b", "d"}, keys(t, d.Read(tx.Context()))); diff != "" {
				t.Errorf("inside: %s", diff)
			}
			if got := keys(t, d.Read(t.Context())); len(got) != 0 {
				t.Errorf("seen from outside: %v", got)
			}
			return nil
		}))
		wantKeys(t, d, "a", "b", "d")
	})
}

func TestPanicOfAJoinedWriteRollsItBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			func() {
				defer func() { _ = recover() }()
				_ = d.Write(tx.Context(), func(tx *db.Tx) error { must(t, put(tx, "b", "")); panic("no") })
			}()
			return put(tx, "a", "")
		}))
		wantKeys(t, d, "a")
	})
}

func TestRulesHoldOnBothEngines(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var kept *db.Tx
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			kept = tx
			must(t, put(tx, "a", ""))
			rows, err := tx.Query("SELECT key FROM meta")
			must(t, err)
			if err := put(tx, "b", ""); err == nil || !strings.Contains(err.Error(), "still open") {
				t.Errorf("statement with open rows: %v", err)
			}
			rows.Close()
			if err := put(tx, "a", ""); !db.IsUnique(err) {
				t.Errorf("want a violated key, got %v", err)
			}
			if err := put(tx, "c", ""); err == nil {
				t.Error("a statement ran after one that failed")
			}
			return nil
		})
		if !db.IsUnique(err) {
			t.Errorf("a failed statement was ignored: %v", err)
		}
		if err := put(kept, "d", ""); err == nil {
			t.Error("a statement ran after the end")
		}
		wantKeys(t, d)
	})
}

func TestRowsLeftOpenAreClosed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, errors.Join(put(tx, "a", ""), put(tx, "b", "")))
			rows, err := tx.Query("UPDATE meta SET value = 'x' RETURNING key")
			rows.Next()
			return err
		}))
		wantKeys(t, d, "a", "b")
	})
}

func TestEndedContextRunsNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := d.Write(ctx, func(*db.Tx) error { t.Error("it ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("write: %v", err)
		}
		if _, err := d.Read(ctx).Query("SELECT 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("query: %v", err)
		}
		var n int
		if err := d.Read(ctx).Row("SELECT 1").Scan(&n); !errors.Is(err, context.Canceled) {
			t.Errorf("row: %v", err)
		}
		must(t, d.Ping(t.Context()))
	})
}

func TestClosedDatabaseIsUnavailable(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			d, err := db.Open(t.Context(), dbtest.Options(t, dialect))
			must(t, err)
			must(t, errors.Join(d.Close(), d.Close()))
			if err := d.Write(t.Context(), putting("a")); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("write: %v", err)
			}
			if err := d.Ping(t.Context()); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("ping: %v", err)
			}
		})
	}
}
