package load

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"steward/e2e/installation"
)

// TestIdleSocketsTakeLittleMemory opens 5,000 sockets of two organizations.
func TestIdleSocketsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const sockets, limit = 5000, 40 << 10
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Max < 3*sockets {
		t.Fatalf("RLIMIT_NOFILE allows %d files; this test needs %d", files.Max, 3*sockets)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	installation.Each(t, func(t *testing.T, s *installation.Steward) { checkSocketMemory(t, s, sockets, limit) })
}

func checkSocketMemory(t *testing.T, s *installation.Steward, n, limit int) {
	s.OpenSocket().Do("save", object{"thread_id": "warm", "user_data": `{}`})
	both := []*installation.Steward{s, s.SecondOrganization()}
	before := s.RSS()
	sockets := make([]*installation.Socket, n)
	var clients sync.WaitGroup
	for c := range 20 {
		clients.Go(func() {
			for i := c; i < n; i += 20 {
				sockets[i] = both[i%2].OpenSocket()
			}
		})
	}
	clients.Wait()
	perSocket := (s.RSS() - before) / n
	t.Logf("%d bytes for each socket", perSocket)
	if perSocket > limit {
		t.Errorf("an idle socket takes %d bytes, at most %d are allowed", perSocket, limit)
	}
	for i := 0; i < n; i += 500 {
		sockets[i].Do("save", object{"thread_id": "warm", "user_data": `{}`})
	}
	s.Stop()
}

// TestSocketThatDoesNotReadBlocksOnlyItself requests large replies and reads none of them.
func TestSocketThatDoesNotReadBlocksOnlyItself(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		quick, slow := s.OpenSocket(), s.OpenSocket()
		quick.Do("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 1<<20-2) + `"`})
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan int, 1)
		go func() {
			n := 0
			pad := strings.Repeat("x", 32<<10)
			restore := []byte(`{"id":"1","action":"restore","data":{"thread_id":"t"},"pad":"` + pad + `"}`)
			for n < 5000 && slow.Conn.Write(ctx, websocket.MessageText, restore) == nil {
				n++
			}
			sent <- n
		}()
		for range 200 {
			quick.Do("save", object{"thread_id": "u", "user_data": `{}`})
		}
		cancel()
		if n := <-sent; n == 5000 {
			t.Error("5000 frames were read from a peer that reads none of the replies")
		}
	})
}
