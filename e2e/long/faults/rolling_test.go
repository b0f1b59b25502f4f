package faults

import (
	"os/exec"
	"testing"

	"steward/e2e/process"
	"steward/internal/db/dbtest"
)

// previous is the commit of the version before this one.
const previous = "dd544666"

// TestRollingRestart restarts three replicas one after the other.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := newRollingCluster(t, binary)
	w := c.work()
	c.roll(w, binary)
	w.finish("three replicas restarted in turn")
	w.wantNoneRefused()
}

// TestRollingUpgrade replaces three replicas of the previous version by this one, one after the other,
// and then this one by the previous.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("git", "cat-file", "-e", previous+"^{commit}").CombinedOutput(); err != nil {
		t.Fatalf("the previous version, commit %s, is not in this clone; `git fetch --unshallow` gets the whole history: %v %s",
			previous, err, out)
	}
	old := process.BuildCommit(t, previous)
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := newRollingCluster(t, old)
	w := c.work()
	c.roll(w, binary)
	c.roll(w, old)
	w.finish("three replicas upgraded in turn, and back")
	w.wantNoneRefused()
}

// newRollingCluster starts three replicas of a binary behind HAProxy. They serve after a signal for as long as
// HAProxy needs.
func newRollingCluster(t *testing.T, binary string) *cluster {
	return newClusterBehind(t, patient, dbtest.EmptyPostgres(t), 3, sharedBlobs(t), func(s *process.Steward) {
		s.Binary = binary
		s.Args = append(s.Args, "--drain-delay", "5m")
	})
}

// roll stops the replicas and starts them with a binary, one after the other.
func (c *cluster) roll(w *workload, binary string) {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		w.more(w.areas)
		c.drain(i)
		c.nodes[i].Binary = binary
		c.restart(c.nodes[i])
		c.waitProxied(i, "UP")
	}
	w.more(w.areas)
}
