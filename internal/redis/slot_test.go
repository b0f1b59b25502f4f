package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// attach attaches a client to a store, and returns a function that sends requests and returns the last reply.
func attach(t *testing.T, s *Store) (send func(requests ...string), receive func() any) {
	t.Helper()
	c := NewClient(1, "")
	c.Attach(Access{Open: func() (*Store, error) { return s, nil }})
	replies, out := io.Pipe()
	t.Cleanup(func() {
		c.Kill()
		_ = replies.Close()
		c.Close()
	})
	go func() {
		_ = c.Send(func(b []byte) error {
			_, err := out.Write(b)
			return err
		})
	}()
	in := bufio.NewReader(replies)
	send = func(requests ...string) {
		t.Helper()
		for _, request := range requests {
			if err := c.Do(strings.Split(request, "|")); err != nil {
				t.Fatal(err)
			}
		}
	}
	receive = func() any {
		t.Helper()
		reply, err := readReply(in)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	return send, receive
}

// TestSlowStoresNeedASlot has all slots be taken. Scripts wait for one, and so does a store whose last turn took
// long, but not others.
func TestSlowStoresNeedASlot(t *testing.T) {
	slots := make(chan struct{}, 1)
	enter := func() func() {
		slots <- struct{}{}
		return func() { <-slots }
	}
	quick := open(t, Dir(t.TempDir()), Options{Enter: enter})
	slow := open(t, Dir(t.TempDir()), Options{Enter: enter})
	// However slow the machine is, the turns of this store are never long.
	if err := quick.do(func() { quick.slot.limit, quick.slot.slow = time.Hour, time.Time{} }); err != nil {
		t.Fatal(err)
	}
	slots <- struct{}{} // none is left
	askQuick, fromQuick := attach(t, quick)
	askSlow, fromSlow := attach(t, slow)

	askSlow("EVAL|return 1|0")
	askQuick("SET|a|1")
	if got := fromQuick(); got != simple("OK") {
		t.Errorf("the quick store: %v", got)
	}
	select {
	case slots <- struct{}{}:
		t.Error("there are two slots")
	default:
	}
	<-slots
	if got := fromSlow(); got != int64(1) {
		t.Errorf("the script with a slot: %v", got)
	}

	if err := slow.do(func() { slow.slot.slow = time.Now().Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	slots <- struct{}{}
	askSlow("PING")
	askQuick("GET|a")
	if got := fromQuick(); got != "1" {
		t.Errorf("the quick store: %v", got)
	}
	<-slots
	if got := fromSlow(); got != simple("PONG") {
		t.Errorf("the slow store: %v", got)
	}
}

// TestTurnsEnd has a turn with one slow client. The others are answered in the next one, and the store needs slots.
func TestTurnsEnd(t *testing.T) {
	r := newRunner(t)
	r.store.options.ScriptTime = time.Hour // for a busy machine
	var clients []*Client
	for i := range 5 {
		c := r.client(int64(i))
		c.inbox.PushBack(request{args: []string{"PING"}})
		c.queued = true
		clients = append(clients, c)
	}
	clients[0].inbox.Set(0, request{args: []string{"EVAL", "local n = 0; while n < 5000000 do n = n + 1 end; return 1", "0"}})
	r.store.runTurn(clients, nil)
	if got := r.received(clients[0]); got != int64(1) {
		t.Fatalf("%v", got)
	}
	if len(r.store.runnable) != 4 || r.store.runnable[0] != clients[1] || !r.store.slot.slow.After(time.Now()) {
		t.Errorf("%d clients wait; slots are needed until %v", len(r.store.runnable), r.store.slot.slow)
	}
}

// TestLogOnAFullDisk checks that a log grows no more by rewriting and renaming while the disk is almost full, and
// becomes small when its keys have been deleted.
func TestLogOnAFullDisk(t *testing.T) {
	r := newRunner(t)
	r.store.minRewrite = 64 << 10
	c := r.client(1)
	rewrite := func() {
		for {
			r.pass(0)
			if r.store.log.rewrite == nil {
				return
			}
		}
	}
	r.fill(c, "k", 300)
	rewrite()
	full := errors.New("OOM the disk is almost full")
	r.store.options.Writable = func() error { return full }
	r.expect(c, "SET k v", failure(full.Error()))
	size := r.store.log.size
	r.store.log.base = 0
	rewrite()
	if r.store.log.size != size {
		t.Errorf("the log was rewritten, from %d to %d bytes", size, r.store.log.size)
	}
	r.expect(c, "RENAME k0 small", simple("OK"))
	r.store.options.Writable = nil
	r.expect(c, "SET large "+strings.Repeat("v", 10<<10), simple("OK"))
	r.store.options.Writable = func() error { return full }
	r.expect(c, "RENAME large other", failure(full.Error()))
	r.expect(c, "RENAMENX large other", failure(full.Error()))
	for i := range 300 {
		r.run(c, fmt.Sprintf("UNLINK k%d", i))
	}
	rewrite()
	if r.store.log.size > size/4 {
		t.Errorf("the log of an empty store has %d bytes of %d", r.store.log.size, size)
	}
}
