package embedkv

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/budget"
	"steward/internal/disk"
	store "steward/internal/redis"
	"steward/internal/resource"
	"steward/internal/waittest"
)

// bulk reads the rest of a string whose first line was read.
func (c *raw) bulk(first string) string {
	c.t.Helper()
	var n int
	_, err := fmt.Sscanf(first, "$%d", &n)
	must(c.t, err)
	b := make([]byte, n+2)
	_, err = io.ReadFull(c.in, b)
	must(c.t, err)
	return string(b[:n])
}

// opened returns the store of a resource if it is open.
func (f *fixture) opened(p *resource.Provisioned) *store.Store {
	for _, o := range f.pool.ready() {
		if o.id == p.ID {
			return o.entry.store
		}
	}
	return nil
}

// closeUnused has stores closed that no client needs.
func (f *fixture) closeUnused() { f.pool.closeUnused(time.Now().Add(time.Hour)) }

func TestDefaultsOfGoRedis(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	c := redis.NewClient(&redis.Options{Addr: f.addr, Password: f.create().Password, ClientName: "test"})
	defer func() { _ = c.Close() }()
	info := c.Do(ctx, "CLIENT", "INFO").String()
	for _, want := range []string{" name=test ", " resp=3 ", " lib-name=go-redis"} {
		if !strings.Contains(info, want) {
			t.Errorf("CLIENT INFO has no %q: %s", want, info)
		}
	}
	must(t, c.HSet(ctx, "h", "a", "1").Err())
	equal(t, "map", c.HGetAll(ctx, "h").Val()["a"], "1")
}

func TestClientListShowsClientsOfAClosedStore(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	idle, other := f.login(p), f.login(p)
	equal(t, "SETNAME", idle.ask("CLIENT SETNAME idle\r\n"), "+OK")
	stranger := f.login(f.create())
	equal(t, "SETNAME of another store", stranger.ask("CLIENT SETNAME stranger\r\n"), "+OK")
	f.closeUnused()
	if f.opened(p) != nil {
		t.Fatal("the store stays open")
	}
	list := other.bulk(other.ask("CLIENT LIST\r\n"))
	if strings.Count(list, "\n") != 2 || !strings.Contains(list, " name=idle ") || strings.Contains(list, "stranger") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	equal(t, "KILL", other.ask("CLIENT KILL SKIPME yes TYPE normal\r\n"), ":1")
	idle.closed("CLIENT KILL")
	equal(t, "the other store", stranger.ask("PING\r\n"), "+PONG")
}

// TestStateKeepsStoresOpen has clients that would lose something if their store were closed.
func TestStateKeepsStoresOpen(t *testing.T) {
	for name, requests := range map[string][2]string{
		"transaction":  {"MULTI\r\n", "DISCARD\r\n"},
		"watched key":  {"WATCH k\r\n", "UNWATCH\r\n"},
		"subscription": {"SUBSCRIBE c\r\n", "UNSUBSCRIBE\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			p := f.create()
			c := f.login(p)
			c.ask(requests[0])
			before := f.opened(p)
			f.closeUnused()
			if before == nil || f.opened(p) != before {
				t.Fatal("the store was closed")
			}
			_, err := io.WriteString(c, requests[1])
			must(t, err)
			waittest.True(t, "the store to be closed", func() bool {
				f.closeUnused()
				return f.opened(p) == nil
			})
		})
	}
}

func TestBlockedClientKeepsItsStoreOpen(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	blocked, other := f.login(p), f.login(p)
	_, err := io.WriteString(blocked, "BLPOP l 0\r\n")
	must(t, err)
	waittest.True(t, "the client to be blocked", func() bool {
		return strings.Contains(other.bulk(other.ask("CLIENT LIST\r\n")), " flags=b ")
	})
	f.closeUnused()
	equal(t, "RPUSH", other.ask("RPUSH l v\r\n"), ":1")
	equal(t, "BLPOP", blocked.line(), "*2")
}

// TestBlockedClientIsCut deletes the store of a client that is blocked and has sent more requests.
func TestBlockedClientIsCut(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.login(p)
	_, err := io.WriteString(c, "BLPOP l 0\r\nAUTH "+p.Password+"\r\n") // AUTH waits for what precedes it
	must(t, err)
	f.drop(p)
	must(t, f.Delete(t.Context(), p))
	c.closed("deletion")
	waittest.True(t, "the session to end", func() bool { return f.sessions.count() == 0 })
}

func TestSubscribersMayBeIdle(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Idle: 300 * time.Millisecond} })
	p := f.create()
	subscriber := f.dial()
	equal(t, "AUTH", subscriber.ask("AUTH "+p.ID+" "+p.Password+"\r\nSUBSCRIBE c\r\n"), "+OK") // it is never idle before
	equal(t, "SUBSCRIBE", subscriber.line(), "*3")
	for range 3 {
		f.login(p).closed("idle")
	}
	for range 5 {
		subscriber.line()
	}
	waittest.True(t, "a message to be published", func() bool {
		n, err := f.client(p).Publish(t.Context(), "c", "text").Result()
		return err == nil && n == 1
	})
	equal(t, "message", subscriber.line(), "*3")
}

func TestClientsWaitForAStoreToBeClosed(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Stores: 1} })
	first, second := f.login(f.create()), f.login(f.create())
	equal(t, "MULTI", first.ask("MULTI\r\n"), "+OK")
	_, err := io.WriteString(second, "SET k v\r\n")
	must(t, err)
	equal(t, "SET", first.ask("SET k v\r\n"), "+QUEUED")
	equal(t, "EXEC", first.ask("EXEC\r\n"), "*1")
	equal(t, "SET of the other store", second.line(), "+OK")
}

func TestClientsDoNotWaitForever(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Stores: 1, Wait: 10 * time.Millisecond} })
	first, second := f.login(f.create()), f.login(f.create())
	equal(t, "MULTI", first.ask("MULTI\r\n"), "+OK")
	equal(t, "SET", second.ask("SET k v\r\n"), "-"+errTooManyStores.Error())
	equal(t, "DISCARD", first.ask("DISCARD\r\n"), "+OK")
	waittest.True(t, "the store to be opened", func() bool { return second.ask("SET k v\r\n") == "+OK" })
}

func TestAlmostFullDisk(t *testing.T) {
	space := &disk.Space{Dir: t.TempDir(), Reserve: 1}
	f := start(t, func(e *Engine) { e.Disk = space })
	c := f.login(f.create())
	equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	f.Disk.Reserve = 1 << 60
	waittest.True(t, "the disk to be full", func() bool { return space.Room() != nil })
	equal(t, "SET", c.ask("SET k v\r\n"), "-"+errDiskFull.Error())
	equal(t, "GET", c.bulk(c.ask("GET k\r\n")), "v")
	equal(t, "DEL", c.ask("DEL k\r\n"), ":1")
}

// TestSubscriberThatDoesNotReadIsClosed has one that receives more than its share of memory.
func TestSubscriberThatDoesNotReadIsClosed(t *testing.T) {
	f := start(t, func(e *Engine) { e.Memory = budget.NewPool(16<<20, 1<<20) })
	p := f.create()
	subscriber := f.login(p)
	equal(t, "SUBSCRIBE", subscriber.ask("SUBSCRIBE c\r\n"), "*3")
	c := f.client(p)
	text := strings.Repeat("x", 100_000)
	waittest.True(t, "the subscriber to be closed", func() bool { return c.Publish(t.Context(), "c", text).Val() == 0 })
	waittest.True(t, "memory to be returned", func() bool { return f.Memory.Usage().Owners == 0 })
	must(t, c.Set(t.Context(), "k", text, 0).Err())
}

// TestRepliesAreNotBuilt asks for more than there is memory.
func TestRepliesAreNotBuilt(t *testing.T) {
	f := start(t, nil)
	c := f.client(f.create())
	must(t, c.Set(t.Context(), "k", strings.Repeat("x", 10<<20), 0).Err())
	args := []any{"MGET"}
	for range 100_000 { // a terabyte
		args = append(args, "k")
	}
	wantError(t, "MGET", c.Do(t.Context(), args...).Err(), "ERR the reply is larger than this server allows")
}

// TestRepliesStayInOrder has requests that the gate answers among those of the store.
func TestRepliesStayInOrder(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.login(p)
	auth := "AUTH " + p.ID + " " + p.Password + "\r\n"
	for range 100 {
		equal(t, "INCR", c.ask("DEL n\r\nINCR n\r\n" + auth + "INCR n\r\nAUTH a b c d\r\n")[:1], ":")
		for _, want := range []string{":1", "+OK", ":2", "-ERR syntax error"} {
			equal(t, "reply", c.line(), want)
		}
	}
}

// TestRequestsBeforeTheEndAreAnswered closes its half of the connection after a pipeline.
func TestRequestsBeforeTheEndAreAnswered(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.login(p)
	_, err := io.WriteString(c, strings.Repeat("INCR n\r\n", 1000))
	must(t, err)
	must(t, c.Conn.(interface{ CloseWrite() error }).CloseWrite())
	for i := range 1000 {
		equal(t, "INCR", c.line(), fmt.Sprint(":", i+1))
	}
	c.closed("end of requests")
}

func TestResetEndsTransactionsAndSubscriptions(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.login(p)
	equal(t, "HELLO", c.ask("HELLO 3\r\n"), "%7")
	for line := ""; line != "*0"; line = c.line() {
		continue
	}
	equal(t, "GET in RESP3", c.ask("GET none\r\n"), "_")
	equal(t, "MULTI", c.ask("MULTI\r\n"), "+OK")
	equal(t, "RESET", c.ask("RESET\r\n"), "+RESET")
	equal(t, "EXEC", c.ask("EXEC\r\n"), "-NOAUTH Authentication required.")
	equal(t, "AUTH", c.ask("AUTH "+p.Password+"\r\n"), "+OK")
	equal(t, "EXEC", c.ask("EXEC\r\n"), "-ERR EXEC without MULTI")
	equal(t, "GET in RESP2", c.ask("GET none\r\n"), "$-1")
}
