package libsql

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"steward/internal/resource"
)

// use counts what a database's clients consume.
type use struct {
	org, id                      string
	statements, refused, in, out atomic.Int64
	time                         atomic.Int64 // nanoseconds
	reported                     resource.Use // in the last log line
}

func newUse(org, id string) *use { return &use{org: org, id: id} }

// statement counts a statement and its time.
func (u *use) statement(took time.Duration) {
	u.statements.Add(1)
	u.time.Add(int64(took))
}

// refuse counts a request or statement that we had no room for, and returns err.
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

// usage holds the use of all databases.
type usage struct {
	resource.Used[use]
	since time.Time // time of the last log lines
}

// Usage returns what databases' clients have used, for metrics.
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

// clients counts the requests in flight and the open streams.
func (d *database) clients() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.sessions) + d.open)
}

// size returns the files' size in bytes.
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
	// reportEvery is the interval for logging heavy use.
	reportEvery = time.Minute
	// maxReported caps the databases in one report. The heaviest come first.
	maxReported = 20
)

// reportHeavy logs the databases that were used heavily since the last report.
func (e *Engine) reportHeavy() {
	for _, u := range e.usage.heavy(e.now(), e.limits.Heavy) {
		e.Log.Warn("heavy use of a database", "organization", u.Org, "database", u.ID,
			"statements", u.Operations, "bytes_in", u.In, "bytes_out", u.Out, "seconds", u.Time.Seconds())
	}
}

// heavy returns the heaviest use since the last report, or nil if that was recent.
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

// since subtracts an earlier reading.
func since(u, before resource.Use) resource.Use {
	u.Operations -= before.Operations
	u.In -= before.In
	u.Out -= before.Out
	u.Time -= before.Time
	return u
}
