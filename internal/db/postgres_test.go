package db_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// TestDeadlockIsRetried has two writers lock the same two rows in opposite order. The server ends one of
// them, which runs again.
func TestDeadlockIsRetried(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { return errors.Join(put(tx, "a", ""), put(tx, "b", "")) }))
	var both sync.WaitGroup
	both.Add(2)
	runs := make(chan string, 20)
	locking := func(name, first, second string) func(*db.Tx) error {
		met := sync.OnceFunc(func() { both.Done(); both.Wait() })
		return func(tx *db.Tx) error {
			runs <- name
			if _, err := tx.Exec("UPDATE meta SET value = value || $2 WHERE key = $1", first, name); err != nil {
				return err
			}
			met()
			_, err := tx.Exec("UPDATE meta SET value = value || $2 WHERE key = $1", second, name)
			return err
		}
	}
	must(t, errors.Join(writers(t.Context(), d, locking("x", "a", "b"), locking("y", "b", "a"))()...))
	if len(runs) < 3 {
		t.Errorf("%d runs: there was no deadlock", len(runs))
	}
	var a, b string
	row := d.Read(t.Context()).Row("SELECT x.value, y.value FROM meta x, meta y WHERE x.key = 'a' AND y.key = 'b'")
	must(t, row.Scan(&a, &b))
	if a != b || len(a) != 2 {
		t.Errorf("got %q and %q", a, b)
	}
}

// TestSerializationIsRetried increments a number in serializable transactions that read it first.
func TestSerializationIsRetried(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		return tx.Send("INSERT INTO epochs VALUES ('c', 0, 0, '')")
	}))
	count := func(tx *db.Tx) error {
		if _, err := tx.Exec("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"); err != nil {
			return err
		}
		var n int64
		if err := tx.Row("SELECT n FROM epochs WHERE name = 'c'").Scan(&n); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE epochs SET n = $1 WHERE name = 'c'", n+1); err != nil {
			return errors.New("the cause is hidden") // the retry must not depend on the error of fn
		}
		return nil
	}
	must(t, errors.Join(writers(t.Context(), d, count, count, count, count)()...))
	var n int64
	must(t, d.Read(t.Context()).Row("SELECT n FROM epochs").Scan(&n))
	if n != 4 {
		t.Errorf("counted to %d", n)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	runs := 0
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		runs++
		_, err := tx.Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
		return err
	})
	if errs.KindOf(err) != errs.Unavailable || runs != 10 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

func TestRetryInAJoinedWriteRunsTheWholeTransaction(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	runs := 0
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		runs++
		err := d.Write(tx.Context(), func(tx *db.Tx) error {
			if runs < 3 {
				_, err := tx.Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
				return err
			}
			return put(tx, "a", "")
		})
		if err != nil {
			return errors.New("the cause is hidden")
		}
		return nil
	}))
	if runs != 3 {
		t.Errorf("%d runs", runs)
	}
	wantKeys(t, d, "a")
}

// TestLostConnectionIsUnavailable terminates the backend of a connection during a transaction.
func TestLostConnectionIsUnavailable(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	for name, fn := range map[string]func(*db.Tx) error{
		"first statement": func(tx *db.Tx) error {
			_, err := tx.Exec("SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		},
		"later statement": func(tx *db.Tx) error {
			must(t, put(tx, "a", ""))
			var ok bool
			return tx.Row("SELECT pg_terminate_backend(pg_backend_pid())").Scan(&ok)
		},
		"commit": func(tx *db.Tx) error {
			must(t, put(tx, "a", ""))
			var pid int
			must(t, tx.Row("SELECT pg_backend_pid()").Scan(&pid))
			terminate(t, d, pid)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.Write(t.Context(), fn); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("got %v", err)
			}
			wantKeys(t, d)
		})
	}
}

// terminate terminates a backend and waits for its end.
func terminate(t *testing.T, d *db.DB, pid int) {
	t.Helper()
	var gone bool
	must(t, d.Read(t.Context()).Row("SELECT pg_terminate_backend($1, 10000)", pid).Scan(&gone))
	if !gone {
		t.Fatal("the backend did not end")
	}
}

func TestUnreachableServerIsUnavailable(t *testing.T) {
	_, err := db.Open(t.Context(), db.Options{URL: "postgres://x:secret@127.0.0.1:1/x?connect_timeout=2"})
	if errs.KindOf(err) != errs.Unavailable {
		t.Errorf("got %v", err)
	}
	_, err = db.Open(t.Context(), db.Options{URL: "postgres://x:secret@h:port/x"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestEndedContextRollsBack(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	ctx, cancel := context.WithCancel(t.Context())
	err := d.Write(ctx, func(tx *db.Tx) error {
		must(t, put(tx, "a", ""))
		cancel()
		return put(tx, "b", "")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantKeys(t, d)
}
