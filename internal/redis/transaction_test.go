package redis

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/resource/rediskv/redistest"
)

// transactionExamples are requests of transactions, and some that are refused within them.
var transactionExamples = [][]string{
	{"MULTI"},
	{"MULTI"},
	{"EXEC"},
	{"EXEC"},
	{"EXEC"},
	{"DISCARD"},
	{"UNWATCH"},
	{"WATCH", "a"},
	{"WATCH", "a", "b", "b"},
	{"WATCH"},
	{"MULTI", "x"},
	{"EXEC", "x"},
	{"NOSUCH", "x"},
	{"GET"},
	{"RESET"},
	{"FLUSHALL"},
	{"PEXPIRE", "a", "-1"},
	{"BLPOP", "a", "b", "0"},
	{"BLMOVE", "a", "b", "LEFT", "LEFT", "0"},
	{"BZPOPMIN", "a", "0"},
	{"SET", "a", "1"},
	{"INCR", "a"},
	{"RPUSH", "a", "x"},
	{"GET", "a"},
	{"DEL", "a"},
	{"RENAME", "b", "a"},
	{"SET", "b", "x"},
	{"PING"},
}

// TestTransactionsDifferential compares transactions of two clients with those of redis-server.
func TestTransactionsDifferential(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Dir(t.TempDir()), Options{})
	addr := serve(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		var theirs, ours [2]*wire
		for i := range 2 {
			theirs[i], ours[i] = connect(rt, server.Addr), connect(rt, addr)
			theirs[i].pipeline(rt, [][]string{{"AUTH", redistest.Password}})
		}
		theirs[0].pipeline(rt, [][]string{{"FLUSHALL"}})
		ours[0].pipeline(rt, [][]string{{"FLUSHALL"}})
		queued := [2]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "length") {
			i := rapid.IntRange(0, 1).Draw(rt, "client")
			args := rapid.SampledFrom(transactionExamples).Draw(rt, "request")
			if strings.HasPrefix(args[0], "B") && !queued[i] || args[0] == "RESET" {
				continue // it would block, or need a password again
			}
			want, got := theirs[i].pipeline(rt, [][]string{args}), ours[i].pipeline(rt, [][]string{args})
			if !reflect.DeepEqual(want, got) {
				rt.Fatalf("client %d: %q:\nredis-server %#v\nhere         %#v", i, args, want[0], got[0])
			}
			switch {
			case want[0] == simple("OK") && args[0] == "MULTI":
				queued[i] = true
			case args[0] == "EXEC", args[0] == "DISCARD":
				queued[i] = false
			}
		}
		for i := range 2 {
			_ = theirs[i].conn.Close()
			_ = ours[i].conn.Close()
		}
	})
}

// runner runs requests of clients in turns of their own, at a time that tests set.
type runner struct {
	t     testing.TB
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
	c.inbox.PushBack(request{args: strings.Fields(text)})
	c.queued = true
	r.store.runTurn([]*Client{c}, nil)
	return r.received(c)
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
