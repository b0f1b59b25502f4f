package faults

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"steward/e2e/process"
	"steward/internal/db/dbtest"
)

// TestMigrate moves an installation that is in use from SQLite to PostgreSQL, and back.
func TestMigrate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "", 1)
	s := c.nodes[0]
	w := c.work()
	w.slow()
	database := dbtest.EmptyPostgres(t)
	w.more(w.areas)
	c.migrate(s, database)
	s.Database = database
	c.restart(s)
	w.more(w.areas)
	c.migrate(s, "sqlite:"+s.Dir)
	s.Database = ""
	c.restart(s)
	w.more(w.areas)
	w.finish("moved to PostgreSQL, and back")
}

// TestReplicaFrozenWhileRowsMove has one of two processes frozen until the rows were moved to another PostgreSQL
// database. It goes on then with the old one, where no write may be acknowledged any more, and ends.
func TestReplicaFrozenWhileRowsMove(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dbtest.EmptyPostgres(t), 2, sharedBlobs(t))
	moving, frozen := c.nodes[0], c.nodes[1]
	w := c.work()
	w.slow()
	w.more(w.areas)
	c.must(frozen.Cmd.Process.Signal(syscall.SIGSTOP))
	target := dbtest.EmptyPostgres(t)
	c.migrate(moving, target) // waits until the other one does not count as alive
	moving.Database = target
	c.restart(moving)
	c.must(frozen.Cmd.Process.Signal(syscall.SIGCONT))
	frozen.Wait()
	if log := frozen.Log(); !strings.Contains(log, "were moved") {
		t.Errorf("the log of the process that was frozen does not say why it ended: %.2000s", log)
	}
	frozen.Database = target
	c.restart(frozen) // it has the files of databases and stores
	w.more(w.areas)
	w.finish("one of two replicas frozen until the rows were moved")
}

// migrate moves the rows of a process, which is stopped then and refuses to start with the old ones.
func (c *cluster) migrate(s *process.Steward, to string) {
	c.t.Helper()
	out, err := s.Command("migrate", "--to", to).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	c.t.Logf("%s", out)
	res, err := http.Get(s.URL + "/cli/organization")
	c.must(err)
	c.must(res.Body.Close())
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		c.t.Errorf("the old server responds with %s", res.Status)
	}
	s.Stop()
	refused, err := s.Serve(s.Args...).CombinedOutput()
	if err == nil || !strings.Contains(string(refused), "were moved to") {
		c.t.Errorf("a start with the old rows: %v: %s", err, refused)
	}
}
