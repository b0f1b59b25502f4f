package redis

import (
	"bytes"
	"testing"
	"time"

	"steward/internal/waittest"
)

// TestRequestWhileUnusedStoreIsClosed sends a request when it was decided that nobody uses the store, but before it is
// closed. The store is opened again for it.
func TestRequestWhileUnusedStoreIsClosed(t *testing.T) {
	dir := Dir(t.TempDir())
	first := open(t, dir, Options{})
	opened := first
	c := NewClient(1, "test")
	c.Attach(Access{Clients: &Clients{}, Open: func() (*Store, error) {
		if hasEnded(opened) {
			opened = open(t, dir, Options{})
		}
		return opened, nil
	}})
	defer c.Close()
	replies := make(chan []byte, 10)
	go func() {
		_ = c.Send(func(b []byte) error {
			replies <- bytes.Clone(b)
			return nil
		})
	}()
	do := func(args ...string) {
		if err := c.Do(args); err != nil {
			t.Error(err)
		}
	}
	do("set", "k", "v")
	if got := string(<-replies); got != "+OK\r\n" {
		t.Fatalf("%q", got)
	}
	busy, finish := make(chan struct{}), make(chan struct{})
	go func() { _ = first.do(func() { close(busy); <-finish }) }()
	<-busy
	closed := make(chan bool, 1)
	go func() { closed <- first.CloseUnused(time.Now().Add(time.Hour)) }()
	waittest.True(t, "the store to be closed", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return first.closed
	})
	go do("get", "k")
	waittest.True(t, "the request to wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.queued
	})
	close(finish)
	if !<-closed {
		t.Error("the store was not closed")
	}
	if got := string(<-replies); got != "$1\r\nv\r\n" {
		t.Errorf("%q", got)
	}
}

func hasEnded(s *Store) bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}
