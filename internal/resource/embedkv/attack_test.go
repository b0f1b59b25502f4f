package embedkv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/budget"
	store "steward/internal/redis"
	"steward/internal/resource"
	"steward/internal/waittest"
)

// raw is a connection on which tests write bytes.
type raw struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func (f *fixture) dial() *raw {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr)
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return &raw{c, f.t, bufio.NewReader(c)}
}

// login returns a connection that has authenticated.
func (f *fixture) login(p *resource.Provisioned) *raw {
	f.t.Helper()
	c := f.dial()
	equal(f.t, "AUTH", c.ask("AUTH "+p.ID+" "+p.Password+"\r\n"), "+OK")
	return c
}

// ask writes bytes and returns a line of the reply.
func (c *raw) ask(request string) string {
	c.t.Helper()
	_, err := io.WriteString(c, request)
	must(c.t, err)
	return c.line()
}

// speakRESP3 switches the protocol.
func (c *raw) speakRESP3() {
	c.t.Helper()
	equal(c.t, "HELLO", c.ask("HELLO 3\r\n"), "%7")
	for c.line() != "*0" { // the modules, which come last
	}
}

func (c *raw) line() string {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := c.in.ReadString('\n')
	must(c.t, err)
	return strings.TrimRight(line, "\r\n")
}

// closed fails the test unless the server closes the connection.
func (c *raw) closed(what string) {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	if rest, err := io.ReadAll(c.in); errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("%s: the connection stays open (%q)", what, rest)
	}
}

func TestNothingWithoutAuthentication(t *testing.T) {
	f := start(t, nil)
	f.create()
	c := f.dial()
	for _, name := range []string{
		"get a", "SET a b", "del a", "HSET a b c", "lpush a b", "blpop a 0", "zadd a 1 b", "xadd a * b c", "multi", "exec", "watch a",
		"subscribe a", "publish a b", "client list", "client kill id 1", "command", "config get a", "info", "ping", "echo a", "select 0",
		"flushall", "EVAL x", "shutdown", "debug segfault", "replicaof a 1", "nonsense",
	} {
		equal(t, name, c.ask(name+"\r\n"), "-NOAUTH Authentication required.")
	}
	equal(t, "RESET", c.ask("RESET\r\n"), "+RESET")
	if got := c.ask("HELLO 2\r\n"); !strings.HasPrefix(got, "-NOAUTH HELLO ") {
		t.Errorf("HELLO: %s", got)
	}
	equal(t, "QUIT", c.ask("QUIT\r\n"), "+OK")
	c.closed("QUIT")
}

// TestServerCommandsAreRefused sends commands with which one client could harm others.
func TestServerCommandsAreRefused(t *testing.T) {
	f := start(t, nil)
	c := f.client(f.create())
	for _, name := range []string{"shutdown", "debug", "module", "slaveof", "replicaof", "monitor", "migrate", "failover"} {
		if err := c.Do(t.Context(), name, "x", "y").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongPasswords(t *testing.T) {
	f := start(t, nil)
	p, other := f.create(), f.create()
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled."
	c := f.dial()
	equal(t, "another store's password", c.ask("AUTH "+p.ID+" "+other.Password+"\r\n"), wrong)
	equal(t, "path", c.ask("AUTH ../"+p.ID+" "+p.Password+"\r\n"), wrong)
	equal(t, "unknown", c.ask("AUTH nonsense\r\n"), wrong)
	equal(t, "HELLO", c.ask("HELLO 2 AUTH default x\r\n"), wrong)
	equal(t, "empty", c.ask("*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$0\r\n\r\n"), wrong)
	c.closed("five wrong passwords")
}

func TestStoresAreSeparate(t *testing.T) {
	f := start(t, nil)
	p, other := f.create(), f.create()
	must(t, f.client(other).Set(t.Context(), "secret", "x", 0).Err())
	c := f.login(p)
	equal(t, "GET", c.ask("GET secret\r\n"), "$-1")
	equal(t, "KEYS", c.ask("KEYS *\r\n"), "*0")
	equal(t, "SELECT", c.ask("SELECT 1\r\n"), "-ERR DB index is out of range")
	equal(t, "FLUSHALL", c.ask("FLUSHALL\r\n"), "+OK")
	equal(t, "AUTH in MULTI", c.ask("MULTI\r\nAUTH "+other.ID+" "+other.Password+"\r\n"), "+OK")
	equal(t, "AUTH in MULTI", c.line(), "-ERR Command not allowed inside a transaction")
	equal(t, "EXEC", c.ask("EXEC\r\n"), "-EXECABORT Transaction discarded because of previous errors.")
	equal(t, "switch", c.ask("AUTH "+other.ID+" "+other.Password+"\r\n"), "+OK")
	equal(t, "GET of the other", c.ask("GET secret\r\n"), "$1")
	c.line()
	equal(t, "after a wrong AUTH", c.ask("AUTH x\r\nEXISTS secret\r\n")[:10], "-WRONGPASS")
	equal(t, "the store is the same", c.line(), ":1")
}

func TestGarbage(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	for request, want := range map[string]string{
		"*1000000000\r\n":                "-ERR Protocol error: invalid multibulk length",
		"*99999999999999999999\r\n":      "-ERR Protocol error: invalid multibulk length",
		"*x\r\n":                         "-ERR Protocol error: invalid multibulk length",
		"*1\r\n$9999999999\r\n":          "-ERR Protocol error: invalid bulk length",
		"*1\r\n$9223372036854775807\r\n": "-ERR Protocol error: invalid bulk length",
		"*1\r\n$-1\r\n":                  "-ERR Protocol error: invalid bulk length",
		"*1\r\n$1\r\nabc\r\n":            "-ERR Protocol error: invalid bulk length",
		"*1\r\n:1\r\n":                   "-ERR Protocol error: expected '$', got ':'",
		"GET \"a\r\n":                    "-ERR Protocol error: unbalanced quotes in request",
		strings.Repeat("x ", 4000):       "-ERR Protocol error: too big inline request",
	} {
		for _, c := range []*raw{f.dial(), f.login(p)} {
			equal(t, fmt.Sprintf("%.20q", request), c.ask(request), want)
			c.closed(request)
		}
	}
	client := f.dial()
	equal(t, "large name", client.ask("*1\r\n$20000\r\n"), "-ERR Protocol error: invalid bulk length")
	client.closed("large name")
	c := f.login(p)
	equal(t, "empty requests", c.ask("\r\n*0\r\n*-1\r\n  \r\nPING\r\n"), "+PONG")
	equal(t, "error with newlines", c.ask("*1\r\n$6\r\na\r\n+OK\r\n"), "-ERR unknown command 'a  +OK', with args beginning with: ")
	equal(t, "the connection works", c.ask("PING\r\n"), "+PONG")
}

func TestConnectionsAreBounded(t *testing.T) {
	f := start(t, func(e *Engine) {
		e.Connections = budget.NewPool(32, 2)
		e.Unauthenticated = budget.NewPool(16, 2)
	})
	p := f.create()
	for range 6 {
		f.login(p)
	}
	seventh := f.dial()
	equal(t, "seventh of a store", seventh.ask("AUTH "+p.Password+"\r\n"), "-ERR max number of clients reached")
	must(t, seventh.Close())
	accepted := func(want int) {
		t.Helper()
		waittest.Until(t, "the connections", func() (int, bool) { n := f.sessions.count(); return n, n == want })
	}
	accepted(6)
	for range 6 {
		f.dial()
	}
	accepted(6 + 6)
	for range 1000 {
		c := f.dial()
		equal(t, "beyond those of an address", c.line(), "-ERR max number of clients reached")
		must(t, c.Close())
	}
	accepted(6 + 6)
}

// TestSlowClientsAreClosed has an engine for each limit, so that what a busy machine delays is within the others.
func TestSlowClientsAreClosed(t *testing.T) {
	const soon = 200 * time.Millisecond
	limited := func(l Limits) (*fixture, *resource.Provisioned) {
		f := start(t, func(e *Engine) { e.Limits = l })
		return f, f.create()
	}
	f, _ := limited(Limits{Login: soon})
	f.dial().closed("no authentication")

	f, p := limited(Limits{Pace: budget.Pace{Grace: soon, Rate: 1 << 10, Limit: time.Minute}})
	half := f.login(p)
	_, err := io.WriteString(half, "*2\r\n$3\r\nGET\r\n$10\r\nabc")
	must(t, err)
	half.closed("half a request")

	f, p = limited(Limits{Idle: soon})
	f.login(p).closed("idle")

	f, p = limited(Limits{Stall: soon})
	waittest.True(t, "a large value to be stored", func() bool {
		return f.client(p).Set(t.Context(), "large", strings.Repeat("x", 1<<20), 0).Err() == nil
	})
	_, err = io.WriteString(f.login(p), strings.Repeat("GET large\r\n", 100)) // and reads nothing
	must(t, err)
	waittest.True(t, "the connection to be closed", func() bool { return len(f.sessions.stores()) == 0 || f.sessions.count() <= 1 })
	waittest.True(t, "memory to be returned", func() bool { return f.Memory.Usage().Owners == 0 })
}

func (r *sessions) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func TestSizesAreBounded(t *testing.T) {
	f := start(t, func(e *Engine) {
		e.Limits = Limits{Memory: 2 << 20, Request: 1 << 20, Reply: 1 << 18, Queue: 3}
		e.Memory = budget.NewPool(8<<20, 1<<20)
	})
	p := f.create()
	ctx := t.Context()
	c := f.client(p)
	equal(t, "request", f.login(p).ask("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n"), "-ERR Protocol error: invalid bulk length")
	for i := range 8 {
		must(t, c.Set(ctx, fmt.Sprint("k", i), strings.Repeat("x", 50_000), 0).Err())
	}
	err := c.MGet(ctx, "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7").Err()
	wantError(t, "reply", err, "ERR the reply is larger than this server allows")
	_, err = c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Set(ctx, "new", "x", 0)
		tx.MGet(ctx, "k0", "k1", "k2", "k3")
		tx.MGet(ctx, "k4", "k5", "k6", "k7")
		return nil
	})
	wantError(t, "replies of a transaction", err, io.EOF.Error()) // an error would say that nothing was changed
	equal(t, "what it changed", c.Exists(ctx, "new").Val(), 1)
	_, err = c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.MGet(ctx, "k0", "k1", "k2", "k3")
		tx.MGet(ctx, "k4", "k5", "k6", "k7")
		return nil
	})
	wantError(t, "replies of a transaction that reads", err, "ERR the reply is larger than this server allows")
	_, err = c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for range 4 {
			tx.Incr(ctx, "n")
		}
		return nil
	})
	wantError(t, "transaction", err, "EXECABORT")
	for err = nil; err == nil; {
		err = c.RPush(ctx, "list", strings.Repeat("x", 100_000)).Err()
	}
	wantError(t, "full store", err, "OOM ")
	must(t, c.FlushDB(ctx).Err())
	must(t, c.Set(ctx, "k", "v", 0).Err())
	waittest.True(t, "memory to be returned", func() bool { return f.Memory.Usage().Owners == 0 })
}

func TestMemoryOfRequestsIsShared(t *testing.T) {
	f := start(t, func(e *Engine) { e.Memory = budget.NewPool(4<<20, 1<<19) }) // a store has 768 KiB
	p := f.create()
	queued := func() (*raw, string) { // a transaction of 600 KB in small commands
		c := f.login(p)
		equal(t, "MULTI", c.ask("MULTI\r\n"), "+OK")
		answer := ""
		for i := 0; i < 200 && !strings.HasPrefix(answer, "-"); i++ {
			answer = c.ask("SET k " + strings.Repeat("x", 3000) + "\r\n")
		}
		return c, answer
	}
	first, answer := queued()
	equal(t, "first transaction", answer, "+QUEUED")
	second, answer := queued()
	equal(t, "second transaction", answer, "-"+store.ErrMemory.Error())
	equal(t, "EXEC of the second", second.ask("EXEC\r\n"), "-EXECABORT Transaction discarded because of previous errors.")
	equal(t, "EXEC of the first", first.ask("EXEC\r\n"), "*200")
	waittest.True(t, "memory to be returned", func() bool { return f.Memory.Usage().Owners == 0 })
	many := "*1001\r\n$3\r\nDEL\r\n" + strings.Repeat("$3000\r\n"+strings.Repeat("x", 3000)+"\r\n", 1000)
	c := f.login(p)
	go func() { _, _ = io.WriteString(c, many) }() // the server closes the connection before it has read all
	c.closed("many arguments")
	waittest.True(t, "memory to be returned", func() bool { return f.Memory.Usage().Owners == 0 })
}

func wantError(t *testing.T, what string, err error, prefix string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), prefix) {
		t.Errorf("%s: got %v, want %s", what, err, prefix)
	}
}
