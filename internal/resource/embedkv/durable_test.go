package embedkv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/waittest"
)

// TestMain runs a server instead of the tests in a process that newProcess starts.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EMBEDKV_DIR"); dir != "" {
		fmt.Fprintln(os.Stderr, serveProcess(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveProcess serves one store until the process is killed.
func serveProcess(dir string) error {
	p := &resource.Provisioned{ID: os.Getenv("EMBEDKV_ID"), Password: os.Getenv("EMBEDKV_PASSWORD"), Node: "local", State: resource.Active}
	e := &Engine{Dir: dir, Node: "local", Rows: enginetest.NewRows(p), Log: slog.Default(), Now: time.Now}
	if err := e.Open(); err != nil {
		return err
	}
	if err := e.Create(context.Background(), p); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go e.Run(context.Background())
	return e.Serve(listener)
}

// process is a server that can be killed.
type process struct {
	t    *testing.T
	dir  string
	p    *resource.Provisioned
	cmd  *exec.Cmd
	addr string
}

func newProcess(t *testing.T) *process {
	t.Helper()
	s := &process{t: t, dir: t.TempDir(), p: &resource.Provisioned{ID: id.New(id.KVStore), Password: id.Secret(43)}}
	t.Cleanup(func() { s.kill() })
	s.start()
	return s
}

func (s *process) start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), "EMBEDKV_DIR="+s.dir, "EMBEDKV_ID="+s.p.ID, "EMBEDKV_PASSWORD="+s.p.Password)
	s.cmd.Stderr = s.t.Output()
	out, err := s.cmd.StdoutPipe()
	must(s.t, err)
	must(s.t, s.cmd.Start())
	s.addr, err = bufio.NewReader(out).ReadString('\n')
	must(s.t, err)
	s.addr = strings.TrimSpace(s.addr)
}

func (s *process) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *process) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr, Username: s.p.ID, Password: s.p.Password, MaxRetries: -1})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAcknowledgedWritesSurviveKill kills the server while clients count.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	s := newProcess(t)
	const clients = 8
	acked := make([]int64, clients)
	for round := range 3 {
		var counting sync.WaitGroup
		progress := make(chan struct{}, 1000)
		c := s.client()
		for i := range clients {
			counting.Go(func() {
				for {
					n, err := c.Incr(t.Context(), fmt.Sprint("n", i)).Result()
					if err != nil {
						return
					}
					acked[i] = n
					select {
					case progress <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 200 * (round + 1) {
			waittest.Receive(t, "clients to count", progress)
		}
		s.kill()
		counting.Wait()
		s.start()
		for i := range clients {
			n, err := s.client().Get(t.Context(), fmt.Sprint("n", i)).Int64()
			if errors.Is(err, redis.Nil) { // it was killed before the first
				err = nil
			}
			must(t, err)
			if n < acked[i] || n > acked[i]+1 {
				t.Errorf("client %d: %d was acknowledged, %d is stored", i, acked[i], n)
			}
			acked[i] = n
		}
	}
}

// TestFailedSyncIsNotAcknowledged makes fsync and fdatasync fail with EIO, by strace.
func TestFailedSyncIsNotAcknowledged(t *testing.T) {
	s := newProcess(t)
	ctx := t.Context()
	c := s.client()
	must(t, c.Set(ctx, "k", "before", 0).Err())
	release := s.failSync()
	for range 10 {
		if err := c.Set(ctx, "k", "during", 0).Err(); err == nil {
			t.Error("a write was acknowledged while fsync fails")
		}
	}
	if _, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "n")
		pipe.Incr(ctx, "n")
		return nil
	}); err == nil {
		t.Error("a pipeline was acknowledged while fsync fails")
	}
	if got, err := c.Get(ctx, "k").Result(); err == nil && got != "before" {
		t.Errorf("GET while fsync fails: got %q", got)
	}
	release()
	waittest.True(t, "the store to be opened again", func() bool { return c.Get(ctx, "k").Err() == nil })
	equal(t, "GET", c.Get(ctx, "k").Val(), "before")
	waittest.True(t, "writes to be accepted again", func() bool { return c.Set(ctx, "k", "after", 0).Err() == nil })
	s.kill()
	s.start()
	equal(t, "GET after a crash", s.client().Get(ctx, "k").Val(), "after")
}

// failSync makes every fsync and fdatasync of the process fail until release is called.
func (s *process) failSync() (release func()) {
	s.t.Helper()
	calls := filepath.Join(s.t.TempDir(), "calls")
	strace := exec.Command("strace", "-f", "-p", fmt.Sprint(s.cmd.Process.Pid), "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO", "-o", calls)
	messages, err := strace.StderrPipe()
	must(s.t, err)
	if err := strace.Start(); err != nil {
		s.t.Fatalf("this test needs the Debian package strace: %v", err)
	}
	attached := make(chan string, 1)
	go func() {
		in := bufio.NewReader(messages)
		line, _ := in.ReadString('\n')
		attached <- line
		_, _ = io.Copy(io.Discard, in)
	}()
	if line := waittest.Receive(s.t, "strace to attach", attached); !strings.Contains(line, "attached") {
		s.t.Fatalf("this test needs CAP_SYS_PTRACE: %s", line)
	}
	return func() {
		s.t.Helper()
		must(s.t, strace.Process.Signal(os.Interrupt))
		_ = strace.Wait() // ends by the signal
		text, err := os.ReadFile(calls)
		must(s.t, err)
		if !strings.Contains(string(text), "INJECTED") {
			s.t.Error("no call failed")
		}
	}
}
