package faults

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestBackup makes a backup under load, loses the installation, and restores the backup elsewhere, also
// onto the other database. Everything that was acknowledged before the backup began must be there.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, from := range process.Databases {
		for _, to := range process.Databases {
			t.Run(from+" "+to, func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, newDatabase(t, from), 1)
				w := c.work()
				w.more(w.areas)
				before := w.acknowledged()
				file := filepath.Join(t.TempDir(), "backup")
				c.run(c.nodes[0], "backup", file, "--with-key")
				w.more(w.areas)
				w.stop()
				c.nodes[0].Kill()
				restored := &process.Steward{
					T: t, Dir: filepath.Join(t.TempDir(), "new"), Key: c.nodes[0].Key, Database: newDatabase(t, to), Args: c.nodes[0].Args,
				}
				c.run(restored, "backup", "verify", file)
				c.run(restored, "restore", file)
				c.restart(restored)
				c.nodes[0] = restored
				for i, a := range w.areas {
					a.acked = before[i]
					a.repeated = nil // what was pending is sent again
				}
				w.finish("backup of " + from + " under load, restored onto " + to)
			})
		}
	}
}

// acknowledged returns what each area has acknowledged so far.
func (w *workload) acknowledged() [][]int {
	all := make([][]int, len(w.areas))
	for i, a := range w.areas {
		a.mu.Lock()
		all[i] = slices.Clone(a.acked)
		a.mu.Unlock()
	}
	return all
}

// run runs a command on the data directory of a process.
func (c *cluster) run(s *process.Steward, args ...string) {
	c.t.Helper()
	cmd := s.Command(args...)
	if slices.Contains(args, "verify") { // it needs no installation
		cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "--data" || arg == s.Dir })
	}
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	c.t.Logf("%s in %s: %s", args[0], time.Since(began).Round(time.Millisecond), out)
}
