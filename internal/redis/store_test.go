package redis

import (
	"bufio"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestAllRequestsAreAnsweredWhenTheDiskFails checks that a client is answered when the store is closed
// because its log can neither be written nor truncated, and goes on when it has been opened again.
func TestAllRequestsAreAnsweredWhenTheDiskFails(t *testing.T) {
	d := newDisk(rand.New(rand.NewPCG(1, 2)))
	var mu sync.Mutex
	s, err := Open(t.Context(), d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(1, "")
	c.Attach(Access{Open: func() (*Store, error) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-s.ended:
			again, err := Open(t.Context(), d, Options{})
			if err != nil {
				return nil, err
			}
			s = again
		default:
		}
		return s, nil
	}})
	replies, out := io.Pipe()
	go func() {
		_ = c.Send(func(b []byte) error {
			_, err := out.Write(b)
			return err
		})
	}()
	in := bufio.NewReader(replies)
	ask := func() any {
		t.Helper()
		if err := c.Do([]string{"INCR", "n"}); err != nil {
			t.Fatal(err)
		}
		reply, err := readReply(in)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if got := ask(); got != int64(1) {
		t.Fatal(got)
	}
	d.mu.Lock()
	d.failAt = d.operations + 1
	d.failing = math.MaxInt
	d.fault = syscall.EIO
	d.failing -= d.failAt
	d.mu.Unlock()
	for range 5 {
		if text, ok := ask().(failure); !ok || strings.HasPrefix(string(text), "WRONG") {
			t.Fatalf("%q", text)
		}
	}
	d.mu.Lock()
	d.heal()
	d.mu.Unlock()
	n, ok := ask().(int64)
	if !ok || n < 2 || n > 3 {
		t.Fatal("after 1 and some that failed:", n, ok)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
