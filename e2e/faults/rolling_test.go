package faults

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
)

// previous is the commit of the version before this one.
const previous = "dd544666"

// TestRollingRestart restarts three replicas one after the other.
func TestRollingRestart(t *testing.T) {
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := newRollingCluster(t, binary)
	w := c.work()
	c.roll(binary)
	w.finish("three replicas restarted in turn")
	w.wantNoneRefused()
}

// TestRollingUpgrade replaces three replicas of the previous version by this one, one after the other,
// and then this one by the previous.
func TestRollingUpgrade(t *testing.T) {
	if !hasHistory() {
		t.Skip("the previous version is built from the history of the repository, which is not here")
	}
	old := process.BuildCommit(t, previous)
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := newRollingCluster(t, old)
	w := c.work()
	c.roll(binary)
	c.roll(old)
	w.finish("three replicas upgraded in turn, and back")
	w.wantNoneRefused()
}

// hasHistory reports whether this is a clone with all commits, not an archive or a shallow clone.
func hasHistory() bool {
	out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	return err == nil && strings.TrimSpace(string(out)) == "false"
}

// newRollingCluster starts three replicas of a binary behind HAProxy. The drain delay covers two failed
// checks of HAProxy, also when each of them times out.
func newRollingCluster(t *testing.T, binary string) *cluster {
	return newCluster(t, newServer(t).URL, 3, sharedBlobs(t), func(s *process.Steward) {
		s.Binary = binary
		s.Args = append(s.Args, "--drain-delay", "4s")
	})
}

// roll stops the replicas and starts them with a binary, one after the other.
func (c *cluster) roll(binary string) {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		time.Sleep(length(c.t))
		c.nodes[i].Drain()
		c.nodes[i].Binary = binary
		c.restart(c.nodes[i])
	}
	time.Sleep(length(c.t))
}

// wantNoneRefused fails the test if a request failed that any replica could have served.
func (w *workload) wantNoneRefused() {
	w.t.Helper()
	for _, a := range w.areas {
		if a.refused > 0 && !a.elsewhere {
			w.t.Errorf("%s: %d requests failed", a.name, a.refused)
		}
	}
}
