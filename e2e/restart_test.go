package e2e

import (
	"bufio"
	"io"
	"net"
	"syscall"
	"testing"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestStoppingProcessServesOnAllListeners sends SIGTERM to a process: it is not ready, and serves new
// connections until the drain delay ends, which a second signal does.
func TestStoppingProcessServesOnAllListeners(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--drain-delay", "5m", "--metrics-listen", "127.0.0.1:0")
	listen := s.Addresses().Listen
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	waittest.True(t, "the process to be not ready", func() bool { return s.Call("GET", "/readyz", nil).Status == 503 })
	s.Call("POST", "/cli/project", object{"name": "late"}).Want(201)
	for name, want := range map[string]bool{"api": true, "s3": true, "metrics": false} {
		res, err := installation.Client.Get("http://" + listen[name] + "/")
		s.Must(err)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.Close != want {
			t.Errorf("%s: status %d, closes its connection: %v", name, res.StatusCode, res.Close)
		}
	}
	conn, err := net.Dial("tcp", listen["kv"])
	s.Must(err)
	_, err = io.WriteString(conn, "PING\r\n")
	s.Must(err)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Errorf("the Redis protocol: %q, %v", line, err)
	}
	s.Must(conn.Close())
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	s.Wait()
}
