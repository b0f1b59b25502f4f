package redis

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// trackingExamples are what clients do that keep what they have read: they ask for messages about changes, read, and
// change keys in all ways.
var trackingExamples = []example{
	{name: "client tracking", draw: func(t *rapid.T) []string {
		args := []string{oneOf("on", "on", "on", "off", "x")(t)}
		for rapid.IntRange(0, 3).Draw(t, "more") == 0 {
			args = append(args, strings.Fields(oneOf("optin", "optout", "noloop", "redirect #0", "redirect #1", "redirect 99", "prefix a", "x")(t))...)
		}
		return args
	}},
	{name: "client caching", draw: words(oneOf("yes", "yes", "no", "x"))},
	{name: "client", draw: words(oneOf("trackinginfo", "getredir"))},
	{name: "subscribe", draw: words(oneOf("__redis__:invalidate", "x"))},
	{name: "unsubscribe", draw: words(oneOf("__redis__:invalidate"))},
	{name: "multi", draw: words()},
	{name: "exec", draw: words()},
	{name: "get", draw: words(someKey)},
	{name: "mget", draw: words(someKey, someKey, someKey)},
	{name: "exists", draw: words(someKey)},
	{name: "eval", draw: func(t *rapid.T) []string {
		return []string{oneOf(
			"return redis.call('get', KEYS[1])", "return redis.call('set', KEYS[1], 'x')",
			"redis.call('get', KEYS[1]) redis.call('set', KEYS[1], 'y') return redis.call('get', KEYS[1])",
		)(t), "1", someKey(t)}
	}},
	{name: "set", draw: words(someKey, oneOf("1", "2"))},
	{name: "incr", draw: words(someKey)},
	{name: "del", draw: words(someKey, someKey)},
	{name: "rename", draw: words(someKey, someKey)},
	{name: "expire", draw: words(someKey, oneOf("100", "-1"))},
	{name: "rpush", draw: words(someKey, oneOf("x"))},
	{name: "lpop", draw: words(someKey)},
	{name: "lrange", draw: words(someKey, oneOf("0"), oneOf("-1"))},
	{name: "flushall", draw: words()},
	{name: "reset", draw: words()},
	{name: "hello", draw: words(oneOf("2", "3"))},
}

func TestTracking(t *testing.T) { compareConversations(t, trackingExamples) }

// messages returns the messages that a client has received.
func (r *runner) messages(c *Client) []string {
	var all []string
	for len(c.outbox) > 0 {
		all = append(all, fmt.Sprint(r.received(c)))
	}
	return all
}

func (r *runner) expectMessages(c *Client, want ...string) {
	r.t.Helper()
	if got := r.messages(c); !slices.Equal(got, want) {
		r.t.Fatalf("received %q, want %q", got, want)
	}
}

// TestTrackedKeysChangeWithoutCommands has tracked keys expire and be evicted.
func TestTrackedKeysChangeWithoutCommands(t *testing.T) {
	r := newRunner(t)
	c, other := r.client(1), r.client(2)
	c.out.resp3 = true
	r.expect(c, "CLIENT TRACKING ON", simple("OK"))
	r.expect(other, "SET k v PX 1000", simple("OK"))
	r.expect(c, "GET k", "v")
	r.pass(time.Second)
	r.expectMessages(c, "[invalidate [k]]")
	r.expect(c, "GET k", nil)
	r.expect(other, "SET k v", simple("OK"))
	r.expectMessages(c, "[invalidate [k]]")
	r.expect(c, "GET k", "v")
	r.expect(other, "CONFIG SET maxmemory-policy allkeys-lru maxmemory 1", simple("OK"))
	r.expectMessages(c, "[invalidate [k]]")
	r.expect(c, "EXISTS k", int64(0))
}

// TestNoLoopIsAboutOnesOwnChanges has keys expire and be evicted while a client runs that is not told of its own changes.
func TestNoLoopIsAboutOnesOwnChanges(t *testing.T) {
	for _, mode := range []string{"", " BCAST"} {
		r := newRunner(t)
		c, other := r.client(1), r.client(2)
		c.out.resp3 = true
		r.expect(c, "CLIENT TRACKING ON NOLOOP"+mode, simple("OK"))
		r.expect(c, "SET own v", simple("OK"))
		r.expect(c, "GET own", "v")
		r.expect(c, "SET own w", simple("OK"))
		r.expectMessages(c)

		r.expect(other, "SET k v PX 1000", simple("OK"))
		r.messages(c)
		r.expect(c, "GET k", "v")
		r.now = r.now.Add(time.Second)
		r.expect(c, "DEL k", int64(0)) // it has expired, which this finds
		r.expectMessages(c, "[invalidate [k]]")

		r.expect(other, "SET k v", simple("OK"))
		r.messages(c)
		r.expect(c, "GET k", "v")
		r.expect(other, "DEL own", int64(1))
		r.messages(c)
		r.expect(c, "CONFIG SET maxmemory-policy allkeys-lru maxmemory 1", simple("OK"))
		r.expectMessages(c, "[invalidate [k]]")
	}
}

// TestNoLoopIsToldOfForgottenKeys reads more keys than are tracked, and changes one that is not any more.
func TestNoLoopIsToldOfForgottenKeys(t *testing.T) {
	r := newRunner(t)
	r.store.options.Memory = 8 * namesShare * nameOverhead
	c := r.client(1)
	c.out.resp3 = true
	r.expect(c, "CLIENT TRACKING ON NOLOOP", simple("OK"))
	kept := map[string]bool{}
	for i := range 20 {
		key := fmt.Sprint("k", i)
		r.expect(c, "GET "+key, nil)
		kept[key] = true
		for _, message := range r.messages(c) {
			delete(kept, strings.TrimSuffix(strings.TrimPrefix(message, "[invalidate ["), "]]"))
		}
	}
	if len(kept) > 8 || !reflect.DeepEqual(kept, c.tracked) {
		t.Errorf("the client has %v, of which %v are tracked", kept, c.tracked)
	}
}

// TestBroadcastsOfALongScript has a script change so many keys that their names do not stay in memory until it ends.
func TestBroadcastsOfALongScript(t *testing.T) {
	r := newRunner(t)
	c, quiet, other := r.client(1), r.client(2), r.client(3)
	c.out.resp3, quiet.out.resp3 = true, true
	r.store.options.ScriptTime = time.Hour // for a busy machine
	r.expect(c, "CLIENT TRACKING ON BCAST PREFIX k", simple("OK"))
	r.expect(quiet, "CLIENT TRACKING ON BCAST PREFIX x", simple("OK"))
	const n = 3 * maxChanged / nameOverhead
	r.submit(other, []string{"EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('set', 'k' .. i, '') redis.call('del', 'k' .. i) end", "0", fmt.Sprint(n)})
	told := map[string]bool{}
	messages := r.messages(c)
	for _, message := range messages {
		for _, key := range strings.Fields(strings.NewReplacer("[invalidate [", "", "]]", "").Replace(message)) {
			told[key] = true
		}
	}
	if len(told) != n || len(messages) < 3 {
		t.Errorf("told of %d keys in %d messages, want %d", len(told), len(messages), n)
	}
	r.expectMessages(quiet)
	if left := r.store.tracked; len(left.changed) != 0 || left.changedSize != 0 {
		t.Errorf("%d changed keys of %d bytes are left", len(left.changed), left.changedSize)
	}
}

// TestBroadcastTracking tells clients of keys that they have not read.
func TestBroadcastTracking(t *testing.T) {
	r := newRunner(t)
	c, quiet, other := r.client(1), r.client(2), r.client(3)
	c.out.resp3, quiet.out.resp3 = true, true
	r.expect(c, "CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:", simple("OK"))
	r.expect(quiet, "CLIENT TRACKING ON BCAST NOLOOP", simple("OK"))
	r.expect(c, "CLIENT TRACKING ON BCAST PREFIX a:b", failure("ERR Prefix 'a:b' overlaps with an existing prefix 'a:'. Prefixes for a single client must not overlap."))
	r.expect(other, "MSET a:1 x b:1 y c:1 z", simple("OK"))
	r.expectMessages(c, "[invalidate [a:1]]", "[invalidate [b:1]]")
	r.expectMessages(quiet, "[invalidate [a:1 b:1 c:1]]")
	r.expect(quiet, "SET a:1 z", simple("OK"))
	r.expectMessages(quiet)
	r.expectMessages(c, "[invalidate [a:1]]")
	r.expect(c, "SET a:1 z", simple("OK"))
	r.expectMessages(c, "[invalidate [a:1]]")
	r.expect(other, "FLUSHALL", simple("OK"))
	r.expectMessages(c, "[invalidate <nil>]")
	r.expect(c, "CLIENT TRACKING OFF", simple("OK"))
	r.expect(other, "SET a:1 z", simple("OK"))
	r.expectMessages(c)
}

// TestTrackedKeysTakeBoundedMemory reads more keys than are tracked. The client is told of those that are not any more.
func TestTrackedKeysTakeBoundedMemory(t *testing.T) {
	r := newRunner(t)
	limit := r.store.options.Memory / namesShare
	c := r.client(1)
	c.out.resp3 = true
	r.expect(c, "CLIENT TRACKING ON", simple("OK"))
	kept := map[string]bool{}
	for i := range 200 {
		key := strings.Repeat("k", 1<<18) + fmt.Sprint(i)
		r.expect(c, "GET "+key, nil)
		kept[key] = true
		for _, message := range r.messages(c) {
			delete(kept, strings.TrimSuffix(strings.TrimPrefix(message, "[invalidate ["), "]]"))
		}
	}
	if size := r.store.names.size; size > limit || size < limit/2 {
		t.Errorf("tracked keys take %d bytes of %d", size, limit)
	}
	if !reflect.DeepEqual(kept, c.tracked) {
		t.Errorf("the client has %d keys, of which %d are tracked", len(kept), len(c.tracked))
	}
	r.store.leave(c)
	if size, readers := r.store.names.size, r.store.tracked.readers; size != 0 || len(readers) != 0 {
		t.Errorf("%d bytes of %d keys are left", size, len(readers))
	}
}

// TestTrackingWithoutMemory tells a client at once that a key has changed for which there is no memory.
func TestTrackingWithoutMemory(t *testing.T) {
	r := newRunner(t)
	r.store.options.Charge = noMemory{}
	c := r.client(1)
	c.out.resp3 = true
	r.expect(c, "CLIENT TRACKING ON", simple("OK"))
	r.expect(c, "GET k", nil)
	r.expectMessages(c, "[invalidate [k]]")
}

// noMemory has none.
type noMemory struct{}

func (noMemory) Take(int64) bool { return false }
func (noMemory) Return(int64)    {}

// TestTrackingOutlivesTheStore closes a store that a client has read keys of. It has to read them again.
func TestTrackingOutlivesTheStore(t *testing.T) {
	dir := Dir(t.TempDir())
	s := open(t, dir, Options{})
	c := NewClient(1, "")
	defer c.Close()
	c.Attach(Access{Open: func() (*Store, error) { return s, nil }})
	run := func(args ...string) {
		t.Helper()
		if err := c.Do(args); err != nil {
			t.Fatal(err)
		}
		c.Drain()
	}
	run("HELLO", "3")
	run("CLIENT", "TRACKING", "ON")
	run("GET", "k")
	c.outbox = nil
	if !s.CloseUnused(time.Now().Add(time.Hour)) {
		t.Fatal("the store is in use")
	}
	if got, want := string(c.outbox), ">2\r\n$10\r\ninvalidate\r\n_\r\n"; got != want {
		t.Fatalf("received %q", got)
	}
	c.outbox = nil
	s = open(t, dir, Options{})
	run("GET", "k")
	run("SET", "k", "v")
	if got := string(c.outbox); !strings.HasSuffix(got, "+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n") {
		t.Fatalf("received %q", got)
	}
}

// TestFailedWriteInvalidatesAll has the log fail, so that messages about changes are lost with them.
func TestFailedWriteInvalidatesAll(t *testing.T) {
	d := newDisk(nil)
	s := newStore(d, Options{})
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, store: s}
	c, other := r.client(1), r.client(2)
	c.out.resp3 = true
	r.expect(c, "CLIENT TRACKING ON", simple("OK"))
	r.expect(other, "SET k v", simple("OK"))
	r.expect(c, "GET k", "v")
	s.log.large = true
	r.run(other, "SET k w")
	r.expectMessages(c, "[invalidate <nil>]")
	r.expect(c, "GET k", "v")
	r.expect(other, "SET k w", simple("OK"))
	r.expectMessages(c, "[invalidate [k]]")
}

// TestMessagesToOneselfTakeBoundedMemory publishes more from a script than a client may have.
func TestMessagesToOneselfTakeBoundedMemory(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	c.out.resp3 = true
	r.store.options.ScriptTime = time.Hour // for a busy machine
	r.run(c, "SUBSCRIBE c")
	r.received(c)
	r.submit(c, []string{"EVAL", "for i = 1, 1000 do redis.call('publish', 'c', ARGV[1]) end return 1", "0", strings.Repeat("x", 1<<20)})
	if !c.closed || len(c.outbox) > 0 || cap(c.later.b) > 0 {
		t.Errorf("closed: %t, %d bytes are left", c.closed, len(c.outbox))
	}
}
