package clients

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// rueidisKeys is how many keys, fields and members the scans have to find.
const rueidisKeys = 2500

// useRueidis uses a store with rueidis and its default settings: it looks for a cluster first, and keeps replies until the
// store tells it that their keys have changed. Redis servers that are shared do not tell, so that this is switched off there.
func useRueidis(t *testing.T, kv installation.CreatedResource) {
	prefix := kv.Env["REDIS_KEY_PREFIX"]
	u := &rueidisUser{t: t, ctx: t.Context(), key: func(name string) string { return prefix + "rueidis:" + name }}
	u.c = u.connect(kv.URL, prefix != "")
	u.values()
	u.transaction()
	u.messages()
	u.stream()
	u.scans(prefix == "")
	if prefix == "" {
		u.caching(u.connect(kv.URL, true))
	}
}

type rueidisUser struct {
	t   *testing.T
	ctx context.Context
	c   rueidis.Client
	key func(name string) string
}

func (u *rueidisUser) connect(url string, disableCache bool) rueidis.Client {
	u.t.Helper()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		u.t.Fatal(err)
	}
	option.ConnWriteTimeout = installation.RequestTimeout // for a busy machine
	option.DisableCache = disableCache
	c, err := rueidis.NewClient(option)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(c.Close)
	return c
}

// do runs a command, given as words.
func (u *rueidisUser) do(words ...string) rueidis.RedisResult {
	return u.c.Do(u.ctx, u.c.B().Arbitrary(words...).Build())
}

// expect runs a command and checks the reply.
func (u *rueidisUser) expect(want any, words ...string) {
	u.t.Helper()
	got, err := u.do(words...).ToAny()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		u.t.Errorf("%v: got %v (%v), want %v", words, got, err, want)
	}
}

func (u *rueidisUser) values() {
	u.expect("OK", "SET", u.key("text"), "grüße", "EX", "3600")
	u.expect("grüße", "GET", u.key("text"))
	if _, err := u.do("GET", u.key("none")).ToString(); !rueidis.IsRedisNil(err) {
		u.t.Errorf("a key that is missing: %v", err)
	}
	u.expect(2, "HSET", u.key("user"), "name", "Ada", "born", "1815")
	u.expect(map[string]any{"name": "Ada", "born": "1815"}, "HGETALL", u.key("user"))
	u.expect(3, "RPUSH", u.key("list"), "a", "b", "c")
	u.expect([]any{"a", "b", "c"}, "LRANGE", u.key("list"), "0", "-1")
	u.expect([]any{u.key("list"), "c"}, "BRPOP", u.key("list"), "10")
	script := rueidis.NewLuaScript(`return {redis.call("INCRBY", KEYS[1], ARGV[1]), "x"}`)
	for n := range 2 { // the first has to load it
		got, err := script.Exec(u.ctx, u.c, []string{u.key("scripted")}, []string{"5"}).ToAny()
		if err != nil || fmt.Sprint(got) != fmt.Sprint([]any{5 * (n + 1), "x"}) {
			u.t.Errorf("script: %v (%v)", got, err)
		}
	}
}

// transaction watches a key that another connection changes.
func (u *rueidisUser) transaction() {
	key := u.key("balance")
	for _, changed := range []bool{true, false} {
		err := u.c.Dedicated(func(c rueidis.DedicatedClient) error {
			if err := c.Do(u.ctx, c.B().Watch().Key(key).Build()).Error(); err != nil {
				return err
			}
			if changed {
				u.expect("OK", "SET", key, "1")
			}
			replies := c.DoMulti(u.ctx, c.B().Multi().Build(), c.B().Incr().Key(key).Build(), c.B().Exec().Build())
			if err := replies[2].Error(); rueidis.IsRedisNil(err) != changed {
				return fmt.Errorf("EXEC: %w", err)
			}
			return nil
		})
		if err != nil {
			u.t.Error(err)
		}
	}
	u.expect(2, "INCRBY", key, "0")
}

func (u *rueidisUser) messages() {
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	received := make(chan rueidis.PubSubMessage, 100)
	go func() {
		_ = u.c.Receive(ctx, u.c.B().Subscribe().Channel(u.key("news")).Build(), func(m rueidis.PubSubMessage) { received <- m })
	}()
	waittest.True(u.t, "the subscription", func() bool {
		n, err := u.do("PUBLISH", u.key("news"), "hello").ToInt64()
		return err == nil && n == 1
	})
	if m := waittest.Receive(u.t, "the message", received); m.Channel != u.key("news") || m.Message != "hello" {
		u.t.Errorf("received %+v", m)
	}
}

func (u *rueidisUser) stream() {
	key := u.key("events")
	u.expect("OK", "XGROUP", "CREATE", key, "workers", "$", "MKSTREAM")
	u.expect("1-1", "XADD", key, "1-1", "n", "1")
	u.expect(map[string]any{key: []any{[]any{"1-1", []any{"n", "1"}}}}, "XREADGROUP", "GROUP", "workers", "a", "BLOCK", "1000", "STREAMS", key, ">")
	u.expect(1, "XACK", key, "workers", "1-1")
}

// scans counts what scans find: each key, field or member once at least, and no other. A store that has a prefix scans no keys.
func (u *rueidisUser) scans(whole bool) {
	for i := range rueidisKeys {
		name := strconv.Itoa(i)
		replies := u.c.DoMulti(u.ctx,
			u.c.B().Hset().Key(u.key("hash")).FieldValue().FieldValue(name, name).Build(),
			u.c.B().Sadd().Key(u.key("set")).Member("x"+name).Build(),
			u.c.B().Zadd().Key(u.key("zset")).ScoreMember().ScoreMember(float64(i), name).Build(),
			u.c.B().Set().Key(u.key("many:"+name)).Value(name).Build())
		for _, reply := range replies {
			if err := reply.Error(); err != nil {
				u.t.Fatal(err)
			}
		}
	}
	u.scan(2, "HSCAN", u.key("hash"))
	u.scan(1, "SSCAN", u.key("set"))
	u.scan(2, "ZSCAN", u.key("zset"))
	if whole {
		u.scan(1, "SCAN", "MATCH", u.key("many:*"))
	}
}

// scan counts the names that a scan finds, each of which is the first of a number of elements.
func (u *rueidisUser) scan(elements int, command string, args ...string) {
	found := map[string]bool{}
	at := 1
	if command != "SCAN" {
		at = 2
	}
	for cursor := uint64(0); ; {
		words := append([]string{command}, args[:at-1]...)
		words = append(append(words, strconv.FormatUint(cursor, 10)), args[at-1:]...)
		page, err := u.do(words...).AsScanEntry()
		if err != nil {
			u.t.Fatal(err)
		}
		for i := 0; i < len(page.Elements); i += elements {
			found[page.Elements[i]] = true
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	if len(found) != rueidisKeys {
		u.t.Errorf("%s found %d of %d", command, len(found), rueidisKeys)
	}
}

// caching reads a key again and again, which comes from the client until it is changed on another connection, expires, or
// is deleted with all others.
func (u *rueidisUser) caching(other rueidis.Client) {
	key := u.key("cached")
	change := func(words ...string) {
		if err := other.Do(u.ctx, other.B().Arbitrary(words...).Build()).Error(); err != nil {
			u.t.Fatal(err)
		}
	}
	read := func() (text string, cached bool) {
		reply := u.c.DoCache(u.ctx, u.c.B().Get().Key(key).Cache(), time.Hour)
		text, err := reply.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			u.t.Fatal(err)
		}
		return text, reply.IsCacheHit()
	}
	awaitText := func(want string) {
		u.t.Helper()
		waittest.Until(u.t, "the changed value", func() (string, bool) {
			got, _ := read()
			return got, got == want
		})
		waittest.True(u.t, "the value from the client", func() bool {
			got, cached := read()
			if got != want {
				u.t.Fatalf("got %q, want %q", got, want)
			}
			return cached
		})
	}
	change("SET", key, "first")
	awaitText("first")
	change("SET", key, "second")
	awaitText("second")
	change("EVAL", "return redis.call('APPEND', KEYS[1], '!')", "1", key)
	awaitText("second!")
	change("PEXPIRE", key, "100")
	awaitText("")
	change("MSET", key, "third", u.key("more"), "x")
	awaitText("third")
	change("FLUSHALL")
	awaitText("")
	for i := range rueidisKeys { // each comes from the client at the second time
		change("SET", u.key(strconv.Itoa(i)), "old")
	}
	keys := make([]string, rueidisKeys)
	for i := range keys {
		keys[i] = u.key(strconv.Itoa(i))
	}
	for _, want := range []string{"old", "new"} {
		for _, key := range keys {
			change("SET", key, want)
		}
		waittest.Until(u.t, "all values to be "+want, func() (int, bool) {
			values, err := rueidis.MGetCache(u.c, u.ctx, time.Hour, keys)
			if err != nil {
				u.t.Fatal(err)
			}
			n := 0
			for _, key := range keys {
				value := values[key]
				if text, err := value.ToString(); err == nil && text == want {
					n++
				}
			}
			return n, n == len(keys)
		})
	}
}
