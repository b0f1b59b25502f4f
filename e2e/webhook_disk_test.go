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

// mountSmall mounts a file system of that many bytes, for the time of the test.
func mountSmall(t *testing.T, dir string, size, uid, gid int) {
	t.Helper()
	options := fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", size, uid, gid)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("a small file system cannot be mounted (%v): this test needs root with CAP_SYS_ADMIN; in a container, --cap-add SYS_ADMIN", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// ballast fills a part of a file system, to be removed when room is needed.
func ballast(s *steward, dir string, size int) string {
	s.t.Helper()
	path := filepath.Join(dir, "ballast")
	s.must(os.WriteFile(path, make([]byte, size), 0o600))
	return path
}

// TestWebhookDiskFull fills the disk of the database by sending events. Whatever is acknowledged is stored, what cannot be stored is told
// to come again, the process stays up and says why, and goes on when there is room.
func TestWebhookDiskFull(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		s := prepare(t, "sqlite")
		// The write-ahead log takes 16 MiB before it is emptied into the file, which then needs as much as the events.
		mountSmall(t, s.Dir, 40<<20, os.Getuid(), os.Getgid())
		// The log must have room when the data has none.
		s.must(os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(s.Dir, "stderr.log")))
		weight := ballast(s, s.Dir, 20<<20)
		s.run()
		s.fillsUp(weight)
	})
	t.Run("postgres", func(t *testing.T) {
		s := prepare(t, "postgres")
		weight := ballast(s, s.smallTablespace(t), 8<<20)
		s.run()
		s.fillsUp(weight)
	})
}

// smallTablespace moves the still empty database to a small file system. The write-ahead log of the server stays where it is: when that is
// full, the server itself goes down.
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
	t.Cleanup(func() { os.Remove(dir) })
	mountSmall(t, dir, 28<<20, int(owner.Uid), int(owner.Gid))
	s.sql(conn, "CREATE TABLESPACE "+name+" LOCATION '"+dir+"'", "ALTER DATABASE "+name+" SET TABLESPACE "+name)
	t.Cleanup(func() {
		s.kill()
		s.sql(conn, "DROP DATABASE "+name+" WITH (FORCE)", "DROP TABLESPACE "+name, "CREATE DATABASE "+name) // which its maker will drop
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

// fillsUp is the test itself, once the disk is small.
func (s *steward) fillsUp(weight string) {
	s.t.Helper()
	k, h := newSink(s.t), s.hook("orders")
	s.destination(h, k.URL+"/hook")
	acked := &taken{all: map[string]string{}}
	for s.event(h, acked, 64<<10) == 200 && acked.size() < 1000 {
	}
	full := acked.size()
	refused := 0
	for range 20 {
		if s.event(h, acked, 64<<10) == 503 {
			refused++
		}
	}
	s.t.Logf("%d events fill the disk; after that %d of 20 were refused", full, refused)
	if full < 20 || refused == 0 {
		s.t.Errorf("%d acknowledged, then %d of 20 refused: the disk was not full", full, refused)
	}
	s.call("GET", "/healthz", nil).want(200)
	s.stored(h, acked)
	if !strings.Contains(s.Log(), "full") && !strings.Contains(s.Log(), "No space left") {
		s.t.Errorf("the log does not say that the disk is full: %.2000s", s.Log())
	}
	s.must(os.Remove(weight))
	waittest.True(s.t, "events to be accepted again", func() bool { return s.event(h, acked, 100) == 200 })
	for range 10 {
		if status := s.event(h, acked, 1000); status != 200 {
			s.t.Fatalf("with room again: %d", status)
		}
	}
	s.recovers(h, k, acked)
}

// recovers starts the process anew and looks for all that was acknowledged, there and at the sink.
func (s *steward) recovers(h hook, k *sink, acked *taken) {
	s.t.Helper()
	s.stop()
	s.run()
	s.stored(h, acked)
	hooks := map[string]hook{"/hook": h}
	s.allArrive(k, hooks, acked)
	s.allEnd(hooks)
	s.countsAreRows(hooks)
}

// event sends that many bytes and gives the status: 200, or 503 with a time to come again.
func (s *steward) event(h hook, acked *taken, size int) int {
	s.t.Helper()
	random := make([]byte, size) // PostgreSQL would compress anything else
	rand.Read(random)
	body := string(random)
	a, err := s.send("POST", h.path, strings.NewReader(body))
	s.must(err)
	switch {
	case a.status == 200:
		acked.add(a.text("id"), body)
	case a.status != 503 || a.code() != "unavailable" || a.header.Get("Retry-After") == "":
		s.t.Fatalf("got %d: %s", a.status, a.body)
	}
	return a.status
}

// stored compares what is stored with what was acknowledged, byte for byte. Here nothing else may be stored: every other one was refused.
func (s *steward) stored(h hook, acked *taken) {
	s.t.Helper()
	ids := s.pages("/webhook/receipt-list/"+h.ID+"?limit=100", func() {})
	if len(ids) != len(acked.all) {
		s.t.Errorf("%d events were acknowledged, %d are stored", len(acked.all), len(ids))
	}
	for id, body := range acked.all {
		if got := s.call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil); got.status != 200 || string(got.body) != body {
			s.t.Fatalf("%s was acknowledged and cannot be read: %d, %d of %d bytes", id, got.status, len(got.body), len(body))
		}
	}
}

// TestWebhookSyncFails has the kernel refuse to make anything durable: strace answers fsync and fdatasync with EIO in its place. On
// PostgreSQL that is the server's own affair: it goes down and recovers from its log.
func TestWebhookSyncFails(t *testing.T) {
	t.Parallel()
	s := begin(t, "sqlite")
	k, h := newSink(t), s.hook("orders")
	s.destination(h, k.URL+"/hook")
	acked := &taken{all: map[string]string{}}
	for range 20 {
		s.event(h, acked, 100)
	}
	k.await("/hook", acked.size())
	release := s.breakSync(t)
	for range 20 {
		if status := s.event(h, acked, 100); status != 503 {
			t.Errorf("acknowledged with %d, though nothing can be made durable", status)
		}
	}
	s.call("GET", "/healthz", nil).want(200)
	release()
	waittest.True(s.t, "events to be accepted again", func() bool { return s.event(h, acked, 100) == 200 })
	if !strings.Contains(s.Log(), "the database could not write") {
		t.Errorf("the log does not tell of it: %.2000s", s.Log())
	}
	s.stored(h, acked)
	s.kill()
	s.run()
	s.stored(h, acked)
	s.allArrive(k, map[string]hook{"/hook": h}, acked)
}

// breakSync makes every fsync of the process fail until release is called.
func (s *steward) breakSync(t *testing.T) (release func()) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "strace")
	log, err := os.Create(said)
	s.must(err)
	defer log.Close()
	strace := exec.Command("strace", "-f", "-p", fmt.Sprint(s.Cmd.Process.Pid), "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO", "-o", said+".calls")
	strace.Stderr = log
	if err := strace.Start(); err != nil {
		t.Fatalf("this test needs the Debian package strace: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- strace.Wait() }()
	waittest.True(t, "strace to attach (this test needs CAP_SYS_PTRACE)", func() bool {
		text, err := os.ReadFile(said)
		s.must(err)
		return strings.Contains(string(text), "attached")
	})
	return func() {
		t.Helper()
		s.must(strace.Process.Signal(os.Interrupt))
		<-ended
		calls, err := os.ReadFile(said + ".calls")
		s.must(err)
		t.Logf("%d calls were refused", strings.Count(string(calls), "INJECTED"))
		if !strings.Contains(string(calls), "INJECTED") {
			t.Error("no call was refused")
		}
	}
}
