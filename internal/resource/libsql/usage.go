package libsql

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Use is what the clients of a database have used since the process started.
type Use struct {
	Org      string
	Database string
	// Statements is how many ran.
	Statements int64
	// In and Out are the bytes of requests and responses.
	In  int64
	Out int64
	// Time is how long statements ran. Waiting for their turn, writers, the disk or the client is not
	// included.
	Time time.Duration
}

// use counts what the clients of a database use.
type use struct {
	org, id             string
	statements, in, out atomic.Int64
	time                atomic.Int64 // nanoseconds
	reported            Use          // of the last line in the log
}

// statement counts a statement that ran for a time.
func (u *use) statement(took time.Duration) {
	u.statements.Add(1)
	u.time.Add(int64(took))
}

func (u *use) read() Use {
	return Use{
		Org: u.org, Database: u.id, Statements: u.statements.Load(), In: u.in.Load(), Out: u.out.Load(),
		Time: time.Duration(u.time.Load()),
	}
}

// usage has the use of all databases that were opened since the start and are not deleted.
type usage struct {
	mu    sync.Mutex
	all   map[string]*use
	since time.Time // of the last lines in the log
}

// of returns the use of a database.
func (a *usage) of(org, id string) *use {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.all[id]
	if u == nil {
		u = &use{org: org, id: id}
		if a.all == nil {
			a.all = map[string]*use{}
		}
		a.all[id] = u
	}
	return u
}

func (a *usage) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, id)
}

// Usage returns what the clients of each database have used, for metrics.
func (e *Engine) Usage() []Use {
	e.usage.mu.Lock()
	defer e.usage.mu.Unlock()
	all := make([]Use, 0, len(e.usage.all))
	for _, u := range e.usage.all {
		all = append(all, u.read())
	}
	return all
}

const (
	// reportEvery is how often heavy use is logged.
	reportEvery = time.Minute
	// maxReported is the number of databases that are logged, the heaviest first.
	maxReported = 20
)

// reportHeavy logs once in a while which databases have used much since the last time.
func (e *Engine) reportHeavy() {
	for _, u := range e.usage.heavy(e.now(), e.limits.Heavy) {
		e.Log.Warn("heavy use of a database", "organization", u.Org, "database", u.Database,
			"statements", u.Statements, "bytes_in", u.In, "bytes_out", u.Out, "seconds", u.Time.Seconds())
	}
}

// heavy returns what the heaviest users have used since the last time, or nil if that is not long ago.
func (a *usage) heavy(now time.Time, heavy time.Duration) []Use {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) < reportEvery {
		return nil
	}
	a.since = now
	var found []Use
	for _, u := range a.all {
		all := u.read()
		if recent := all.minus(u.reported); recent.Time >= heavy {
			found = append(found, recent)
		}
		u.reported = all
	}
	slices.SortFunc(found, func(x, y Use) int { return cmp.Compare(y.Time, x.Time) })
	return found[:min(len(found), maxReported)]
}

// minus returns what was used since an earlier time.
func (u Use) minus(before Use) Use {
	u.Statements -= before.Statements
	u.In -= before.In
	u.Out -= before.Out
	u.Time -= before.Time
	return u
}
