package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/waittest"
)

// mountSmall mounts a file system of that many bytes until the end of the test.
func mountSmall(t *testing.T, dir string, size, uid, gid int) {
	t.Helper()
	options := fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", size, uid, gid)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount tmpfs: %v (this test needs root with CAP_SYS_ADMIN; in a container, --cap-add SYS_ADMIN)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// ballast writes a file that takes space until it is removed, and returns its path.
func ballast(s *steward, dir string, size int) string {
	s.t.Helper()
	path := filepath.Join(dir, "ballast")
	s.must(os.WriteFile(path, make([]byte, size), 0o600))
	return path
}

// TestFullDiskRefusesEventsAndLosesNone fills the disk of the database with events. What is
// acknowledged is stored, everything else gets 503, and the process goes on when there is space again.
func TestFullDiskRefusesEventsAndLosesNone(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		s := prepare(t, "sqlite", "--disk-reserve", "0")
		// The write-ahead log takes 16 MiB before it is copied into the file.
		mountSmall(t, s.Dir, 40<<20, os.Getuid(), os.Getgid())
		// The log of the process must stay writable.
		s.must(os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(s.Dir, "stderr.log")))
		space := ballast(s, s.Dir, 20<<20)
		s.start()
		s.testFullDisk(space)
	})
	t.Run("postgres", func(t *testing.T) {
		s := prepare(t, "postgres")
		space := ballast(s, s.smallTablespace(t), 8<<20)
		s.start()
		s.testFullDisk(space)
	})
}

// smallTablespace moves the still empty database to a small file system and returns its directory. The
// write-ahead log of the server stays where it is: without space for that, the server would stop.
func (s *steward) smallTablespace(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	u, err := url.Parse(s.Database)
	s.must(err)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	conn, err := pgx.Connect(ctx, u.String())
	s.must(err)
	t.Cleanup(func() { conn.Close(ctx) })
	var data string
	s.must(conn.QueryRow(ctx, "SHOW data_directory").Scan(&data))
	info, err := os.Stat(data)
	if err != nil {
		t.Fatalf("this test needs a PostgreSQL server on this machine: %v", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	dir, err := os.MkdirTemp("", "steward-tablespace-") // not t.TempDir: the server must be able to reach it
	s.must(err)
	t.Cleanup(func() { s.must(os.Remove(dir)) })
	mountSmall(t, dir, 28<<20, int(owner.Uid), int(owner.Gid))
	s.sql(conn, "CREATE TABLESPACE "+name+" LOCATION '"+dir+"'", "ALTER DATABASE "+name+" SET TABLESPACE "+name)
	t.Cleanup(func() {
		s.kill()
		s.sql(conn, "DROP DATABASE "+name+" WITH (FORCE)", "DROP TABLESPACE "+name,
			"CREATE DATABASE "+name) // which dbtest drops
	})
	return dir
}

func (s *steward) sql(conn *pgx.Conn, statements ...string) {
	s.t.Helper()
	for _, text := range statements {
		if _, err := conn.Exec(context.Background(), text); err != nil {
			s.t.Errorf("%s: %v", text, err)
		}
	}
}

// testFullDisk fills the disk, removes the ballast, and checks what is stored and delivered.
func (s *steward) testFullDisk(space string) {
	s.t.Helper()
	k, h := newSink(s.t), s.hook("orders")
	s.destination(h, k.URL+"/hook")
	acked := newAcknowledged()
	for s.sendRandom(h, acked, 64<<10) == 200 && acked.size() < 1000 {
	}
	full := acked.size()
	refused := 0
	for range 20 {
		if s.sendRandom(h, acked, 64<<10) == 503 {
			refused++
		}
	}
	s.t.Logf("%d events fill the disk; then %d of 20 were refused", full, refused)
	if full < 20 || refused == 0 {
		s.t.Error("the disk was not full")
	}
	s.call("GET", "/healthz", nil).want(200)
	s.checkStored(h, acked)
	if !strings.Contains(s.Log(), "full") && !strings.Contains(s.Log(), "No space left") {
		s.t.Errorf("the log does not say that the disk is full: %.2000s", s.Log())
	}
	s.must(os.Remove(space))
	waittest.True(s.t, "events to be accepted again", func() bool { return s.sendRandom(h, acked, 100) == 200 })
	for range 10 {
		if status := s.sendRandom(h, acked, 1000); status != 200 {
			s.t.Fatalf("with space again: %d", status)
		}
	}
	s.checkAfterRestart(h, k, acked)
}

// checkAfterRestart restarts the process and checks that all acknowledged events are stored and
// delivered.
func (s *steward) checkAfterRestart(h hook, k *sink, acked *acknowledged) {
	s.t.Helper()
	s.stop()
	s.start()
	s.checkStored(h, acked)
	hooks := map[string]hook{"/hook": h}
	s.waitArrived(k, hooks, acked)
	s.waitEnded(hooks)
	s.checkCounts(hooks)
}

// sendRandom sends an event of that many random bytes and returns the status: 200, or 503 with a
// Retry-After.
func (s *steward) sendRandom(h hook, acked *acknowledged, size int) int {
	s.t.Helper()
	random := make([]byte, size) // PostgreSQL cannot compress it
	rand.Read(random)
	body := string(random)
	r, err := s.send("POST", h.path, strings.NewReader(body))
	s.must(err)
	switch {
	case r.status == 200:
		acked.add(r.text("id"), body)
	case r.status != 503 || r.code() != "unavailable" || r.header.Get("Retry-After") == "":
		s.t.Fatalf("got %d: %s", r.status, r.body)
	}
	return r.status
}

// checkStored compares the stored receipts with the acknowledged ones, byte for byte. Refused ones
// must not be stored.
func (s *steward) checkStored(h hook, acked *acknowledged) {
	s.t.Helper()
	ids := s.pages("/webhook/receipt-list/"+h.ID+"?limit=100", nil)
	if len(ids) != len(acked.all) {
		s.t.Errorf("%d events were acknowledged, %d are stored", len(acked.all), len(ids))
	}
	for id, body := range acked.all {
		got := s.call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil)
		if got.status != 200 || string(got.body) != body {
			s.t.Fatalf("%s was acknowledged; got %d, %d of %d bytes", id, got.status, len(got.body), len(body))
		}
	}
}

// TestFailedSyncIsNotAcknowledged makes fsync and fdatasync fail with EIO, by strace. It runs on SQLite
// only: on PostgreSQL the server crashes and recovers from its log.
func TestFailedSyncIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	k, h := newSink(t), s.hook("orders")
	s.destination(h, k.URL+"/hook")
	acked := newAcknowledged()
	for range 20 {
		s.sendRandom(h, acked, 100)
	}
	k.wait("/hook", acked.size())
	release := s.failSync(t)
	for range 20 {
		if status := s.sendRandom(h, acked, 100); status != 503 {
			t.Errorf("got %d while fsync fails, want 503", status)
		}
	}
	s.call("GET", "/healthz", nil).want(200)
	release()
	waittest.True(s.t, "events to be accepted again", func() bool { return s.sendRandom(h, acked, 100) == 200 })
	if !strings.Contains(s.Log(), "the database could not write") {
		t.Errorf("the log does not say that the database failed: %.2000s", s.Log())
	}
	s.checkStored(h, acked)
	s.kill()
	s.start()
	s.checkStored(h, acked)
	s.waitArrived(k, map[string]hook{"/hook": h}, acked)
}

// failSync makes every fsync and fdatasync of the process fail until release is called.
func (s *steward) failSync(t *testing.T) (release func()) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "strace")
	log, err := os.Create(output)
	s.must(err)
	strace := exec.Command("strace", "-f", "-p", fmt.Sprint(s.Cmd.Process.Pid), "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO", "-o", output+".calls")
	strace.Stderr = log
	if err := strace.Start(); err != nil {
		t.Fatalf("this test needs the Debian package strace: %v", err)
	}
	s.must(log.Close())
	ended := make(chan error, 1)
	go func() { ended <- strace.Wait() }()
	waittest.True(t, "strace to attach (this test needs CAP_SYS_PTRACE)", func() bool {
		text, err := os.ReadFile(output)
		s.must(err)
		return strings.Contains(string(text), "attached")
	})
	return func() {
		t.Helper()
		s.must(strace.Process.Signal(os.Interrupt))
		<-ended
		calls, err := os.ReadFile(output + ".calls")
		s.must(err)
		t.Logf("%d calls failed", strings.Count(string(calls), "INJECTED"))
		if !strings.Contains(string(calls), "INJECTED") {
			t.Error("no call failed")
		}
	}
}
