package kvcopy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/embedkv"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/kvcopy"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
)

// fixture is an embedded store, and one on a redis-server that it is copied to.
type fixture struct {
	t      testing.TB
	from   *redis.Client
	to     redis.UniversalClient
	prefix string
}

func newFixture(t testing.TB, serverURL string) *fixture {
	t.Helper()
	p := &resource.Provisioned{ID: id.New(id.KVStore), Type: resource.KV, OrgID: "org_a", Node: "local", State: resource.Active, Password: id.Secret(43)}
	embedded := &embedkv.Engine{Dir: t.TempDir(), Node: "local", Rows: enginetest.NewRows(p), Log: slog.New(slog.DiscardHandler), Now: time.Now}
	must(t, embedded.Open())
	t.Cleanup(func() { must(t, embedded.Close(context.Background())) })
	must(t, embedded.Create(t.Context(), p))
	other, err := rediskv.New(serverURL, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { must(t, other.Close()) })
	must(t, other.Create(t.Context(), p))
	f := &fixture{t: t}
	f.from, err = embedded.Client(p)
	must(t, err)
	f.to, f.prefix = other.Client(p)
	t.Cleanup(func() { _, _ = f.from.Close(), f.to.Close() })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do runs a command on the embedded store.
func (f *fixture) do(args ...any) {
	f.t.Helper()
	must(f.t, f.from.Do(f.t.Context(), args...).Err())
}

// copy copies the store, and returns the number of keys.
func (f *fixture) copy() (int64, error) {
	return (&kvcopy.Copier{From: f.from, To: f.to, Prefix: f.prefix}).Run(f.t.Context())
}

// contents returns the values of keys, in a form that is the same for the same value.
func contents(t *testing.T, client redis.UniversalClient, prefix string, keys []string) map[string]string {
	t.Helper()
	ctx := t.Context()
	all := map[string]string{}
	for _, name := range keys {
		key := prefix + name
		var value any
		var err error
		switch kind := client.Type(ctx, key).Val(); kind {
		case "string":
			value, err = client.Get(ctx, key).Result()
		case "list":
			value, err = listContents(ctx, client, key)
		case "set":
			value, err = client.SMembers(ctx, key).Result()
			slices.Sort(value.([]string))
		case "hash":
			value, err = client.HGetAll(ctx, key).Result()
		case "zset":
			value, err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "stream":
			value, err = streamContents(ctx, client, key)
		default:
			t.Fatalf("key %q is of type %s", name, kind)
		}
		must(t, err)
		expires, err := client.Do(ctx, "PEXPIRETIME", key).Int64()
		must(t, err)
		text := fmt.Sprintf("%q %d", fmt.Sprint(value), expires)
		if len(text) > 10_000 {
			text = fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256([]byte(text)))
		}
		all[name] = text
	}
	return all
}

// listContents returns a list, which it reads in parts since it may be larger than a reply.
func listContents(ctx context.Context, client redis.UniversalClient, key string) ([]string, error) {
	var all []string
	for {
		some, err := client.LRange(ctx, key, int64(len(all)), int64(len(all)+9)).Result()
		if err != nil || len(some) == 0 {
			return all, err
		}
		all = append(all, some...)
	}
}

// streamContents returns a stream with its groups and consumers.
func streamContents(ctx context.Context, client redis.UniversalClient, key string) (any, error) {
	full, err := client.XInfoStreamFull(ctx, key, 0).Result()
	if err != nil {
		return nil, err
	}
	full.RadixTreeKeys, full.RadixTreeNodes = 0, 0
	entries, err := client.Do(ctx, "XRANGE", key, "-", "+").Result()
	full.Entries = nil
	var groups []string
	for _, g := range full.Groups {
		line := fmt.Sprint(g.Name, g.LastDeliveredID, g.EntriesRead, g.PelCount)
		for _, c := range g.Consumers {
			line += fmt.Sprint(" ", c.Name, c.PelCount)
			for _, p := range c.Pending {
				line += fmt.Sprint(" ", p.ID, p.DeliveryCount)
			}
		}
		groups = append(groups, line)
	}
	return fmt.Sprint(entries, full.Length, full.LastGeneratedID, full.MaxDeletedEntryID, full.EntriesAdded, groups), err
}

// keys returns the keys of the embedded store.
func (f *fixture) keys() []string {
	f.t.Helper()
	keys, err := f.from.Keys(f.t.Context(), "*").Result()
	must(f.t, err)
	slices.Sort(keys)
	return keys
}

// same fails the test if the stores have different contents.
func (f *fixture) same(t *testing.T) {
	t.Helper()
	keys := f.keys()
	if diff := cmp.Diff(contents(t, f.from, "", keys), contents(t, f.to, f.prefix, keys)); diff != "" {
		t.Fatal(diff)
	}
}

// TestStoresOfAllTypesAreCopied has values of each type that are larger than a piece, and special ones.
func TestStoresOfAllTypesAreCopied(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) { testAllTypes(t, newFixture(t, redistest.Start(t).URL)) })
	t.Run("cluster", func(t *testing.T) {
		dbtest.Long(t)
		testAllTypes(t, newFixture(t, redistest.StartCluster(t, 0).URL))
	})
}

func testAllTypes(t *testing.T, f *fixture) {
	random := rand.NewChaCha8([32]byte{1})
	binary := make([]byte, 5<<20+7)
	_, err := random.Read(binary)
	must(t, err)
	f.do("SET", "empty", "")
	f.do("SET", "", "the empty key")
	f.do("SET", "binary\x00\xff key", binary)
	f.do("SETBIT", "bits", 1<<20, 1)
	f.do("SET", "expiring", "x", "PX", time.Hour.Milliseconds())
	f.do("SET", "expired", "x", "PX", 1)
	f.do("PFADD", "visitors", "a", "b", "c")
	f.do("GEOADD", "places", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")
	for i := range 30 {
		f.do("RPUSH", "large elements", bytes.Repeat([]byte{byte(i)}, 1<<20))
	}
	pipe := f.from.Pipeline()
	for i := range 5000 {
		pipe.RPush(t.Context(), "list", i)
		pipe.SAdd(t.Context(), "set", fmt.Sprint("member", i))
		pipe.HSet(t.Context(), "hash", fmt.Sprint("field", i), strings.Repeat("v", i%300))
		pipe.ZAdd(t.Context(), "zset", redis.Z{Score: float64(i%7) / 3, Member: fmt.Sprint(i)})
		pipe.Do(t.Context(), "XADD", "stream", fmt.Sprintf("%d-1", i+1), "f", i, "f", "twice", "g", "")
	}
	_, err = pipe.Exec(t.Context())
	must(t, err)
	f.do("SADD", "integers", 1, 2, 3)
	for i, score := range []float64{math.Inf(1), math.Inf(-1), 0.1, -1e300, 5e-324, math.MaxFloat64, 1.0 / 3} {
		must(t, f.from.ZAdd(t.Context(), "scores", redis.Z{Score: score, Member: i}).Err())
	}
	f.do("XDEL", "stream", "77-1", "5000-1")
	f.do("XGROUP", "CREATE", "stream", "workers", "0")
	f.do("XGROUP", "CREATE", "stream", "others", "10-1", "ENTRIESREAD", 10)
	f.do("XGROUP", "CREATECONSUMER", "stream", "others", "idle")
	f.do("XREADGROUP", "GROUP", "workers", "one", "COUNT", 1500, "STREAMS", "stream", ">")
	f.do("XREADGROUP", "GROUP", "workers", "two", "COUNT", 10, "STREAMS", "stream", ">")
	f.do("XCLAIM", "stream", "workers", "two", 0, "3-1")
	f.do("XADD", "no entries", "5-5", "a", "b")
	f.do("XDEL", "no entries", "5-5")
	f.do("XGROUP", "CREATE", "never had entries", "g", "$", "MKSTREAM")
	f.do("EXPIRE", "stream", 1000)
	n, err := f.copy()
	must(t, err)
	if want := int64(len(f.keys())); n != want {
		t.Errorf("copied %d keys of %d", n, want)
	}
	f.same(t)
	if n, err := f.to.PFCount(t.Context(), f.prefix+"visitors").Result(); n != 3 || err != nil {
		t.Errorf("%d visitors: %v", n, err)
	}
	must(t, f.to.PFAdd(t.Context(), f.prefix+"visitors", "d").Err())
	distance, err := f.to.GeoDist(t.Context(), f.prefix+"places", "Palermo", "Catania", "km").Result()
	if err != nil || math.Abs(distance-166.27) > 0.1 {
		t.Errorf("distance %f: %v", distance, err)
	}
}

// TestManyKeysAreCopied has more keys than fit into a batch, some with long names.
func TestManyKeysAreCopied(t *testing.T) {
	t.Parallel()
	f := newFixture(t, redistest.Start(t).URL)
	pipe := f.from.Pipeline()
	for i := range 5000 {
		pipe.Set(t.Context(), fmt.Sprint("key", i), i, 0)
		if i%1000 == 0 {
			pipe.Set(t.Context(), strings.Repeat("long", 10_000)+fmt.Sprint(i), i, 0)
			_, err := pipe.Exec(t.Context())
			must(t, err)
		}
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	if n, err := f.copy(); n != 5005 || err != nil {
		t.Fatalf("copied %d keys: %v", n, err)
	}
	f.same(t)
}

// TestWhatCannotBeCopiedIsTold has what users of a shared server may not have.
func TestWhatCannotBeCopiedIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, test := range []struct {
		name, want string
		prepare    func(f *fixture)
	}{
		{"functions", "it has functions", func(f *fixture) {
			f.do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
		}},
		{"events", "notify-keyspace-events is AKE", func(f *fixture) { f.do("CONFIG", "SET", "notify-keyspace-events", "KEA") }},
		{"eviction", "maxmemory-policy is allkeys-lru", func(f *fixture) { f.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru") }},
		{"deleted entries", "pending entries that were deleted", func(f *fixture) {
			f.do("XADD", "s", "1-1", "a", "b")
			f.do("XGROUP", "CREATE", "s", "g", "0")
			f.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
			f.do("XDEL", "s", "1-1")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, server.URL)
			test.prepare(f)
			if _, err := f.copy(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestServerWithoutMemoryRefuses copies more than a server takes.
func TestServerWithoutMemoryRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, redistest.Start(t, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction").URL)
	for i := range 8 {
		f.do("SET", fmt.Sprint("k", i), strings.Repeat("x", 1<<20))
	}
	if _, err := f.copy(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("got %v", err)
	}
}

// TestKeysThatTheServerEvictsAreNoticed copies to a server that deletes keys to make room.
func TestKeysThatTheServerEvictsAreNoticed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random").URL)
	for i := range 64 {
		f.do("SET", fmt.Sprint("k", i), strings.Repeat("x", 128<<10))
	}
	if n, err := f.copy(); err == nil {
		t.Errorf("copied %d keys", n)
	}
}

// templates are commands of the model: k is a key of the type, v a value, n a number.
var templates = map[string][]string{
	"string": {"SET k v", "APPEND k v", "SETRANGE k n v", "INCRBYFLOAT number n", "PFADD visitors v"},
	"list":   {"RPUSH k v v v", "LPUSH k v", "LREM k 1 v", "LTRIM k 0 n"},
	"set":    {"SADD k v v v", "SADD k n n", "SREM k v"},
	"hash":   {"HSET k v v v v", "HDEL k v", "HINCRBY counters v n"},
	"zset":   {"ZADD k n v n v", "ZINCRBY k 0.1 v", "ZREM k v"},
	"stream": {
		"XADD k * v v", "XADD k * v v v v", "XADD k MAXLEN 3 * v v", "XGROUP CREATE k v 0", "XGROUP CREATE k v $ MKSTREAM",
		"XREADGROUP GROUP v v COUNT n STREAMS k >", "XACK k v 1-1", "XAUTOCLAIM k v v 0 0 COUNT n", "XTRIM k MAXLEN n",
	},
}

// TestRandomStoresAreCopied copies stores that random commands have made. Those with pending entries that were
// deleted are refused.
func TestRandomStoresAreCopied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	refused, copied := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t, server.URL)
		kinds := []string{"string", "list", "set", "hash", "zset", "stream"}
		for range rapid.IntRange(0, 60).Draw(r, "commands") {
			kind := rapid.SampledFrom(kinds).Draw(r, "type")
			words := strings.Fields(rapid.SampledFrom(templates[kind]).Draw(r, "template"))
			args := make([]any, len(words))
			for i, word := range words {
				switch word {
				case "k":
					args[i] = kind + rapid.SampledFrom([]string{"", ":a", "\x00\xfe"}).Draw(r, "key")
				case "v":
					args[i] = rapid.SampledFrom([]string{"", "a", "b", "\xff\x00", strings.Repeat("c", 100)}).Draw(r, "value")
				case "n":
					args[i] = rapid.IntRange(1, 9).Draw(r, "number")
				default:
					args[i] = word
				}
			}
			_ = f.from.Do(t.Context(), args...).Err() // such as that there is no group
		}
		if rapid.Bool().Draw(r, "expire") {
			_ = f.from.Expire(t.Context(), rapid.SampledFrom(kinds).Draw(r, "expiring"), time.Hour).Err()
		}
		if _, err := f.copy(); err != nil {
			if !strings.Contains(err.Error(), "pending entries that were deleted") {
				r.Fatal(err)
			}
			refused++
			return
		}
		copied++
		f.same(t)
	})
	t.Logf("copied %d stores, refused %d", copied, refused)
}
