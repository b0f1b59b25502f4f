package job_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/job"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// acquire tries to acquire a lease of a minute.
func acquire(t *testing.T, d *db.DB, c *clock, owner string, want bool) *job.Lease {
	t.Helper()
	lease := &job.Lease{DB: d, Now: c.now, Name: "work", Owner: owner, TTL: time.Minute}
	if got, err := lease.Acquire(t.Context()); got != want || err != nil {
		t.Fatalf("Acquire for %s: %v, %v; want %v", owner, got, err, want)
	}
	return lease
}

// TestLostLeaseIsNotRenewed has a lease expire: it can be renewed until another owner has acquired it, and
// also after that one has released it is lost.
func TestLostLeaseIsNotRenewed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		a := acquire(t, d, c, "a", true)
		renew := func(want bool) {
			t.Helper()
			if got, err := a.Renew(t.Context()); got != want || err != nil {
				t.Errorf("Renew: %v, %v; want %v", got, err, want)
			}
		}
		c.advance(time.Hour)
		renew(true)
		acquire(t, d, c, "b", false)
		c.advance(time.Hour)
		b := acquire(t, d, c, "b", true)
		renew(false)
		must(t, b.Release(t.Context()))
		renew(false)
	})
}

func TestLeaseHasOneHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		a := acquire(t, d, c, "a", true)
		b := acquire(t, d, c, "b", false)
		c.advance(50 * time.Second)
		acquire(t, d, c, "a", true) // renewed
		c.advance(50 * time.Second)
		acquire(t, d, c, "b", false)
		c.advance(11 * time.Second)
		acquire(t, d, c, "b", true) // expired
		acquire(t, d, c, "a", false)
		must(t, a.Release(t.Context())) // is not the holder
		acquire(t, d, c, "a", false)
		must(t, b.Release(t.Context()))
		acquire(t, d, c, "a", true)
	})
}

// TestLockedLeaseIsNotWaitedFor has a transaction that never ends hold the row of a lease.
func TestLockedLeaseIsNotWaitedFor(t *testing.T) {
	options := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), options)
	must(t, err)
	defer func() { must(t, d.Close()) }()
	c := newClock()
	lease := acquire(t, d, c, "a", true)
	frozen, err := pgx.Connect(t.Context(), options.URL)
	must(t, err)
	defer func() { _ = frozen.Close(context.Background()) }()
	_, err = frozen.Exec(t.Context(), `BEGIN; UPDATE leases SET until = 0 WHERE name = 'work'`)
	must(t, err)
	acquire(t, d, c, "a", false)
	acquire(t, d, c, "b", false)
	must(t, lease.Release(t.Context()))
	_, err = frozen.Exec(t.Context(), `ROLLBACK`)
	must(t, err)
	acquire(t, d, c, "b", false)
	acquire(t, d, c, "a", true)
}

// newJob returns a job of a process that is looked at every few milliseconds, and is due by the clock.
func newJob(d *db.DB, c *clock, owner string, do func(context.Context) error) *job.Job {
	l := job.Lease{DB: d, Now: c.now, Name: "work", Owner: owner, TTL: time.Second}
	return &job.Job{Lease: l, Log: silent, Interval: 5 * time.Millisecond, Do: do}
}

// TestJobRunsOnceInAnInterval runs a job on two replicas, and again after both were replaced.
func TestJobRunsOnceInAnInterval(t *testing.T) {
	dbtest.EachInBubble(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		var calls atomic.Int64
		runs := int64(0)
		for _, owners := range [][]string{{"a", "b"}, {"c", "d"}} {
			var g job.Group
			for _, owner := range owners {
				g.Go(newJob(d, c, owner, func(context.Context) error {
					calls.Add(1)
					return errors.New("fails, and waits for its interval nevertheless")
				}).Run)
			}
			for range 3 {
				runs++
				waittest.True(t, "the next run", func() bool { return calls.Load() == runs && idle(t, d) })
				c.advance(5 * time.Millisecond)
			}
			runs++
			waittest.True(t, "the last run", func() bool { return calls.Load() == runs && idle(t, d) })
			g.Stop()
			c.advance(5 * time.Millisecond)
		}
		if n := calls.Load(); n != runs {
			t.Errorf("%d runs in %d intervals", n, runs)
		}
	})
}

// idle reports whether nobody holds the lease.
func idle(t *testing.T, d *db.DB) bool {
	t.Helper()
	var owner string
	must(t, d.Read(t.Context()).Row(`SELECT owner FROM leases WHERE name = 'work'`).Scan(&owner))
	return owner == ""
}

// TestStoppedJobIsContinuedAtOnce stops a process in the middle of a job. The clock stands still, so no
// lease expires, and the interval does not end.
func TestStoppedJobIsContinuedAtOnce(t *testing.T) {
	dbtest.EachInBubble(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		started := make(chan string, 2)
		for _, owner := range []string{"a", "b"} {
			var g job.Group
			g.Go(newJob(d, c, owner, func(ctx context.Context) error {
				started <- owner
				<-ctx.Done()
				return ctx.Err()
			}).Run)
			if got := waittest.Receive(t, "the job", started); got != owner {
				t.Errorf("%s runs", got)
			}
			g.Stop()
		}
		if len(started) > 0 {
			t.Error("the job ran once more when it was stopped")
		}
	})
}

// TestLongJobKeepsItsLease has a job that takes longer than its lease.
func TestLongJobKeepsItsLease(t *testing.T) {
	dbtest.EachInBubble(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		var g job.Group
		started := make(chan bool, 1)
		g.Go(newJob(d, c, "a", func(ctx context.Context) error {
			started <- true
			<-ctx.Done()
			return ctx.Err()
		}).Run)
		defer g.Stop()
		waittest.Receive(t, "the job", started)
		for range 3 {
			c.advance(900 * time.Millisecond)
			want := stamp.Of(c.now().Add(time.Second))
			waittest.True(t, "the lease to be renewed", func() bool {
				var until stamp.Time
				must(t, d.Read(t.Context()).Row(`SELECT until FROM leases`).Scan(&until))
				return until == want
			})
			acquire(t, d, c, "b", false)
		}
	})
}

// TestJobWithoutWorkTakesNoLease has a job that asks for work before it writes.
func TestJobWithoutWorkTakesNoLease(t *testing.T) {
	dbtest.EachInBubble(t, func(t *testing.T, d *db.DB) {
		asked := make(chan bool)
		j := newJob(d, newClock(), "a", func(context.Context) error { return errors.New("there was work") })
		j.Pending = func(context.Context) (bool, error) { asked <- true; return false, nil }
		var g job.Group
		g.Go(j.Run)
		for range 3 {
			waittest.Receive(t, "a question for work", asked)
		}
		go func() {
			for range asked { // until the job has stopped
			}
		}()
		g.Stop()
		close(asked)
		var leases int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM leases WHERE name = 'work'`).Scan(&leases))
		if leases != 0 {
			t.Error("a lease was taken")
		}
	})
}
