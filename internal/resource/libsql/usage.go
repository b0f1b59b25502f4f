package libsql

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"steward/internal/resource"
)

// use counts what the clients of a database use.
type use struct {
	org, id                      string
	statements, refused, in, out atomic.Int64
	time                         atomic.Int64 // nanoseconds
	reported                     resource.Use // of the last line in the log
}

func newUse(org, id string) *use { return &use{org: org, id: id} }

// statement counts a statement that ran for a time.
func (u *use) statement(took time.Duration) {
	u.statements.Add(1)
	u.time.Add(int64(took))
}

// refuse counts a request or statement for which there was no room, and returns why.
func (u *use) refuse(err error) error {
	u.refused.Add(1)
	return err
}

func (u *use) read() resource.Use {
	return resource.Use{
		Org: u.org, ID: u.id, Operations: u.statements.Load(), Refused: u.refused.Load(),
		In: u.in.Load(), Out: u.out.Load(), Time: time.Duration(u.time.Load()),
	}
}

// usage has the use of databases.
type usage struct {
	resource.Used[use]
	since time.Time // of the last lines in the log
}

// Usage returns what the clients of databases have used, for metrics.
func (e *Engine) Usage() []resource.Use {
	now := map[*use]resource.Use{}
	for _, d := range e.openDatabases() {
		u := now[d.use]
		u.Connections += d.clients()
		u.Disk += d.size()
		now[d.use] = u
	}
	var all []resource.Use
	for _, counted := range e.usage.All() {
		u := counted.read()
		u.Connections = now[counted].Connections
		u.Disk = now[counted].Disk
		all = append(all, u)
	}
	return all
}

// clients returns the number of requests that are being served, and of open streams.
func (d *database) clients() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.sessions) + d.open)
}

// size returns the number of bytes of the files.
func (d *database) size() int64 {
	n := int64(0)
	for _, path := range []string{d.path, d.path + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
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
		e.Log.Warn("heavy use of a database", "organization", u.Org, "database", u.ID,
			"statements", u.Operations, "bytes_in", u.In, "bytes_out", u.Out, "seconds", u.Time.Seconds())
	}
}

// heavy returns what the heaviest users have used since the last time, or nil if that is not long ago.
func (a *usage) heavy(now time.Time, heavy time.Duration) []resource.Use {
	if now.Sub(a.since) < reportEvery {
		return nil
	}
	a.since = now
	var found []resource.Use
	for _, u := range a.All() {
		all := u.read()
		if recent := since(all, u.reported); recent.Time >= heavy {
			found = append(found, recent)
		}
		u.reported = all
	}
	slices.SortFunc(found, func(x, y resource.Use) int { return cmp.Compare(y.Time, x.Time) })
	return found[:min(len(found), maxReported)]
}

// since returns what was used since an earlier time.
func since(u, before resource.Use) resource.Use {
	u.Operations -= before.Operations
	u.In -= before.In
	u.Out -= before.Out
	u.Time -= before.Time
	return u
}
