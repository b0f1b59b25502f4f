//go:build bench

package bench

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// cpuTime is the CPU time that the processes of an installation have used.
type cpuTime struct {
	steward  time.Duration
	database time.Duration // 0 on SQLite
}

// since returns what was used since an earlier time.
func (c cpuTime) since(before cpuTime) cpuTime {
	return cpuTime{steward: c.steward - before.steward, database: c.database - before.database}
}

// all returns the CPU time of all processes.
func (c cpuTime) all() time.Duration { return c.steward + c.database }

// cpu returns the CPU time of Steward and of its PostgreSQL server.
func (in *installation) cpu() cpuTime {
	in.t.Helper()
	return cpuTime{steward: process.CPUTime(in.t, in.pid), database: in.databaseCPU()}
}

// databaseCPU returns the CPU time of the PostgreSQL server, or 0 on SQLite.
func (in *installation) databaseCPU() time.Duration {
	in.t.Helper()
	if in.Database == "" {
		return 0
	}
	var dir string
	in.query(func(d *sql.DB) { in.Must(d.QueryRow("SHOW data_directory").Scan(&dir)) })
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	in.Must(err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	in.Must(err)
	return process.FamilyCPUTime(in.t, pid)
}

// waitEnded waits until no delivery of a webhook is pending.
func (in *installation) waitEnded(h hook) {
	in.t.Helper()
	path := "/webhook/delivery-list/" + h.id + "?status=pending&limit=1"
	waittest.Until(in.t, "the end of every delivery", func() (string, bool) {
		time.Sleep(50 * time.Millisecond) // the requests themselves cost CPU time
		total := in.call("GET", path, nil, new(any)).Get("X-Total-Count")
		return total, total == "0"
	})
}
