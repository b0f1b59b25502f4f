package redis

import (
	"bufio"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// streamClock is a time that a test sets, in milliseconds.
type streamClock struct{ ms atomic.Int64 }

func (c *streamClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// streamSession runs commands on a store, whose time a test sets.
type streamSession struct {
	t      *testing.T
	clock  *streamClock
	dir    string
	store  *Store
	client *Client
}

func newStreamSession(t *testing.T) *streamSession {
	s := &streamSession{t: t, clock: &streamClock{}, dir: t.TempDir()}
	s.clock.ms.Store(1000)
	s.reopen()
	return s
}

// reopen closes the store and opens it again.
func (s *streamSession) reopen() {
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.store = open(s.t, Dir(s.dir), Options{Now: s.clock.now})
	s.client = NewClient(1, "")
	s.client.store = s.store
}

// want runs a command and compares its reply, as text.
func (s *streamSession) want(command, reply string) {
	s.t.Helper()
	var got any
	_ = s.store.do(func() {
		s.client.out.b = nil
		s.store.execute(s.client, strings.Fields(command))
		got, _ = readReply(bufio.NewReader(strings.NewReader(string(s.client.out.b))))
		s.client.out.b = nil
	})
	if text := fmt.Sprint(got); text != reply {
		s.t.Errorf("%s: %s, want %s", command, text, reply)
	}
}

func TestStreamIDsFollowTheClock(t *testing.T) {
	s := newStreamSession(t)
	s.want("xadd a * f v", "1000-0")
	s.want("xadd a * f v", "1000-1")
	s.clock.ms.Store(2000)
	s.want("xadd a * f v", "2000-0")
	s.clock.ms.Store(500)
	s.want("xadd a * f v", "2000-1")
	s.want("xadd a maxlen 2 * f v", "2000-2")
	s.want("xadd b 2000-18446744073709551615 f v", "2000-18446744073709551615")
	s.want("xadd b * f v", "2001-0")
	s.reopen()
	s.want("xrange a - +", "[[2000-1 [f v]] [2000-2 [f v]]]")
	s.want("xadd a * f v", "2000-3")
}

func TestPendingEntriesKeepTheirTimes(t *testing.T) {
	s := newStreamSession(t)
	s.want("xgroup create a g 0 mkstream", "OK")
	s.want("xadd a 1 f v", "1-0")
	s.want("xadd a 2 f v", "2-0")
	s.want("xadd a 3 f v", "3-0")
	s.want("xreadgroup group g c streams a >", "[[a [[1-0 [f v]] [2-0 [f v]] [3-0 [f v]]]]]")
	s.clock.ms.Store(1500)
	s.want("xreadgroup group g c count 1 streams a 0", "[[a [[1-0 [f v]]]]]")
	s.clock.ms.Store(1600)
	s.want("xclaim a g d 0 2 idle 300", "[[2-0 [f v]]]")
	s.want("xdel a 3", "1")
	s.clock.ms.Store(1700)
	s.want("xautoclaim a g e 350 -", "[0-0 [[2-0 [f v]]] [3-0]]")
	s.want("xgroup createconsumer a g f", "1")
	for range 2 {
		s.clock.ms.Store(2000)
		s.want("xpending a g - + 10", "[[1-0 c 500 2] [2-0 e 300 3]]")
		s.want("xinfo consumers a g", "[[name c pending 1 idle 500 inactive 1000] [name d pending 0 idle 400 inactive 400] "+
			"[name e pending 1 idle 300 inactive 300] [name f pending 0 idle 300 inactive -1]]")
		s.want("xpending a g idle 400 - + 10", "[[1-0 c 500 2]]")
		s.clock.ms.Store(9000)
		s.reopen()
	}
}

func TestReadsOfConsumersAreLogged(t *testing.T) {
	s := newStreamSession(t)
	s.want("xgroup create a g 0 mkstream", "OK")
	s.want("xreadgroup group g c streams a 0", "[[a []]]")
	s.clock.ms.Store(1200)
	s.want("xreadgroup group g c streams a 5", "[[a []]]")
	s.want("xadd a 1 f v", "1-0")
	s.want("xreadgroup group g d noack streams a >", "[[a [[1-0 [f v]]]]]")
	s.reopen()
	s.want("xinfo consumers a g", "[[name c pending 0 idle 0 inactive -1] [name d pending 0 idle 0 inactive -1]]")
	s.want("xinfo groups a", "[[name g consumers 2 pending 0 last-delivered-id 1-0 entries-read 1 lag 0]]")
}

func TestClaimsOfClientsHaveNoInternalOptions(t *testing.T) {
	s := newStreamSession(t)
	s.want("xgroup create a g 0 mkstream", "OK")
	s.want("xclaim a g c 0 0-0 seen 5", "ERR Unrecognized XCLAIM option 'seen'")
	s.want("xinfo consumers a g", "[]")
}

// TestRewrittenLogHasConsumerGroups changes groups while the log is rewritten.
func TestRewrittenLogHasConsumerGroups(t *testing.T) {
	s := newStreamSession(t)
	const streams = 2000
	_ = s.store.do(func() {
		for i := range streams {
			s.store.execute(s.client, []string{"xadd", fmt.Sprint("s", i), "1", "f", strings.Repeat("v", 600)})
		}
		s.client.out.b = nil
	})
	for i := range streams {
		_ = s.store.do(func() {
			key := fmt.Sprint("s", i)
			s.store.execute(s.client, []string{"xgroup", "create", key, "g", "0"})
			s.store.execute(s.client, []string{"xreadgroup", "group", "g", "c", "streams", key, ">"})
			s.client.out.b = nil
		})
	}
	want := dumps(s.store)
	s.reopen()
	got := dumps(s.store)
	for key, value := range want {
		if got[key] != value {
			t.Fatalf("%s is %s, want %s", key, got[key], value)
		}
	}
}

func TestExpiryOfAStreamEndsBlockedReads(t *testing.T) {
	clock := &streamClock{}
	clock.ms.Store(1000)
	s := open(t, Dir(t.TempDir()), Options{Now: clock.now})
	addr := serve(t, s)
	admin, reader := dial(t, addr), dial(t, addr)
	admin.pipeline(t, [][]string{strings.Fields("xgroup create a g $ mkstream")})
	reader.send(t, [][]string{strings.Fields("xreadgroup group g c block 0 streams a >")})
	for blocked := false; !blocked; {
		_ = s.do(func() { blocked = len(s.waiting["a"]) > 0 })
	}
	_ = s.do(func() { s.keys.setExpires(s.keys.find("a"), 2000) })
	clock.ms.Store(3000)
	admin.pipeline(t, [][]string{{"ping"}})
	got, err := readReply(reader.in)
	if err != nil {
		t.Fatal(err)
	}
	if got != failure("NOGROUP No such key 'a' or consumer group 'g' in XREADGROUP with GROUP option") {
		t.Errorf("%v", got)
	}
}

func TestStreamMemoryIsCounted(t *testing.T) {
	s := newStreamSession(t)
	s.want("xgroup create a g 0 mkstream", "OK")
	for i := 1; i <= 300; i++ {
		s.want(fmt.Sprintf("xadd a %d field %d other %d", i, i, i*i), fmt.Sprintf("%d-0", i))
	}
	_ = s.store.do(func() { s.store.execute(s.client, strings.Fields("xreadgroup group g c streams a >")) })
	s.want("xgroup createconsumer a g d", "1")
	s.want("xdel a 5 6 7 8", "4")
	s.want("xautoclaim a g d 0 6 justid count 3", "[9-0 [] [6-0 7-0 8-0]]")
	s.want("xack a g 1 2 3", "3")
	s.want("xtrim a maxlen 150", "146")
	_ = s.store.do(func() {
		e := s.store.keys.find("a")
		again, err := undump(string(dump(e.value)))
		if err != nil {
			t.Error(err)
			return
		}
		if e.value.size() != again.size() {
			t.Errorf("%d bytes, and %d when loaded", e.value.size(), again.size())
		}
	})
	s.want("xgroup delconsumer a g c", "294")
	s.want("xgroup destroy a g", "1")
	s.want("xtrim a maxlen 0", "150")
	_ = s.store.do(func() {
		if n := s.store.keys.find("a").value.(*stream).bytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}
