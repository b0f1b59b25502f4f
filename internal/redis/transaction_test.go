package redis

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// transactionExamples are commands of transactions, and some that are refused within them.
var transactionExamples = []example{
	{name: "multi", draw: words()},
	{name: "multi", draw: words()},
	{name: "exec", draw: words()},
	{name: "exec", draw: words()},
	{name: "exec", draw: words()},
	{name: "discard", draw: words()},
	{name: "unwatch", draw: words()},
	{name: "watch", draw: func(t *rapid.T) []string { return several(t, 0, 3, oneOf("a", "b")) }},
	{name: "watch", draw: words(oneOf("a", "b"))},
	{name: "multi", draw: words(oneOf("x"))},
	{name: "exec", draw: words(oneOf("x"))},
	{name: "nosuch", draw: words(oneOf("x"))},
	{name: "get", draw: words()},
	{name: "reset", draw: words()},
	{name: "flushall", draw: words()},
	{name: "pexpire", draw: words(oneOf("a", "b"), oneOf("-1", "100000000"))},
	{name: "persist", draw: words(oneOf("a", "b"))},
	{name: "set", draw: words(oneOf("a", "b"), oneOf("1", "x"))},
	{name: "set", draw: words(oneOf("a", "b"), oneOf("1"), oneOf("pxat"), oneOf("1"))},
	{name: "incr", draw: words(oneOf("a", "b"))},
	{name: "rpush", draw: words(oneOf("a", "b"), oneOf("x"))},
	{name: "sadd", draw: words(oneOf("a", "b"), oneOf("x"))},
	{name: "srem", draw: words(oneOf("a", "b"), oneOf("x"))},
	{name: "zadd", draw: words(oneOf("a", "b"), oneOf("1", "2"), oneOf("x"))},
	{name: "hset", draw: words(oneOf("a", "b"), oneOf("f"), oneOf("1"))},
	{name: "pfadd", draw: words(oneOf("a", "b"), oneOf("1"))},
	{name: "pfcount", draw: words(oneOf("a", "b"))},
	{name: "sort", draw: words(oneOf("a", "b"), oneOf("store"), oneOf("a", "b"))},
	{name: "get", draw: words(oneOf("a", "b"))},
	{name: "del", draw: words(oneOf("a", "b"))},
	{name: "rename", draw: words(oneOf("a", "b"), oneOf("a", "b"))},
	{name: "copy", draw: words(oneOf("a", "b"), oneOf("a", "b"))},
	{name: "lmove", draw: words(oneOf("a", "b"), oneOf("a", "b"), oneOf("left"), oneOf("right"))},
	{name: "subscribe", draw: words(oneOf("a"))},
	{name: "save", draw: words()},
	{name: "hello", same: sameFailure, draw: words(oneOf("2", "3", "4"))},
	{name: "ping", draw: words()},
}

// TestTransactions compares transactions of several clients with those of redis-server.
func TestTransactions(t *testing.T) { compareConversations(t, transactionExamples) }

// runner runs requests of clients in turns of their own, at a time that tests set.
type runner struct {
	t     rapid.TB
	store *Store
	now   time.Time
}

func newRunner(t testing.TB) *runner {
	r := &runner{t: t, now: time.UnixMilli(1e12)}
	r.store = newStore(Dir(t.TempDir()), Options{Now: func() time.Time { return r.now }})
	if err := r.store.load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.store.end)
	return r
}

// client returns a new client.
func (r *runner) client(id int64) *Client {
	c := NewClient(id, "")
	c.store = r.store
	r.store.clients[c] = true
	return c
}

// run runs a request, given as words, and returns the reply, or nothing if the client is blocked.
func (r *runner) run(c *Client, text string) any {
	r.t.Helper()
	r.submit(c, strings.Fields(text))
	return r.received(c)
}

// submit runs a request, and those of clients that go on because of it.
func (r *runner) submit(c *Client, args []string) {
	c.inbox.PushBack(request{args: args})
	if c.blocked != nil {
		return // it is run when the client goes on
	}
	c.queued = true
	clients := []*Client{c}
	for len(clients) > 0 {
		r.store.runTurn(clients, nil)
		clients, _, _ = r.store.takeWork()
	}
}

// nothing is what a client has received that is blocked.
type nothing struct{}

// received returns the reply that a client has received.
func (r *runner) received(c *Client) any {
	r.t.Helper()
	if len(c.outbox) == 0 {
		return nothing{}
	}
	in := bytes.NewBuffer(c.outbox)
	buffered := bufio.NewReader(in)
	reply, err := readReply(buffered)
	if err != nil {
		r.t.Fatal(err)
	}
	c.outbox = append([]byte(nil), c.outbox[len(c.outbox)-in.Len()-buffered.Buffered():]...)
	return reply
}

// expect runs a request and checks the reply.
func (r *runner) expect(c *Client, request string, want any) {
	r.t.Helper()
	if got := r.run(c, request); !reflect.DeepEqual(got, want) {
		r.t.Fatalf("%s: %#v, want %#v", request, got, want)
	}
}

// pass has time pass, and runs a turn.
func (r *runner) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.store.runTurn(nil, nil)
}

func TestWatchedKeyExpires(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	ok := simple("OK")
	r.expect(c, "SET a 1 PX 100", ok)
	r.expect(c, "WATCH a", ok)
	r.now = r.now.Add(time.Second)
	r.expect(c, "MULTI", ok)
	r.expect(c, "EXEC", nil)

	// It has expired before it is watched.
	r.expect(c, "SET a 1 PX 100", ok)
	r.now = r.now.Add(time.Second)
	r.expect(c, "WATCH a", ok)
	r.expect(c, "MULTI", ok)
	r.expect(c, "EXEC", []any{})
}

func TestExecIsRefusedWithoutMemory(t *testing.T) {
	r := newRunner(t)
	c, other := r.client(1), r.client(2)
	r.expect(c, "MULTI", simple("OK"))
	r.expect(c, "SET a 1", simple("QUEUED"))
	r.expect(other, "SET b 1", simple("OK"))
	r.store.options.Memory = 1
	r.expect(c, "EXEC", failure("EXECABORT Transaction discarded because of: "+string(errOOM)))
	r.expect(c, "GET a", nil)
	r.store.options.Memory = 1 << 20
	r.expect(c, "MULTI", simple("OK"))
	r.expect(c, "SET a "+strings.Repeat("x", 2<<20), failure(errOOM))
	r.expect(c, "EXEC", failure("EXECABORT Transaction discarded because of previous errors."))
}
