package operations

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

	"steward/e2e/installation"
	"steward/e2e/sink"
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
func ballast(s *installation.Steward, dir string, size int) string {
	s.T.Helper()
	path := filepath.Join(dir, "ballast")
	s.Must(os.WriteFile(path, make([]byte, size), 0o600))
	return path
}

// TestFullDiskRefusesEventsAndLosesNone fills the disk of the database with events. What is
// acknowledged is stored, everything else gets 503, and the process goes on when there is space again.
func TestFullDiskRefusesEventsAndLosesNone(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		s := installation.Prepare(t, "sqlite", "--disk-reserve", "0")
		// The write-ahead log takes 16 MiB before it is copied into the file.
		mountSmall(t, s.Dir, 40<<20, os.Getuid(), os.Getgid())
		// The log of the process must stay writable.
		s.Must(os.Symlink(filepath.Join(t.TempDir(), "log"), filepath.Join(s.Dir, "stderr.log")))
		space := ballast(s, s.Dir, 20<<20)
		s.Start()
		testFullDisk(s, space)
	})
	t.Run("postgres", func(t *testing.T) {
		s := installation.Prepare(t, "postgres")
		space := ballast(s, smallTablespace(t, s), 8<<20)
		s.Start()
		testFullDisk(s, space)
	})
}

// smallTablespace moves the still empty database to a small file system and returns its directory. The
// write-ahead log of the server stays where it is: without space for that, the server would stop.
func smallTablespace(t *testing.T, s *installation.Steward) string {
	t.Helper()
	ctx := context.Background()
	u, err := url.Parse(s.Database)
	s.Must(err)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	conn, err := pgx.Connect(ctx, u.String())
	s.Must(err)
	t.Cleanup(func() { conn.Close(ctx) })
	var data string
	s.Must(conn.QueryRow(ctx, "SHOW data_directory").Scan(&data))
	info, err := os.Stat(data)
	if err != nil {
		t.Fatalf("this test needs a PostgreSQL server on this machine: %v", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	dir, err := os.MkdirTemp("", "steward-tablespace-") // not t.TempDir: the server must be able to reach it
	s.Must(err)
	t.Cleanup(func() { s.Must(os.Remove(dir)) })
	mountSmall(t, dir, 28<<20, int(owner.Uid), int(owner.Gid))
	execStatements(s, conn, "CREATE TABLESPACE "+name+" LOCATION '"+dir+"'", "ALTER DATABASE "+name+" SET TABLESPACE "+name)
	t.Cleanup(func() {
		s.Kill()
		execStatements(s, conn, "DROP DATABASE "+name+" WITH (FORCE)", "DROP TABLESPACE "+name,
			"CREATE DATABASE "+name) // which dbtest drops
	})
	return dir
}

func execStatements(s *installation.Steward, conn *pgx.Conn, statements ...string) {
	s.T.Helper()
	for _, text := range statements {
		if _, err := conn.Exec(context.Background(), text); err != nil {
			s.T.Errorf("%s: %v", text, err)
		}
	}
}

// testFullDisk fills the disk, removes the ballast, and checks what is stored and delivered.
func testFullDisk(s *installation.Steward, space string) {
	s.T.Helper()
	k, h := sink.New(s.T), s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hook")
	acked := installation.NewAcknowledged()
	for sendRandom(s, h, acked, 64<<10) == 200 && acked.Size() < 1000 {
	}
	full := acked.Size()
	refused := 0
	for range 20 {
		if sendRandom(s, h, acked, 64<<10) == 503 {
			refused++
		}
	}
	s.T.Logf("%d events fill the disk; then %d of 20 were refused", full, refused)
	if full < 20 || refused == 0 {
		s.T.Error("the disk was not full")
	}
	s.Call("GET", "/healthz", nil).Want(200)
	checkReceiptsStored(s, h, acked)
	if !strings.Contains(s.Log(), "full") && !strings.Contains(s.Log(), "No space left") {
		s.T.Errorf("the log does not say that the disk is full: %.2000s", s.Log())
	}
	s.Must(os.Remove(space))
	waittest.True(s.T, "events to be accepted again", func() bool { return sendRandom(s, h, acked, 100) == 200 })
	for range 10 {
		if status := sendRandom(s, h, acked, 1000); status != 200 {
			s.T.Fatalf("with space again: %d", status)
		}
	}
	checkAfterRestart(s, h, k, acked)
}

// checkAfterRestart restarts the process and checks that all acknowledged events are stored and
// delivered.
func checkAfterRestart(s *installation.Steward, h installation.Hook, k *sink.Sink, acked *installation.Acknowledged) {
	s.T.Helper()
	s.Stop()
	s.Start()
	checkReceiptsStored(s, h, acked)
	hooks := map[string]installation.Hook{"/hook": h}
	s.WaitArrived(k, hooks, acked)
	s.WaitEnded(hooks)
	s.CheckCounts(hooks)
}

// sendRandom sends an event of that many random bytes and returns the status: 200, or 503 with a
// Retry-After.
func sendRandom(s *installation.Steward, h installation.Hook, acked *installation.Acknowledged, size int) int {
	s.T.Helper()
	random := make([]byte, size) // PostgreSQL cannot compress it
	rand.Read(random)
	body := string(random)
	r, err := s.Send("POST", h.Path, strings.NewReader(body))
	s.Must(err)
	switch {
	case r.Status == 200:
		acked.Add(r.Text("id"), body)
	case r.Status != 503 || r.Code() != "unavailable" || r.Header.Get("Retry-After") == "":
		s.T.Fatalf("got %d: %s", r.Status, r.Body)
	}
	return r.Status
}

// checkReceiptsStored compares the stored receipts with the acknowledged ones, byte for byte. Refused ones
// must not be stored.
func checkReceiptsStored(s *installation.Steward, h installation.Hook, acked *installation.Acknowledged) {
	s.T.Helper()
	ids := s.Pages("/webhook/receipt-list/"+h.ID+"?limit=100", nil)
	if len(ids) != len(acked.All) {
		s.T.Errorf("%d events were acknowledged, %d are stored", len(acked.All), len(ids))
	}
	for id, body := range acked.All {
		got := s.Call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil)
		if got.Status != 200 || string(got.Body) != body {
			s.T.Fatalf("%s was acknowledged; got %d, %d of %d bytes", id, got.Status, len(got.Body), len(body))
		}
	}
}

// TestFailedSyncIsNotAcknowledged makes fsync and fdatasync fail with EIO, by strace. It runs on SQLite
// only: on PostgreSQL the server crashes and recovers from its log.
func TestFailedSyncIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hook")
	acked := installation.NewAcknowledged()
	for range 20 {
		sendRandom(s, h, acked, 100)
	}
	k.Wait("/hook", acked.Size())
	release := failSync(t, s)
	for range 20 {
		if status := sendRandom(s, h, acked, 100); status != 503 {
			t.Errorf("got %d while fsync fails, want 503", status)
		}
	}
	s.Call("GET", "/healthz", nil).Want(200)
	release()
	waittest.True(s.T, "events to be accepted again", func() bool { return sendRandom(s, h, acked, 100) == 200 })
	if !strings.Contains(s.Log(), "the database could not write") {
		t.Errorf("the log does not say that the database failed: %.2000s", s.Log())
	}
	checkReceiptsStored(s, h, acked)
	s.Kill()
	s.Start()
	checkReceiptsStored(s, h, acked)
	s.WaitArrived(k, map[string]installation.Hook{"/hook": h}, acked)
}

// failSync makes every fsync and fdatasync of the process fail until release is called.
func failSync(t *testing.T, s *installation.Steward) (release func()) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "strace")
	log, err := os.Create(output)
	s.Must(err)
	strace := exec.Command("strace", "-f", "-p", fmt.Sprint(s.Cmd.Process.Pid), "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO", "-o", output+".calls")
	strace.Stderr = log
	if err := strace.Start(); err != nil {
		t.Fatalf("this test needs the Debian package strace: %v", err)
	}
	s.Must(log.Close())
	ended := make(chan error, 1)
	go func() { ended <- strace.Wait() }()
	waittest.True(t, "strace to attach (this test needs CAP_SYS_PTRACE)", func() bool {
		text, err := os.ReadFile(output)
		s.Must(err)
		return strings.Contains(string(text), "attached")
	})
	return func() {
		t.Helper()
		s.Must(strace.Process.Signal(os.Interrupt))
		<-ended
		calls, err := os.ReadFile(output + ".calls")
		s.Must(err)
		t.Logf("%d calls failed", strings.Count(string(calls), "INJECTED"))
		if !strings.Contains(string(calls), "INJECTED") {
			t.Error("no call failed")
		}
	}
}
