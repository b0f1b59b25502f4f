package db_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// never is a poll interval after which a test is long over.
const never = time.Hour

// replicas opens an empty PostgreSQL database twice.
func replicas(t *testing.T) (a, b *db.DB) {
	t.Helper()
	o := dbtest.Options(t, db.Postgres)
	return open(t, o), open(t, o)
}

// open opens a database until the test ends.
func open(t *testing.T, o db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// runWatch runs RunWatch until the test ends. It returns when the epochs were read for the first time,
// and the connection listens.
func runWatch(t *testing.T, d *db.DB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	started := watched(d, "started")
	go func() { defer close(done); d.RunWatch(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	waittest.Receive(t, "the first reading of the epochs", started)
}

// watched returns a channel that receives a value for each call of the watchers of a name.
func watched(d *db.DB, name string) <-chan struct{} {
	calls := make(chan struct{}, 1000)
	d.Watch(name, func() { calls <- struct{}{} })
	return calls
}

func invalidate(t *testing.T, d *db.DB, name string) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { return tx.Invalidate(name) }))
}

func TestBumpCallsWatchersOfThisProcessOnceAfterTheCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		calls := 0
		d.Watch("keys", func() { calls++ })
		d.Watch("other", func() { t.Error("a watcher of another name was called") })
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, d.Write(tx.Context(), func(tx *db.Tx) error { return tx.Invalidate("keys") }))
			if calls != 0 {
				t.Error("called before the commit")
			}
			return nil
		}))
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			must(t, tx.Invalidate("keys"))
			return errors.New("no")
		})
		if err == nil || calls != 1 {
			t.Errorf("%v, %d calls after a rollback", err, calls)
		}
		var n int64
		must(t, d.Read(t.Context()).Row("SELECT n FROM epochs WHERE name = 'keys'").Scan(&n))
		if n != 1 {
			t.Errorf("epoch %d", n)
		}
	})
}

func TestBumpReachesOtherReplicasByPoll(t *testing.T) {
	here, there := replicas(t) // here does not run RunWatch, so it sends no notifications
	calls := watched(there, "keys")
	runWatch(t, there)
	waittest.Receive(t, "the call at the start", calls)
	for range 3 {
		invalidate(t, here, "keys")
		waittest.Receive(t, "the call by the poll", calls)
	}
}

func TestBumpReachesOtherReplicasByNotification(t *testing.T) {
	here, there := replicas(t)
	here.SetPoll(never)
	there.SetPoll(never)
	calls := watched(there, "keys")
	runWatch(t, there)
	runWatch(t, here)
	waittest.Receive(t, "the call at the start", calls)
	for range 3 {
		invalidate(t, here, "keys")
		waittest.Receive(t, "the call by the notification", calls)
	}
	if len(calls) != 0 {
		t.Errorf("%d calls more than invalidations", len(calls))
	}
}

func TestNotifyReachesOtherReplicasAndReturnsNoEcho(t *testing.T) {
	here, there := replicas(t)
	here.SetPoll(never) // a poll that takes too long calls all watchers
	there.SetPoll(never)
	workHere, workThere, reply := watched(here, "work"), watched(there, "work"), watched(here, "reply")
	runWatch(t, here)
	runWatch(t, there)
	waittest.Receive(t, "the call at the start", workHere)
	waittest.Receive(t, "the call at the start", workThere)
	waittest.Receive(t, "the call at the start", reply)
	here.Notify("work")
	waittest.Receive(t, "the call by the notification", workThere)
	// Notifications arrive in order: an echo of the first one would be here before the reply.
	there.Notify("reply")
	waittest.Receive(t, "the reply", reply)
	if len(workHere) != 0 {
		t.Errorf("%d calls in the process that notified", len(workHere))
	}
}

// TestNotificationsAreCoalesced counts what a raw connection hears while a replica notifies as fast as
// it can.
func TestNotificationsAreCoalesced(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	conn, err := pgx.Connect(t.Context(), o.URL)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "LISTEN steward")
	must(t, err)
	runWatch(t, d)

	began := time.Now()
	for range 100_000 {
		d.Notify("work")
	}
	d.Notify("end")
	heard := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name := ""; name != "end"; heard++ {
		n, err := conn.WaitForNotification(ctx)
		must(t, err)
		_, name, _ = strings.Cut(n.Payload, " ")
	}
	// "end" and a last "work" come with one send; a first one may precede the first interval.
	if most := int(time.Since(began)/(20*time.Millisecond)) + 3; heard > most {
		t.Errorf("%d notifications, want at most %d", heard, most)
	}
}

func TestListenIsRestoredAfterALostConnection(t *testing.T) {
	here, there := replicas(t)
	here.SetPoll(5 * time.Second) // a poll that takes longer ends the connection, and calls all watchers
	there.SetPoll(5 * time.Second)
	calls := watched(there, "work")
	runWatch(t, here)
	runWatch(t, there)
	waittest.Receive(t, "the call at the start", calls)
	waittest.Until(t, "the connections of both replicas to be terminated", func() (killed int, done bool) {
		must(t, here.Read(t.Context()).Row(`SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'SELECT name, n, %FROM epochs'`).Scan(&killed))
		return killed, killed == 2
	})
	// What is sent while nobody listens is lost, so it is sent until it arrives.
	waittest.True(t, "a notification on the new connection", func() bool {
		here.Notify("work")
		return len(calls) > 0
	})
}

// TestUnreadableEpochsMakeAllCachesStale hides the table of epochs.
func TestUnreadableEpochsMakeAllCachesStale(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	calls := watched(d, "keys")
	runWatch(t, d)
	waittest.Receive(t, "the call at the start", calls)
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { return tx.Send("ALTER TABLE epochs RENAME TO hidden") }))
	for range 3 {
		waittest.Receive(t, "the call of an unreadable epoch", calls)
	}
}
