package installation

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// goRedis uses a store with go-redis and its default settings, which speaks RESP3.
type goRedis struct {
	t      *testing.T
	ctx    context.Context
	c      *redis.Client
	prefix string
}

// UseGoRedis uses a store as applications do: with pipelines, transactions, messages, streams and
// scripts.
func UseGoRedis(t *testing.T, kv CreatedResource) {
	options, err := redis.ParseURL(kv.URL)
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout = RequestTimeout // for a busy machine
	g := &goRedis{t: t, ctx: t.Context(), c: redis.NewClient(options), prefix: kv.Env["REDIS_KEY_PREFIX"]}
	defer func() { _ = g.c.Close() }()
	g.types()
	g.transaction()
	g.messages()
	g.stream()
	g.scripts()
	g.sidekiq7()
	g.scans()
}

func (g *goRedis) key(name string) string { return g.prefix + "go:" + name }

// wantReply fails the test unless a command has returned this value.
func wantReply[T any](g *goRedis, value T) func(got T, err error) {
	return func(got T, err error) {
		g.t.Helper()
		if err != nil || !reflect.DeepEqual(got, value) {
			g.t.Errorf("got %v (%v), want %v", got, err, value)
		}
	}
}

func (g *goRedis) types() {
	c, ctx := g.c, g.ctx
	wantReply(g, "OK")(c.Set(ctx, g.key("text"), "grüße", time.Hour).Result())
	wantReply(g, "grüße")(c.Get(ctx, g.key("text")).Result())
	if _, err := c.Get(ctx, g.key("none")).Result(); !errors.Is(err, redis.Nil) {
		g.t.Errorf("a key that is missing: %v", err)
	}
	wantReply(g, int64(2))(c.HSet(ctx, g.key("user"), "name", "Ada", "born", 1815).Result())
	wantReply(g, map[string]string{"name": "Ada", "born": "1815"})(c.HGetAll(ctx, g.key("user")).Result())
	wantReply(g, int64(2))(c.ZAdd(ctx, g.key("top"), redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: math.Inf(1), Member: "b"}).Result())
	wantReply(g, []redis.Z{{Score: 1.5, Member: "a"}, {Score: math.Inf(1), Member: "b"}})(c.ZRangeWithScores(ctx, g.key("top"), 0, -1).Result())
	wantReply(g, 1.5)(c.ZScore(ctx, g.key("top"), "a").Result())
	wantReply(g, true)(c.SetNX(ctx, g.key("lock"), "mine", time.Hour).Result())
	wantReply(g, false)(c.SetNX(ctx, g.key("lock"), "theirs", time.Hour).Result())
	wantReply(g, []any{"mine", nil})(c.MGet(ctx, g.key("lock"), g.key("none")).Result())
	hello, err := c.Do(ctx, "HELLO").Result()
	if fields, ok := hello.(map[any]any); err != nil || !ok || fields["proto"] != int64(3) {
		g.t.Errorf("HELLO: %v (%v)", hello, err)
	}
}

func (g *goRedis) transaction() {
	c, ctx, key := g.c, g.ctx, g.key("balance")
	wantReply(g, "OK")(c.Set(ctx, key, 100, 0).Result())
	attempts := 0
	withdraw := func(tx *redis.Tx) error {
		balance, err := tx.Get(ctx, key).Int()
		if err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			wantReply(g, int64(101))(c.Incr(ctx, key).Result())
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, key, balance-10, 0).Err() })
		return err
	}
	if err := c.Watch(ctx, withdraw, key); !errors.Is(err, redis.TxFailedErr) {
		g.t.Errorf("a key that another has changed: %v", err)
	}
	if err := c.Watch(ctx, withdraw, key); err != nil {
		g.t.Error(err)
	}
	wantReply(g, "91")(c.Get(ctx, key).Result())
	replies, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 500 {
			p.Incr(ctx, g.key("n"))
		}
		return p.LPush(ctx, key, "x").Err()
	})
	if err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") || replies[499].(*redis.IntCmd).Val() != 500 {
		g.t.Errorf("pipeline: %v: %v", replies[499], err)
	}
}

func (g *goRedis) messages() {
	sub := g.c.Subscribe(g.ctx, g.key("news"))
	defer func() { _ = sub.Close() }()
	if err := sub.PSubscribe(g.ctx, g.prefix+"*"); err != nil {
		g.t.Fatal(err)
	}
	for range 2 { // the confirmations
		if _, err := sub.Receive(g.ctx); err != nil {
			g.t.Fatal(err)
		}
	}
	wantReply(g, int64(2))(g.c.Publish(g.ctx, g.key("news"), "hello").Result())
	for _, pattern := range []string{"", g.prefix + "*"} {
		message, err := sub.ReceiveMessage(g.ctx)
		if err != nil || message.Channel != g.key("news") || message.Payload != "hello" || message.Pattern != pattern {
			g.t.Errorf("got %v (%v), want hello by the pattern %q", message, err, pattern)
		}
	}
}

func (g *goRedis) stream() {
	c, ctx, key := g.c, g.ctx, g.key("events")
	wantReply(g, "OK")(c.XGroupCreateMkStream(ctx, key, "workers", "$").Result())
	var ids []string
	for n := range 3 {
		id, err := c.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"n", n}}).Result()
		if err != nil {
			g.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	streams, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "a", Streams: []string{key, ">"}, Count: 2, Block: time.Second}).Result()
	if err != nil || len(streams) != 1 || len(streams[0].Messages) != 2 || streams[0].Messages[1].Values["n"] != "1" {
		g.t.Errorf("XREADGROUP: %v (%v)", streams, err)
	}
	wantReply(g, int64(1))(c.XAck(ctx, key, "workers", ids[0]).Result())
	wantReply(g, &redis.XPending{Count: 1, Lower: ids[1], Higher: ids[1], Consumers: map[string]int64{"a": 1}})(c.XPending(ctx, key, "workers").Result())
	claimed, _, err := c.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{Stream: key, Group: "workers", Consumer: "b", Start: "0"}).Result()
	wantReply(g, ids[1:2])(claimed, err)
	info, err := c.XInfoStreamFull(ctx, key, 10).Result()
	if err != nil || info.Length != 3 || len(info.Groups) != 1 || info.Groups[0].Lag != 1 || info.Groups[0].Pending[0].Consumer != "b" {
		g.t.Errorf("XINFO STREAM FULL: %+v (%v)", info, err)
	}
	groups, err := c.XInfoGroups(ctx, key).Result()
	wantReply(g, []redis.XInfoGroup{{Name: "workers", Consumers: 2, Pending: 1, LastDeliveredID: ids[1], EntriesRead: 2, Lag: 1}})(groups, err)
}

func (g *goRedis) scripts() {
	script := redis.NewScript(`local n = redis.call("INCRBY", KEYS[1], ARGV[1]) return {n, redis.call("TYPE", KEYS[1]), false, 3.9}`)
	for n := range 2 { // the first has to load it
		wantReply[any](g, []any{int64(5 * (n + 1)), "string", nil, int64(3)})(script.Run(g.ctx, g.c, []string{g.key("scripted")}, 5).Result())
	}
	wantReply(g, []bool{true})(script.Exists(g.ctx, g.c).Result())
}

// sidekiq7 covers the commands that Sidekiq 7 sends over RESP3 and version 6, which clients/sidekiq.rb
// runs, does not: counts in bit fields, sets of processes with scans, and a script that takes jobs from a
// sorted set.
func (g *goRedis) sidekiq7() {
	c, ctx := g.c, g.ctx
	job := `{"class":"Add","args":[1,2],"jid":"b4a577edbccf1d805744efa9"}`
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, g.key("queues"), "default")
		p.LPush(ctx, g.key("queue:default"), job)
		p.ZAdd(ctx, g.key("schedule"), redis.Z{Score: 1.7e9, Member: job})
		return nil
	})
	wantReply[any](g, nil)(nil, err)
	wantReply(g, []string{g.key("queue:default"), job})(c.BRPop(ctx, 2*time.Second, g.key("queue:none"), g.key("queue:default")).Result())
	if _, err := c.BRPop(ctx, time.Second, g.key("queue:default")).Result(); !errors.Is(err, redis.Nil) {
		g.t.Errorf("BRPOP of an empty queue: %v", err)
	}
	pop := redis.NewScript(`local jobs = redis.call("zrange", KEYS[1], "-inf", ARGV[1], "byscore", "limit", 0, 1)
		if jobs[1] then redis.call("zrem", KEYS[1], jobs[1]) return jobs[1] end`)
	wantReply[any](g, job)(pop.Run(ctx, c, []string{g.key("schedule")}, "1.7e9").Result())
	if _, err := pop.Run(ctx, c, []string{g.key("schedule")}, "1.7e9").Result(); !errors.Is(err, redis.Nil) {
		g.t.Errorf("a job of an empty set: %v", err)
	}
	wantReply(g, []int64{1, 65535})(c.BitField(ctx, g.key("histogram"), "OVERFLOW", "SAT", "INCRBY", "u16", "#0", 1, "INCRBY", "u16", "#3", 70000).Result())
	wantReply(g, []int64{1, 65535})(c.BitFieldRO(ctx, g.key("histogram"), "u16", 0, "u16", 48).Result())
	wantReply(g, int64(2))(c.HSet(ctx, g.key("process"), "busy", 0, "quiet", "false").Result())
	wantReply(g, true)(c.ExpireNX(ctx, g.key("process"), time.Minute).Result())
	wantReply(g, int64(1))(c.Unlink(ctx, g.key("process"), g.key("process:work")).Result())
	found, _, err := c.SScan(ctx, g.key("queues"), 0, "def*", 100).Result()
	wantReply(g, []string{"default"})(found, err)
}

// scans counts the results of scans: each key, field or member at least once, and no other. It scans no
// keys in a store that has a prefix.
func (g *goRedis) scans() {
	c, ctx := g.c, g.ctx
	const count = 2500
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range count {
			p.HSet(ctx, g.key("many"), i, i)
			p.SAdd(ctx, g.key("members"), "m"+strconv.Itoa(i))
			p.ZAdd(ctx, g.key("scores"), redis.Z{Score: float64(i), Member: i})
			p.Set(ctx, g.key("many:"+strconv.Itoa(i)), i, 0)
		}
		return nil
	})
	wantReply[any](g, nil)(nil, err)
	type scan struct {
		pages    *redis.ScanIterator
		elements int // for each name
	}
	scans := []scan{
		{c.HScan(ctx, g.key("many"), 0, "", 0).Iterator(), 2},
		{c.SScan(ctx, g.key("members"), 0, "", 0).Iterator(), 1},
		{c.ZScan(ctx, g.key("scores"), 0, "", 0).Iterator(), 2},
	}
	if g.prefix == "" {
		scans = append(scans, scan{c.Scan(ctx, 0, g.key("many:*"), 0).Iterator(), 1})
	}
	for _, scan := range scans {
		found := map[string]bool{}
		for i := 0; scan.pages.Next(ctx); i++ {
			if i%scan.elements == 0 {
				found[scan.pages.Val()] = true
			}
		}
		wantReply(g, count)(len(found), scan.pages.Err())
	}
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range count {
			p.Unlink(ctx, g.key("many:"+strconv.Itoa(i)))
		}
		return nil
	})
	wantReply[any](g, nil)(nil, err)
}
