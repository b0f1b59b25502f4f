package redis

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/waittest"
)

// receive checks what a client has received.
func (r *runner) receive(c *Client, want any) {
	r.t.Helper()
	if got := r.received(c); !reflect.DeepEqual(got, want) {
		r.t.Fatalf("received %#v, want %#v", got, want)
	}
}

func TestBlockedClientsAreServedInOrder(t *testing.T) {
	r := newRunner(t)
	first, second, third, pusher := r.client(1), r.client(2), r.client(3), r.client(4)
	r.expect(first, "BLPOP a b 0", nothing{})
	r.expect(second, "BRPOP a 0", nothing{})
	r.expect(third, "BLMPOP 0 2 b a LEFT COUNT 5", nothing{})
	r.expect(pusher, "RPUSH a 1 2 3 4", int64(4))
	r.receive(first, []any{"a", "1"})
	r.receive(second, []any{"a", "4"})
	r.receive(third, []any{"a", []any{"2", "3"}})
	r.expect(pusher, "EXISTS a", int64(0))
}

// TestBlockedClientTakesTheKeyThatChangedFirst has two keys change in one transaction.
func TestBlockedClientTakesTheKeyThatChangedFirst(t *testing.T) {
	r := newRunner(t)
	c, pusher := r.client(1), r.client(2)
	r.expect(c, "BLPOP a b 0", nothing{})
	r.expect(pusher, "MULTI", simple("OK"))
	r.expect(pusher, "RPUSH b x", simple("QUEUED"))
	r.expect(pusher, "RPUSH a y", simple("QUEUED"))
	r.expect(pusher, "EXEC", []any{int64(1), int64(1)})
	r.receive(c, []any{"b", "x"})
	r.expect(pusher, "LLEN a", int64(1))
}

func TestBlockedClientWaitsForItsTypeOfValue(t *testing.T) {
	r := newRunner(t)
	for i, request := range []string{"BLPOP k 0", "BLMOVE k to LEFT RIGHT 0", "BLMPOP 0 1 k LEFT", "BZPOPMIN k 0", "BZMPOP 0 1 k MIN"} {
		c, other := r.client(int64(2*i+1)), r.client(int64(2*i+2))
		r.expect(c, request, nothing{})
		r.expect(other, "SET k x", simple("OK"))
		r.receive(c, nothing{})
		r.expect(other, "DEL k", int64(1))
		r.expect(other, "RPUSH l 1", int64(1))
		r.expect(other, "ZADD z 1 m", int64(1))
		from := "l"
		if request[:2] == "BZ" {
			from = "z"
		}
		r.expect(other, "RENAME "+from+" k", simple("OK"))
		if got := r.received(c); reflect.DeepEqual(got, nothing{}) {
			t.Errorf("%s: RENAME did not wake it", request)
		}
		r.expect(other, "FLUSHALL", simple("OK"))
	}
}

func TestKeysMadeByOtherCommandsWake(t *testing.T) {
	for _, request := range []string{"COPY l k", "SORT l STORE k", "LMOVE l k LEFT LEFT"} {
		r := newRunner(t)
		c, other := r.client(1), r.client(2)
		r.expect(c, "BLPOP k 0", nothing{})
		r.expect(other, "RPUSH l 1", int64(1))
		r.run(other, request)
		r.receive(c, []any{"k", "1"})
	}
}

func TestBlockedMoveToAnotherType(t *testing.T) {
	r := newRunner(t)
	c, other := r.client(1), r.client(2)
	r.expect(c, "BLMOVE k to LEFT LEFT 0", nothing{})
	r.expect(other, "SET to x", simple("OK"))
	r.expect(other, "RPUSH k 1", int64(1))
	r.receive(c, failure(errWrongType))
	r.expect(other, "LLEN k", int64(1))
}

func TestBlockingEnds(t *testing.T) {
	r := newRunner(t)
	c, other := r.client(1), r.client(2)
	r.expect(c, "BLPOP k 1.5", nothing{})
	r.pass(1499 * time.Millisecond)
	r.receive(c, nothing{})
	r.pass(time.Millisecond)
	r.receive(c, nil)
	r.expect(other, "RPUSH k 1", int64(1))
	r.expect(other, "LLEN k", int64(1))
	r.expect(c, "PING", simple("PONG"))
}

// TestRequestsBehindABlockedOne sends requests in one write, and checks that they run after it.
func TestRequestsBehindABlockedOne(t *testing.T) {
	s := open(t, Dir(t.TempDir()), Options{})
	addr := serve(t, s)
	blocked, pusher := dial(t, addr), dial(t, addr)
	replies := make(chan []any, 1)
	go func() {
		replies <- blocked.pipeline(t, [][]string{{"INCR", "n"}, {"BLPOP", "k", "0"}, {"INCR", "n"}})
	}()
	waitBlocked(t, s, 1)
	got := pusher.pipeline(t, [][]string{{"GET", "n"}, {"RPUSH", "k", "x"}})
	if want := []any{"1", int64(1)}; !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
	want := []any{int64(1), []any{"k", "x"}, int64(2)}
	if got := waittest.Receive(t, "replies", replies); !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
}

func TestClientThatLeavesWhileBlockedTakesNothing(t *testing.T) {
	s := open(t, Dir(t.TempDir()), Options{})
	addr := serve(t, s)
	blocked, pusher := dial(t, addr), dial(t, addr)
	if _, err := blocked.conn.Write([]byte("BLPOP k 0\r\n")); err != nil {
		t.Fatal(err)
	}
	waitBlocked(t, s, 1)
	_ = blocked.conn.Close()
	waitBlocked(t, s, 0)
	got := pusher.pipeline(t, [][]string{{"RPUSH", "k", "x"}, {"LRANGE", "k", "0", "-1"}})
	if want := []any{int64(1), []any{"x"}}; !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
}

// waitBlocked waits until a number of keys are waited for.
func waitBlocked(t *testing.T, s *Store, want int) {
	t.Helper()
	waittest.True(t, "clients to block", func() bool {
		n := 0
		_ = s.do(func() { n = len(s.waiting) })
		return n == want
	})
}

// blockingExamples are commands that block, and those that end that. SORT … STORE and its like are not among them:
// if they replace a value of another type, clients go on here and in Redis 7.2, and stay blocked in Redis 7.0.
var blockingExamples = []example{
	{name: "blpop", draw: keysAndTimeout},
	{name: "brpop", draw: keysAndTimeout},
	{name: "blmove", draw: words(blockKey, blockKey, oneOf("LEFT", "right", "x"), oneOf("left", "RIGHT"), someTimeout)},
	{name: "brpoplpush", draw: words(blockKey, blockKey, someTimeout)},
	{name: "blmpop", draw: func(t *rapid.T) []string { return blockingPop(t, oneOf("LEFT", "right", "x")) }},
	{name: "bzpopmin", draw: keysAndTimeout},
	{name: "bzpopmax", draw: keysAndTimeout},
	{name: "bzmpop", draw: func(t *rapid.T) []string { return blockingPop(t, oneOf("MIN", "max", "x")) }},
	{name: "xread", draw: func(t *rapid.T) []string {
		return []string{"BLOCK", someBlock(t), "STREAMS", blockKey(t), oneOf("$", "0", "5")(t)}
	}},
	{name: "xreadgroup", draw: func(t *rapid.T) []string {
		return []string{"GROUP", "g", oneOf("c", "d")(t), "BLOCK", someBlock(t), "STREAMS", blockKey(t), oneOf(">", ">", "0")(t)}
	}},
	{name: "xgroup create", draw: words(blockKey, oneOf("g"), oneOf("$", "0"), oneOf("mkstream"))},
	{name: "xgroup destroy", draw: words(blockKey, oneOf("g"))},
	{name: "xadd", draw: words(blockKey, oneOf("5-*", "6-*"), oneOf("f"), oneOf("v"))},
	{name: "rpush", draw: func(t *rapid.T) []string { return append([]string{blockKey(t)}, several(t, 1, 4, someElement)...) }},
	{name: "lpush", draw: func(t *rapid.T) []string { return append([]string{blockKey(t)}, several(t, 1, 4, someElement)...) }},
	{name: "linsert", draw: words(blockKey, oneOf("before"), someElement, someElement)},
	{name: "zadd", draw: words(blockKey, oneOf("1", "2"), someElement)},
	{name: "zadd", draw: words(blockKey, oneOf("1", "2"), someElement, oneOf("3"), someElement)},
	{name: "zincrby", draw: words(blockKey, oneOf("1", "2"), someElement)},
	{name: "lmove", draw: words(blockKey, blockKey, oneOf("left"), oneOf("right"))},
	{name: "rename", draw: words(blockKey, blockKey)},
	{name: "copy", draw: words(blockKey, blockKey)},
	{name: "set", draw: words(blockKey, someElement)},
	{name: "sadd", draw: words(blockKey, someElement)},
	{name: "del", draw: words(blockKey)},
	{name: "flushall", draw: words()},
	{name: "pexpire", draw: words(blockKey, oneOf("-1", "100000000"))},
	{name: "lrange", draw: words(blockKey, oneOf("0"), oneOf("-1"))},
	{name: "multi", draw: words()},
	{name: "exec", draw: words()},
	{name: "exec", draw: words()},
	{name: "watch", draw: words(blockKey)},
	{name: "client unblock", draw: words(oneOf("#0", "#1", "#2"), oneOf("timeout", "ERROR"))},
	{name: "client unblock", draw: words(oneOf("#0", "#1", "#2"))},
	{name: "wait", draw: words(oneOf("0", "x"), oneOf("0", "x", "-1"))},
	{name: "ping", draw: words()},
}

var (
	blockKey = oneOf("a", "a", "a", "b", "b", "c")
	// Timeouts are so long that nothing ends during a sequence.
	someTimeout = oneOf("0", "0", "0", "1000", "0x3E8", "1e9", "-1", "x", "", "nan", "inf", "1e30", "-0.0001", "1e-9000")
	someBlock   = oneOf("0", "0", "0", "1000000", "-1", "x", "1.5")
)

func keysAndTimeout(t *rapid.T) []string { return append(several(t, 0, 3, blockKey), someTimeout(t)) }

func blockingPop(t *rapid.T, where func(*rapid.T) string) []string {
	all := append([]string{someTimeout(t), oneOf("1", "1", "2", "0", "x")(t)}, several(t, 1, 2, blockKey)...)
	all = append(all, where(t))
	return append(all, options(t, []string{"COUNT", oneOf("1", "2", "10", "0", "x")(t)})...)
}

// TestBlocking compares what blocked clients receive with redis-server.
func TestBlocking(t *testing.T) { compareConversations(t, blockingExamples) }
