//go:build bench

package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"steward/e2e/process"
	"steward/internal/redis"
)

// kvElements is how many keys, fields or members are in memory.
const kvElements = 1_000_000

// TestKVMemory compares the memory that small keys, fields and members take with redis-server's.
func TestKVMemory(t *testing.T) {
	for _, c := range []struct {
		what    string
		command func(n int) []any
	}{
		{"strings", func(n int) []any { return []any{"SET", fmt.Sprintf("key:%012d", n), "value"} }},
		{"hashes of 10 fields", func(n int) []any {
			return []any{"HSET", fmt.Sprintf("hash:%d", n/10), fmt.Sprintf("field:%d", n%10), "value"}
		}},
		{"fields of one hash", func(n int) []any { return []any{"HSET", "hash", fmt.Sprintf("field:%012d", n), "value"} }},
		{"members of one sorted set", func(n int) []any { return []any{"ZADD", "zset", n, fmt.Sprintf("member:%012d", n)} }},
	} {
		reference, _ := startRedis(t, "--appendonly", "no").grow(t, c.command)
		got, resident := newKVStore(t).grow(t, c.command)
		report("kv: memory of "+c.what, got/reference, atMost(1.5), "%.0f bytes of %.0f for each, with garbage %.0f", got, reference, resident)
	}
}

// grow runs commands with the numbers of elements, and returns by how many bytes the live and the resident memory have
// grown for each.
func (s kvServer) grow(t *testing.T, command func(n int) []any) (live, resident float64) {
	t.Helper()
	c := s.client(t)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	liveBefore, before := s.live(t), s.rss(t)
	fillKV(t, c, kvElements, command)
	resident = float64(s.rss(t)-before) / kvElements
	return float64(s.live(t)-liveBefore) / kvElements, resident
}

// fillKV runs a command with the numbers up to n.
func fillKV(t *testing.T, c *goredis.Client, n int, command func(n int) []any) {
	t.Helper()
	const batch = 1000
	for from := 0; from < n; from += batch {
		p := c.Pipeline()
		for i := range batch {
			p.Do(t.Context(), command(from+i)...)
		}
		if _, err := p.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKVFlush compares the time of FLUSHALL of 100,000 keys with redis-server.
func TestKVFlush(t *testing.T) {
	reference := startRedis(t)
	store := newKVStore(t)
	ratio, ref, got := compare(5,
		func() result { return reference.flush(t) },
		func() result { return store.flush(t) })
	report("kv: FLUSHALL of 100,000 keys, time", 1/ratio, atMost(2), "%s of %s", ms(got.times[0]), ms(ref.times[0]))
}

// flush measures FLUSHALL.
func (s kvServer) flush(t *testing.T) result {
	t.Helper()
	c := s.client(t)
	fillKV(t, c, 100_000, func(n int) []any { return []any{"SET", fmt.Sprintf("key:%012d", n), "value"} })
	began := time.Now()
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	return result{rate: 1 / took.Seconds(), times: []time.Duration{took}}
}

// kvOpened are the keys of a store that is opened, which have values of 1,000 bytes.
const kvOpened = 1_000_000

// opening is what opening a store took.
type opening struct {
	cpu, took time.Duration
	peak      int // memory in bytes
}

// TestKVOpen compares opening a store with a log of 1 GB with starting redis-server on the same commands.
func TestKVOpen(t *testing.T) {
	text := strings.Repeat("x", 1000)
	ref := openRedis(t, text)
	got := openKVStore(t, text)
	report("kv: open a store of 1 GB, CPU time", got.cpu.Seconds()/ref.cpu.Seconds(), atMost(2),
		"%.1f s of %.1f s CPU, %.1f s of %.1f s, peak memory %d MB of %d MB",
		got.cpu.Seconds(), ref.cpu.Seconds(), got.took.Seconds(), ref.took.Seconds(), got.peak/1e6, ref.peak/1e6)
}

// openRedis fills redis-server and starts it again.
func openRedis(t *testing.T, text string) opening {
	t.Helper()
	dir := t.TempDir()
	c := startRedis(t, "--dir", dir, "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0").client(t)
	fillKV(t, c, kvOpened, func(n int) []any { return []any{"SET", fmt.Sprintf("key:%d", n), text} })
	_ = c.ShutdownNoSave(t.Context()).Err() // it does not answer
	began := time.Now()
	s := startRedis(t, "--dir", dir)
	return opening{process.CPUTime(t, s.pid), time.Since(began), process.Memory(t, s.pid, "VmHWM")}
}

// openKVStore fills an embedded store while Steward is stopped, and opens it.
func openKVStore(t *testing.T, text string) opening {
	t.Helper()
	in := install(t, "sqlite")
	in.kvStore()
	in.restart(func() {
		stores, err := filepath.Glob(filepath.Join(in.Dir, "stores", "*"))
		in.Must(err)
		in.Must(redis.Import(redis.Dir(stores[0]), func(add func(args ...string) error) error {
			for n := range kvOpened {
				if err := add("set", fmt.Sprintf("key:%d", n), text); err != nil {
					return err
				}
			}
			return nil
		}))
	})
	var list struct{ KV []struct{ URL string } }
	in.call("GET", "/resource/"+in.orgID+"/local", nil, &list)
	c := in.kvServer(list.KV[0].URL).client(t)
	before, began := in.CPUTime(), time.Now()
	in.Must(c.Ping(t.Context()).Err())
	return opening{in.CPUTime() - before, time.Since(began), in.PeakRSS()}
}
