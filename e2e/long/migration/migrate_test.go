package migration

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// migrateSteps returns the command that moves the rows, started, and the lines that it writes.
func migrateSteps(s *installation.Steward, to string) (*exec.Cmd, *bufio.Scanner) {
	s.T.Helper()
	cmd := s.Command("migrate", "--to", to)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	cmd.Stderr = cmd.Stdout
	s.Must(cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// migrate moves the rows and starts the process with the new ones.
func migrate(s *installation.Steward, to string) {
	s.T.Helper()
	if out, err := s.Command("migrate", "--to", to).CombinedOutput(); err != nil {
		s.T.Fatalf("%v: %s", err, out)
	}
	s.Stop()
	s.Database = to
	if strings.HasPrefix(to, "sqlite:") {
		s.Database = ""
	}
	s.Start()
}

// TestTailsGoOnOverAMove follows tails while events arrive and the rows move to PostgreSQL and back.
func TestTailsGoOnOverAMove(t *testing.T) {
	t.Parallel()
	s := movingInstallation(t)
	k, h := sink.New(t), s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hook", "concurrency", 50)
	var mu sync.Mutex // held while the process is started again
	server := func() *installation.Steward {
		mu.Lock()
		defer mu.Unlock()
		copied := *s.Steward
		return &installation.Steward{Steward: &copied, T: t, Key: s.Key}
	}
	tails := []*installation.Tail{installation.Follow(t, "/webhook/tail", "", 0, server), installation.Follow(t, "/webhook/tail/"+h.ID, "", 300, server)}
	acked := installation.NewAcknowledged()
	for i, to := range []string{dbtest.EmptyPostgres(t), "sqlite:" + s.Dir, ""} {
		stop := make(chan struct{})
		clients := s.SendLoad(h, "/hook", 4, acked, stop)
		waittest.Until(t, "events", func() (int, bool) { n := acked.Size(); return n, n >= (i+1)*2000 })
		if to != "" {
			mu.Lock()
			migrate(s, to)
			mu.Unlock()
		}
		close(stop)
		clients.Wait()
	}
	s.CheckTails(h, tails, acked)
}

// TestMoveThatFailsLeavesTheServerAsItWas ends the target when the server has stopped serving, and kills
// the server while it copies. Then the same command moves the rows. A request that is under way holds each
// move up, so that it does not end before.
func TestMoveThatFailsLeavesTheServerAsItWas(t *testing.T) {
	t.Parallel()
	s := movingInstallation(t)
	s.Call("PUT", "/thread/before", object{"project_id": "p1"}).Want(200)
	target := dbtest.NewServer(t)

	slow := beginPut(t, openCopyBucket(s), "slow")
	cmd, lines := migrateSteps(s, target.URL)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if lines.Text() == "stopping the server" {
			target.Stop()
			slow.finish(t)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the rows were moved to a server that is stopped: %q", said)
	}
	waittest.True(t, "the server to start again", func() bool {
		r, err := s.Try("PUT", "/thread/after-failure", object{"project_id": "p1"})
		return err == nil && r.Status == 200
	})
	target.Start()

	beginPut(t, openCopyBucket(s), "killed")
	cmd, lines = migrateSteps(s, target.URL)
	lines.Scan() // it copies
	s.Kill()
	if err := cmd.Wait(); err == nil {
		t.Error("the rows were moved before the server was killed")
	}
	s.Start()
	s.Call("PUT", "/thread/after-kill", object{"project_id": "p1"}).Want(200)

	migrate(s, target.URL)
	for _, thread := range []string{"before", "after-failure", "after-kill"} {
		s.Call("GET", "/thread/"+thread, nil).Want(200)
	}
}

// TestMoveIsRefused moves rows to targets that cannot take them.
func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	used := installation.Start(t, "postgres")
	for to, want := range map[string]struct {
		code int
		text string
	}{
		used.Database: {1, "the target has rows"}, "mysql://x": {2, "--to must be"}, "sqlite:" + s.Dir: {2, "in SQLite already"},
		"postgres://127.0.0.1:9/none": {1, "open the target"},
	} {
		cmd := s.Command("migrate", "--to", to)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want.code || !strings.Contains(string(out), want.text) {
			t.Errorf("%s: %d: %s", to, got, out)
		}
	}
	s.Call("PUT", "/thread/t1", object{"project_id": "p1"}).Want(200)
	used.Call("GET", "/cli/auth/user", nil).Want(200)
}

// TestRowsThatWereMovedAreNotUsed runs commands of an operator on rows that were moved, while the old server
// runs and after it.
func TestRowsThatWereMovedAreNotUsed(t *testing.T) {
	t.Parallel()
	s := movingInstallation(t)
	if out, err := s.Command("migrate", "--to", dbtest.EmptyPostgres(t)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commands := [][]string{
		{"migrate", "--to", dbtest.EmptyPostgres(t)}, {"root-key"}, {"backup", filepath.Join(t.TempDir(), "b")}, {"migrate", "--abort"},
	}
	refused := func(want string) {
		t.Helper()
		for _, args := range commands {
			out, err := s.Command(args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v: %s", args, err, out)
			}
		}
	}
	refused("is in use by process")
	s.Stop()
	refused("were moved to postgres://")
}

// TestOneReplicaMovesTheRows has a second replica move the rows while the first one does.
func TestOneReplicaMovesTheRows(t *testing.T) {
	t.Parallel()
	a := installation.Start(t, "postgres", "--listen", porttest.Address(porttest.Free(t)))
	b := &installation.Steward{Steward: a.Steward.Replica(), T: t, Key: a.Key}
	b.Args = nil
	b.Start()
	cmd, lines := migrateSteps(a, dbtest.EmptyPostgres(t))
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "waiting") { // until the second one is stopped
	}
	out, err := b.Command("migrate", "--to", dbtest.EmptyPostgres(t)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another replica is moving the rows") {
		t.Errorf("%v: %s", err, out)
	}
	b.Stop()
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestServerThatStopsEndsTheMove interrupts the command, and then stops the server that moves its rows.
func TestServerThatStopsEndsTheMove(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "postgres")
	other := s.Replica() // the move waits for it
	to := dbtest.EmptyPostgres(t)
	// waiting starts a move and returns when it waits. The server may still be about to end the one before.
	waiting := func() (cmd *exec.Cmd, lines *bufio.Scanner) {
		for {
			cmd, lines = migrateSteps(s, to)
			var line string
			for !strings.HasPrefix(line, "waiting") && lines.Scan() {
				line = lines.Text()
			}
			if strings.HasPrefix(line, "waiting") {
				return cmd, lines
			}
			if _ = cmd.Wait(); !strings.Contains(line, "are being moved already") {
				t.Fatal(line)
			}
		}
	}
	// last returns the last line of a move that is ended while it waits.
	last := func(end func(cmd *exec.Cmd)) (line string, code int) {
		cmd, lines := waiting()
		end(cmd)
		for lines.Scan() {
			line = lines.Text()
		}
		_ = cmd.Wait()
		return line, cmd.ProcessState.ExitCode()
	}
	line, code := last(func(cmd *exec.Cmd) { s.Must(cmd.Process.Signal(os.Interrupt)) })
	if code != 130 || !strings.Contains(line, "the same command continues it") {
		t.Errorf("the command was interrupted: %d, %s", code, line)
	}
	line, code = last(func(*exec.Cmd) { s.Stop() })
	if code != 1 || !strings.Contains(line, "the server is stopping") {
		t.Errorf("the server was stopped: %d, %s", code, line)
	}
	other.Call("GET", "/cli/auth/user", nil).Want(200)
}

// TestMoveOfNothingIsRefused moves the rows of a directory that does not exist.
func TestMoveOfNothingIsRefused(t *testing.T) {
	t.Parallel()
	s := process.New(t, "")
	s.Dir = filepath.Join(s.Dir, "missing")
	for _, args := range [][]string{{}, {"--database-url", dbtest.EmptyPostgres(t)}} {
		out, err := s.Command(append([]string{"migrate", "--to", dbtest.EmptyPostgres(t)}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "there is no") {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
	if _, err := os.Stat(s.Dir); err == nil {
		t.Error("the directory was created")
	}
}
