package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/waittest"
)

// brief are limits that a test can wait for. None of them is that of a context.
func brief(ctx context.Context) context.Context {
	return db.WithLimits(ctx, time.Second, 500*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
}

func TestLimitsOfConnections(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	setting := func(q db.Querier, name string) (value string) {
		must(t, q.Row("SELECT current_setting($1)", name).Scan(&value))
		return value
	}
	for name, want := range map[string][2]string{
		"statement_timeout": {"9s", "10min"}, "lock_timeout": {"5s", "30s"}, "idle_in_transaction_session_timeout": {"10s", "1min"},
	} {
		for i, ctx := range []context.Context{t.Context(), db.Long(t.Context())} {
			read := setting(d.Read(ctx), name)
			var written, snapshot string
			must(t, d.Write(ctx, func(tx *db.Tx) error { written = setting(tx, name); return nil }))
			must(t, d.Snapshot(ctx, func(q db.Querier) error { snapshot = setting(q, name); return nil }))
			if read != want[i] || written != want[i] || snapshot != want[i] {
				t.Errorf("%s: %s, %s and %s, not %s", name, read, written, snapshot, want[i])
			}
		}
	}
	if after := setting(d.Read(t.Context()), "statement_timeout"); after != "9s" {
		t.Errorf("the connection keeps %s", after)
	}
}

// TestSlowStatementIsUnavailable has the server end statements, which costs no connection on
// PostgreSQL, and interrupts a read on SQLite.
func TestSlowStatementIsUnavailable(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 - 1 FROM n) SELECT count(*) FROM n"
		var n int64
		ctx := brief(t.Context())
		read := d.Read(ctx).Row(endless).Scan(&n)
		snapshot := d.Snapshot(ctx, func(q db.Querier) error { return q.Row(endless).Scan(&n) })
		for _, err := range []error{read, snapshot} {
			if errs.KindOf(err) != errs.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		gone, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := d.Read(gone).Row(endless).Scan(&n); !errors.Is(err, context.DeadlineExceeded) || errs.KindOf(err) == errs.Unavailable {
			t.Errorf("with a deadline of the caller: %v", err)
		}
	})
}

// TestFrozenTransactionIsEnded has a replica stop within a transaction. The server ends it, and others
// get the locked row.
func TestFrozenTransactionIsEnded(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	must(t, d.Write(t.Context(), putting("a")))
	touch := func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE meta SET value = value || 'x' WHERE key = 'a'")
		return err
	}
	frozen := d.Write(t.Context(), func(tx *db.Tx) error {
		must(t, touch(tx))
		if err := d.Write(brief(t.Context()), touch); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("while the row is locked: %v", err)
		}
		if _, err := tx.Exec("SET LOCAL idle_in_transaction_session_timeout = 300"); err != nil {
			return err
		}
		must(t, d.Write(db.Long(t.Context()), touch)) // waits for the lock
		return nil
	})
	if frozen == nil {
		t.Error("the frozen transaction was committed")
	}
	var value string
	must(t, d.Read(t.Context()).Row("SELECT value FROM meta").Scan(&value))
	if value != "x" {
		t.Errorf("the value is %q", value)
	}
}

// TestFrozenServerIsUnavailable shows that all work on a server that does not respond ends, and that the
// pool is in order afterwards.
func TestFrozenServerIsUnavailable(t *testing.T) {
	server := dbtest.NewServer(t)
	o := dbtest.Options(t, db.SQLite)
	o.URL = server.URL
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	must(t, d.Write(t.Context(), putting("before")))
	ctx := brief(t.Context())

	thaw := server.Freeze()
	for name, do := range map[string]func() error{
		"read": func() error { return d.Read(ctx).Row("SELECT key FROM meta").Scan(new(string)) },
		"snapshot": func() error {
			return d.Snapshot(ctx, func(q db.Querier) error { return q.Row("SELECT 1").Scan(new(int)) })
		},
		"write": func() error {
			return d.Write(ctx, func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM meta"); return err })
		},
		"ping": func() error { return d.Ping(ctx) },
	} {
		if err := do(); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	thaw()
	waittest.Until(t, "the database", func() (error, bool) { err := d.Ping(ctx); return err, err == nil })
	wantKeys(t, d, "before")

	called := 0
	d.Watch("cache", func() { called++ })
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		must(t, put(tx, "unknown", ""))
		must(t, tx.Invalidate("cache"))
		must(t, tx.Row("SELECT 1").Scan(new(int)))
		thaw = server.Freeze()
		return nil
	})
	if errs.KindOf(err) != errs.Internal || !db.IsOutcomeUnknown(err) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("COMMIT: %v", err)
	}
	if called != 1 {
		t.Errorf("the watcher was called %d times", called)
	}
	thaw()
	waittest.Until(t, "the database", func() (error, bool) {
		err := d.Write(t.Context(), putting("after"))
		return err, err == nil
	})
}

// TestCommitWithoutItsStandbyIsUnknown has a commit wait for a standby that does not exist, until an
// administrator cancels it. The server reports that as a success, with a warning.
func TestCommitWithoutItsStandbyIsUnknown(t *testing.T) {
	server := dbtest.NewServer(t)
	o := dbtest.Options(t, db.SQLite)
	o.URL = server.URL
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	execute(t, server.URL, "ALTER SYSTEM SET synchronous_standby_names = 'missing'", "SELECT pg_reload_conf()")
	waittest.Until(t, "the setting", func() (name string, ok bool) {
		must(t, d.Read(t.Context()).Row("SHOW synchronous_standby_names").Scan(&name))
		return name, name == "missing"
	})
	written := make(chan error, 1)
	write := func() { written <- d.Write(db.Long(t.Context()), putting("a")) }
	go write()
	waittest.Until(t, "the commit to wait", func() (n int, ok bool) {
		select {
		case err := <-written: // by a connection that has not read the setting yet
			must(t, err)
			go write()
		default:
		}
		must(t, d.Read(t.Context()).Row(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
			WHERE wait_event = 'SyncRep'`).Scan(&n))
		return n, n > 0
	})
	if err := <-written; !db.IsOutcomeUnknown(err) {
		t.Errorf("got %v", err)
	}
}
