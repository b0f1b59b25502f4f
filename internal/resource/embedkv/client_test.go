package embedkv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/waittest"
)

func TestRedisCLI(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	equal(t, "SET", f.cli(p, "set", "greeting", "hello"), "OK")
	equal(t, "GET", f.cli(p, "get", "greeting"), "hello")
	equal(t, "empty value", f.cli(p, "set", "empty", ""), "OK")
	equal(t, "STRLEN", f.cli(p, "strlen", "empty"), "0")
	equal(t, "PING", f.cli(p, "ping"), "PONG")
	equal(t, "SELECT", f.cli(p, "select", "1"), "ERR DB index is out of range")
	equal(t, "unknown", f.cli(p, "nonsense", "help", "x"), "ERR unknown command 'nonsense', with args beginning with: 'help' 'x'")
	equal(t, "arguments", f.cli(p, "get"), "ERR wrong number of arguments for 'get' command")
	equal(t, "RESP3", f.cli(p, "-3", "get", "greeting"), "hello")
	equal(t, "DBSIZE", f.cli(p, "dbsize"), "2")
	equal(t, "FLUSHALL", f.cli(p, "flushall", "async"), "OK")
	equal(t, "DBSIZE", f.cli(p, "dbsize"), "0")
}

func TestAuthenticationForms(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	host, port, _ := strings.Cut(f.addr, ":")
	for i, args := range [][]string{
		{"--user", p.ID, "--pass", p.Password},
		{"--user", "default", "--pass", p.Password},
		{"-a", p.Password},
	} {
		options := append([]string{"--no-auth-warning", "-h", host, "-p", port}, args...)
		out, err := exec.Command("redis-cli", append(options, "incr", "n")...).Output()
		must(t, err)
		equal(t, strings.Join(args[:2], " "), strings.TrimSpace(string(out)), fmt.Sprint(i+1))
	}
}

func TestGoRedis(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	c := f.client(f.create())
	must(t, c.Set(ctx, "k", "v", time.Hour).Err())
	equal(t, "GET", c.Get(ctx, "k").Val(), "v")
	if ttl := c.PTTL(ctx, "k").Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("PTTL: %v", ttl)
	}
	equal(t, "missing", c.Get(ctx, "missing").Err(), error(redis.Nil))
	equal(t, "HSET", c.HSet(ctx, "h", "a", 1, "b", 2).Val(), 2)
	equal(t, "RPUSH", c.RPush(ctx, "l", "a", "b", "c").Val(), 3)
	equal(t, "LRANGE", strings.Join(c.LRange(ctx, "l", 0, -1).Val(), ""), "abc")
	equal(t, "ZADD", c.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "m"}).Val(), 1)
	equal(t, "UNLINK", c.Unlink(ctx, "h", "l").Val(), 2)
	err := c.LPush(ctx, "k", "x").Err()
	if err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE ") {
		t.Errorf("LPUSH to a string: %v", err)
	}
}

func TestTransactions(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	c := f.client(f.create())
	_, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Set(ctx, "a", "text", 0)
		tx.Incr(ctx, "a") // fails; the others are kept, as in Redis
		tx.RPush(ctx, "l", 1, 2)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "not an integer") {
		t.Errorf("EXEC: %v", err)
	}
	equal(t, "a", c.Get(ctx, "a").Val(), "text")
	equal(t, "l", c.LLen(ctx, "l").Val(), 2)

	_, err = c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Set(ctx, "b", 1, 0)
		tx.Do(ctx, "nonsense")
		return nil
	})
	if err == nil || c.Exists(ctx, "b").Val() != 0 {
		t.Errorf("EXEC after a refused command: %v", err)
	}
}

func TestExpiredKeysAreDeleted(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	c := f.client(f.create())
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 3000 {
			pipe.Set(ctx, fmt.Sprint("k", i), "v", 10*time.Millisecond)
		}
		return nil
	})
	must(t, err)
	must(t, c.Set(ctx, "stays", "v", 0).Err())
	waittest.Until(t, "expired keys to be deleted", func() (int64, bool) { // DBSIZE counts expired keys too
		n := c.DBSize(ctx).Val()
		return n, n == 1
	})
}

func TestIoredis(t *testing.T) {
	f := start(t, nil)
	run := exec.Command("node", "../../../e2e/clients/ioredis.mjs")
	run.Env = append(os.Environ(), "REDIS_URL="+f.Connection(f.create()).URL)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestRedisBenchmark(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	host, port, _ := strings.Cut(f.addr, ":")
	for _, pipeline := range []string{"1", "16"} {
		run := exec.Command("redis-benchmark", "-h", host, "-p", port, "--user", p.ID, "-a", p.Password,
			"-n", "2000", "-P", pipeline, "-t", "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,mset", "--csv")
		out, err := run.CombinedOutput()
		if err != nil || strings.Contains(string(out), "rror") {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
