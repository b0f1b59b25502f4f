package job

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Lease is held by at most one process at a time. It expires TTL after its holder last renewed it.
type Lease struct {
	DB    *db.DB
	Now   func() time.Time
	Name  string
	Owner string
	TTL   time.Duration
}

// Acquire acquires or renews the lease and reports whether the owner holds it. It does not wait: if
// another transaction has locked the lease's row, it does not get the lease now.
func (l *Lease) Acquire(ctx context.Context) (held bool, err error) {
	return l.acquire(ctx, stamp.Time(math.MaxInt64))
}

// acquire is Acquire for a job that is due unless it ran after the time due.
func (l *Lease) acquire(ctx context.Context, due stamp.Time) (held bool, err error) {
	now := stamp.Of(l.Now())
	until := now.Add(l.TTL)
	var taken, added int64
	err = l.DB.Write(ctx, func(tx *db.Tx) error {
		if err := tx.SendCount(&taken, `UPDATE leases SET owner = @owner, until = @until WHERE name IN (
			SELECT name FROM leases WHERE name = @name AND (until < @now OR owner = @owner) AND ran_at <= @due`+db.SkipLocked(tx.Dialect())+`)`,
			db.Args{"name": l.Name, "owner": l.Owner, "until": until, "now": now, "due": due}); err != nil {
			return err
		}
		return tx.SendCount(&added, `INSERT INTO leases (name, owner, until) SELECT $1, $2, $3
			WHERE NOT EXISTS (SELECT 1 FROM leases WHERE name = $1) ON CONFLICT (name) DO NOTHING`, l.Name, l.Owner, until)
	})
	if err != nil {
		return false, fmt.Errorf("acquire lease %s: %w", l.Name, err)
	}
	return taken+added > 0, nil
}

// Renew extends the lease if nobody else has acquired it since, and reports whether the owner still
// holds it. Unlike Acquire, it does not take back a lost lease.
func (l *Lease) Renew(ctx context.Context) (held bool, err error) {
	n, err := l.DB.Exec(ctx, `UPDATE leases SET until = $3 WHERE name = $1 AND owner = $2`,
		l.Name, l.Owner, stamp.Of(l.Now()).Add(l.TTL))
	if err != nil {
		return false, fmt.Errorf("renew lease %s: %w", l.Name, err)
	}
	return n > 0, nil
}

// Held returns an SQL condition that is true while all the leases are held by their owners, and adds
// its arguments.
func Held(leases []*Lease, args db.Args) string {
	condition := "TRUE"
	for i, l := range leases {
		name := fmt.Sprintf("lease%d", i)
		owner := fmt.Sprintf("lease_owner%d", i)
		args[name] = l.Name
		args[owner] = l.Owner
		condition += " AND EXISTS (SELECT 1 FROM leases WHERE name = @" + name + " AND owner = @" + owner + ")"
	}
	return condition
}

// Release ends the lease if the owner holds it, so that others need not wait until it expires.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx, 0) }

// release is Release for a job that ran at a time, or 0 if it did not.
func (l *Lease) release(ctx context.Context, ran stamp.Time) error {
	// Another process that finds the lease taken locks its row for a moment. If we gave up then, the
	// lease would stay held until it expires.
	for try := 1; ; try++ {
		released, err := l.DB.Exec(ctx, `UPDATE leases SET owner = '', until = 0, ran_at = CASE WHEN ran_at < $3 THEN $3 ELSE ran_at END
			WHERE name IN (SELECT name FROM leases WHERE name = $1 AND owner = $2`+db.SkipLocked(l.DB.Dialect())+`)`,
			l.Name, l.Owner, ran)
		if err != nil {
			return fmt.Errorf("release lease %s: %w", l.Name, err)
		}
		if released > 0 || try == releaseTries {
			return nil
		}
		time.Sleep(releasePause)
	}
}

const (
	// A release finds its lease's row locked only for a moment, unless a process has stopped in the
	// middle of a transaction. It tries releaseTries times, with pauses between.
	releaseTries = 5
	releasePause = 10 * time.Millisecond
	// firstCheck is the delay before a starting process looks at a job; later it looks every
	// checkEvery.
	firstCheck = 5 * time.Second
	checkEvery = time.Minute
)

// Job is work that one replica at a time does, once in an interval. We store its last run with its
// lease, so that the interval holds across replicas and restarts. The job holds and renews the lease
// while it runs, and releases it at the end and when the process stops. So the lease may be short.
type Job struct {
	Lease
	Log      *slog.Logger
	Title    string // for the log
	Interval time.Duration
	// Pending reports whether there is work, if it is set. A job without work writes nothing.
	Pending func(context.Context) (bool, error)
	// Do does the work. It must return soon after its context ends, which also happens when the
	// lease is lost.
	Do func(context.Context) error
}

// Run runs the job whenever it is due, until ctx ends.
func (j *Job) Run(ctx context.Context) {
	for pause := min(j.Interval, firstCheck); ; pause = min(j.Interval, checkEvery) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			call(ctx, j.Log, j.Title, j.runIfDue)
		}
	}
}

// runIfDue does the work if it is due and nobody else does it.
func (j *Job) runIfDue(ctx context.Context) error {
	if j.Pending != nil {
		pending, err := j.Pending(ctx)
		if err != nil || !pending {
			return err
		}
	}
	began := stamp.Of(j.Now())
	// Checks are not exactly an interval apart.
	held, err := j.acquire(ctx, began.Add(-j.Interval*9/10))
	if err != nil || !held {
		return err
	}
	err = j.during(ctx, j.Do)
	if ctx.Err() != nil {
		began = 0 // it was interrupted
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer cancel()
	if failed := j.release(final, began); failed != nil && err == nil {
		err = failed
	}
	return err
}

// Hold waits until the owner has the lease, calls do, and releases the lease. do's context ends when
// the lease is lost.
func (l *Lease) Hold(ctx context.Context, do func(context.Context) error) error {
	for {
		held, err := l.TryHold(ctx, do)
		if held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdEvery):
		}
	}
}

// TryHold is Hold without waiting: it reports whether the owner got the lease and do was called.
func (l *Lease) TryHold(ctx context.Context, do func(context.Context) error) (held bool, err error) {
	if held, err := l.Acquire(ctx); err != nil || !held {
		return false, err
	}
	err = l.during(ctx, do)
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer cancel()
	if failed := l.Release(final); failed != nil && err == nil {
		err = failed
	}
	return true, err
}

// holdEvery is how often Hold tries to acquire a lease.
const holdEvery = 200 * time.Millisecond

// during does work and renews the lease meanwhile. If renewals fail until the lease has expired, it
// ends the work.
func (l *Lease) during(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		l.renew(ctx)
		cancel()
	})
	defer renewing.Wait()
	defer cancel()
	return do(ctx)
}

// renew renews the lease until ctx ends, or the lease has expired.
func (l *Lease) renew(ctx context.Context) {
	ticker := time.NewTicker(l.TTL / 3)
	defer ticker.Stop()
	for renewed := time.Now(); time.Since(renewed) < l.TTL; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		if held, err := l.Acquire(ctx); held && err == nil {
			renewed = began
		}
	}
}
