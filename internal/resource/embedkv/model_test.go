package embedkv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"steward/internal/resource/rediskv/redistest"
)

// redisServer starts redis-server and returns a client of it.
func redisServer(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(redistest.Start(t).URL)
	must(t, err)
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// shapes are commands of the model. %k is a key, as a rule of the command's type, %v a value, %n a small
// number.
var shapes = map[string][]string{
	"s": {
		"SET %k %v", "SET %k %v NX", "SET %k %v XX", "SET %k %v GET", "GET %k", "GETSET %k %v", "SETNX %k %v", "STRLEN %k",
		"MGET %k %k %k", "MSET %k %v %k %v", "DEL %k %k", "UNLINK %k", "EXISTS %k", "TYPE %k",
		"EXPIRE %k 1000", "RENAMENX %k %k",
	},
	"n": {"INCR %k", "DECR %k", "INCRBY %k %n", "DECRBY %k %n", "GET %k", "DEL %k", "SET %k %n"},
	"h": {
		"HSET %k %v %v", "HSET %k %v %v %v %v", "HGET %k %v", "HDEL %k %v", "HEXISTS %k %v", "HLEN %k", "HGETALL %k", "HKEYS %k",
		"HVALS %k", "HMGET %k %v %v", "HSETNX %k %v %v", "DEL %k",
	},
	"l": {
		"LPUSH %k %v", "RPUSH %k %v %v %v", "LPOP %k", "RPOP %k", "LLEN %k", "LRANGE %k 0 -1", "LRANGE %k %n %n", "LINDEX %k %n",
		"LREM %k 1 %v", "LREM %k -1 %v", "LREM %k 0 %v", "LTRIM %k 0 3", "RPOPLPUSH %k %k", "LINSERT %k BEFORE %v %v", "DEL %k",
	},
	"t": {
		"SADD %k %v %v", "SREM %k %v", "SCARD %k", "SISMEMBER %k %v", "SMEMBERS %k", "SINTER %k %k", "SUNION %k %k", "SDIFF %k %k",
		"SMOVE %k %k %v", "DEL %k",
	},
	"z": {
		"ZADD %k %n %v", "ZREM %k %v", "ZCARD %k", "ZSCORE %k %v", "ZRANK %k %v", "ZRANGE %k 0 -1", "ZCOUNT %k -5 5", "ZINCRBY %k %n %v",
		"ZRANGE %k 0 -1 WITHSCORES", "DEL %k",
	},
}

// unordered are the commands whose replies have no order.
var unordered = []string{"HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SINTER", "SUNION", "SDIFF"}

// draw makes a command of a shape.
func draw(t *rapid.T) []any {
	kind := rapid.SampledFrom([]string{"s", "n", "h", "l", "t", "z"}).Draw(t, "type")
	shape := rapid.SampledFrom(shapes[kind]).Draw(t, "shape")
	var args []any
	for _, word := range strings.Fields(shape) {
		switch word {
		case "%k":
			of := rapid.SampledFrom([]string{kind, kind, kind, kind, "s", "z"}).Draw(t, "type of key")
			args = append(args, of+rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "key"))
		case "%v":
			args = append(args, rapid.SampledFrom([]string{"", "a", "b", "c", "\x00\xff\r\n", "ü", "10"}).Draw(t, "value"))
		case "%n":
			args = append(args, rapid.IntRange(-4, 4).Draw(t, "number"))
		default:
			args = append(args, word)
		}
	}
	return args
}

// TestSameAsRedis sends the same commands to redis-server and to a store and compares the replies.
func TestSameAsRedis(t *testing.T) {
	f := start(t, nil)
	ctx := t.Context()
	want, got := redisServer(t), f.client(f.create())
	rapid.Check(t, func(t *rapid.T) {
		for _, c := range []*redis.Client{want, got} {
			if err := c.FlushDB(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			args := draw(t)
			w, g := answer(want.Do(ctx, args...), args), answer(got.Do(ctx, args...), args)
			if w != g {
				t.Fatalf("%q: Redis answers %s, the store %s", args, w, g)
			}
		}
	})
}

// answer returns a reply as text.
func answer(cmd *redis.Cmd, args []any) string {
	value, err := cmd.Result()
	if err != nil {
		return "error " + err.Error()
	}
	list, ok := value.([]any)
	if ok && slices.Contains(unordered, args[0].(string)) {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return fmt.Sprintf("%T %q", value, fmt.Sprint(value))
}
