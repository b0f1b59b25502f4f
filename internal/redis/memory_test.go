package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// memoryOf is a Memory with a size.
type memoryOf struct{ size, used int64 }

func (m *memoryOf) Take(n int64) bool {
	if m.used+n > m.size {
		return false
	}
	m.used += n
	return true
}

func (m *memoryOf) Return(n int64) { m.used -= n }

// newRunnerWith returns a runner whose store has options.
func newRunnerWith(t testing.TB, change func(o *Options)) *runner {
	t.Helper()
	r := newRunner(t)
	change(&r.store.options)
	return r
}

// reopen closes the store of a runner and opens it again.
func (r *runner) reopen() error {
	r.t.Helper()
	old := r.store
	old.end()
	if old.failed != nil {
		r.t.Fatal(old.failed)
	}
	o := old.options
	r.store = newStore(old.fs, o)
	return r.store.load()
}

// fill sets keys with a prefix to values of a KiB.
func (r *runner) fill(c *Client, prefix string, n int) {
	r.t.Helper()
	for i := range n {
		r.expect(c, fmt.Sprintf("SET %s%d %s", prefix, i, strings.Repeat("v", 1<<10)), simple("OK"))
	}
}

func TestKeysAreCharged(t *testing.T) {
	charge := &memoryOf{size: 1 << 20}
	r := newRunnerWith(t, func(o *Options) { o.Charge = charge })
	c := r.client(1)
	r.expect(c, "SET a 1", simple("OK"))
	if charge.used != memoryStep {
		t.Errorf("%d bytes are charged for a small store", charge.used)
	}
	value := strings.Repeat("v", 100<<10)
	refused := 0
	for i := range 20 {
		if r.run(c, fmt.Sprintf("SET k%d %s", i, value)) == failure(errNoMemory) {
			refused++
		}
	}
	if used := r.store.keys.memory; refused < 9 || used > charge.size+200<<10 || charge.used != r.store.charged {
		t.Errorf("%d of 20 refused, %d bytes in memory, %d charged of %d", refused, used, charge.used, charge.size)
	}
	if n := r.store.options.Counters.Refused.Load(); n != int64(refused) {
		t.Errorf("%d counted of %d", n, refused)
	}
	r.expect(c, "GET a", "1")
	r.expect(c, "FLUSHALL", simple("OK"))
	if charge.used > memoryStep+memorySlack+2*maxKept {
		t.Errorf("%d bytes are charged for an empty store", charge.used)
	}
	r.expect(c, "SET k "+value, simple("OK"))
	charge.size = 2 << 20 // for all that the log has
	if err := r.reopen(); err != nil || charge.used != r.store.charged || charge.used < 100<<10 {
		t.Errorf("opened again: %v, %d bytes are charged, %d by the store", err, charge.used, r.store.charged)
	}
	r.store.end()
	if charge.used != 0 {
		t.Errorf("%d bytes are charged for a closed store", charge.used)
	}
}

func TestStoreWithoutMemoryIsNotOpened(t *testing.T) {
	dir := Dir(t.TempDir())
	write := func(add func(...string) error) error {
		for i := range 100 {
			if err := add("set", fmt.Sprint(i), strings.Repeat("v", 10<<10)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := Import(dir, write); err != nil {
		t.Fatal(err)
	}
	charge := &memoryOf{size: 512 << 10}
	if _, err := Open(t.Context(), dir, Options{Charge: charge}); !errors.Is(err, ErrNoMemory) || charge.used != 0 {
		t.Errorf("%v, %d bytes are charged", err, charge.used)
	}
	asked := 0
	reclaim := func(n int64, opening bool) bool {
		asked++
		charge.size += n
		return opening
	}
	s := open(t, dir, Options{Charge: charge, Reclaim: reclaim})
	if asked == 0 || charge.used < 1<<20 {
		t.Errorf("asked for memory %d times, %d bytes are charged", asked, charge.used)
	}
	if err := s.Close(); err != nil || charge.used != 0 {
		t.Errorf("%v, %d bytes are charged", err, charge.used)
	}

	// A store with more than its limit is charged for that.
	s = open(t, dir, Options{Charge: &memoryOf{size: 300 << 10}, Memory: 300 << 10})
	if s.charged != 300<<10 {
		t.Errorf("%d bytes are charged", s.charged)
	}
}

// TestShortRequestsDoNotTakeMuchMemory sends requests that would make a store much larger than its limit.
func TestShortRequestsDoNotTakeMuchMemory(t *testing.T) {
	r := newRunnerWith(t, func(o *Options) { o.Memory = 8 << 20 })
	c := r.client(1)
	for _, request := range []string{"SETRANGE a 500000000 x", "SETBIT a 4000000000 1", "BITFIELD a SET u8 4000000000 1"} {
		r.expect(c, request, failure(errOOM))
	}
	r.expect(c, "EXISTS a", int64(0))
	r.expect(c, "SETRANGE a 3000000 x", int64(3000001))
	r.expect(c, "COPY a b", int64(1))
	r.expect(c, "COPY a c", failure(errOOM))

	r.expect(c, "MULTI", simple("OK"))
	for i := range 100 {
		r.expect(c, fmt.Sprintf("SUNIONSTORE s%d s", i), simple("QUEUED"))
		r.expect(c, fmt.Sprintf("BITOP OR d%d a b", i), simple("QUEUED"))
	}
	replies := r.run(c, "EXEC").([]any)
	if used := r.store.keys.memory; len(replies) != 200 || replies[199] != failure(errOOM) || used > 24<<20 {
		t.Errorf("%d replies, the last is %v; %d bytes in memory", len(replies), replies[len(replies)-1], used)
	}
}

func TestAllKeysLRUDeletesUnusedKeys(t *testing.T) {
	r := newRunnerWith(t, func(o *Options) { o.Memory = 1 << 20 })
	c, watcher := r.client(1), r.client(2)
	r.expect(c, "CONFIG SET maxmemory-policy allkeys-lru", simple("OK"))
	r.fill(c, "cold", 600)
	r.expect(watcher, "WATCH cold0 cold1 cold2 cold3 cold4 cold5 cold6 cold7 cold8 cold9", simple("OK"))
	r.pass(1)
	r.now = r.now.Add(1e9)
	r.fill(c, "hot", 200)
	for range 20 {
		r.now = r.now.Add(1e9)
		for i := range 200 {
			r.run(c, fmt.Sprintf("GET hot%d", i))
		}
		r.fill(c, fmt.Sprint("new", r.now.Unix()), 20)
	}
	hot := int64(0)
	for i := range 200 {
		hot += r.run(c, fmt.Sprintf("EXISTS hot%d", i)).(int64)
	}
	if hot < 180 || r.store.keys.memory > 1<<20+4<<10 || r.store.stats.evicted < 200 {
		t.Errorf("%d of 200 used keys are left; %d bytes, %d evicted", hot, r.store.keys.memory, r.store.stats.evicted)
	}
	info := r.run(c, "INFO").(string)
	if !strings.Contains(info, fmt.Sprintf("evicted_keys:%d\r\n", r.store.stats.evicted)) ||
		!strings.Contains(info, "maxmemory_policy:allkeys-lru\r\n") {
		t.Error(info)
	}
	r.expect(watcher, "MULTI", simple("OK"))
	r.expect(watcher, "PING", simple("QUEUED"))
	r.expect(watcher, "EXEC", nil)
	keys := r.store.keys.entries.Len()
	if err := r.reopen(); err != nil || r.store.keys.entries.Len() != keys {
		t.Errorf("opened again: %v, %d keys of %d", err, r.store.keys.entries.Len(), keys)
	}
}

func TestVolatileTTLDeletesWhatExpiresFirst(t *testing.T) {
	r := newRunnerWith(t, func(o *Options) { o.Memory = 64 << 10; o.Policy = VolatileTTL })
	c := r.client(1)
	value := strings.Repeat("v", 8<<10)
	for i := range 4 {
		r.expect(c, fmt.Sprintf("SET late%d %s EX %d", i, value, 2000+i), simple("OK"))
		r.expect(c, fmt.Sprintf("SET early%d %s EX %d", i, value, 1000+i), simple("OK"))
	}
	r.expect(c, "SET kept0 "+value, simple("OK"))
	r.expect(c, "SET kept1 "+value, simple("OK"))
	r.expect(c, "EXISTS early0 early1", int64(0))
	r.expect(c, "EXISTS early2 early3", int64(2))
	r.expect(c, "EXISTS late0 late1 late2 late3", int64(4))
	refused := 0
	for i := range 10 {
		if r.run(c, fmt.Sprintf("SET more%d %s", i, value)) == failure(errOOM) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused when nothing was left that expires")
	}
	r.expect(c, "EXISTS kept0 kept1", int64(2))
	if err := r.reopen(); err != nil {
		t.Fatal(err)
	}
	c = r.client(2)
	r.expect(c, "EXISTS late0 late1 late2 late3 early0 early1 early2 early3", int64(0))
}

func TestSettingsOfAStoreAreKept(t *testing.T) {
	r := newRunner(t)
	r.store.options.Memory = 64 << 20
	c := r.client(1)
	r.expect(c, "CONFIG SET maxmemory-policy ALLKEYS-LRU maxmemory 1mb", simple("OK"))
	r.expect(c, "CONFIG GET maxmemory*", []any{"maxmemory", "1048576", "maxmemory-policy", "allkeys-lru"})
	for request, why := range map[string]string{
		"maxmemory 65mb":            "maxmemory') - argument must be at most 67108864",
		"maxmemory -1":              "maxmemory') - argument must be a memory value",
		"maxmemory 1tb":             "maxmemory') - argument must be a memory value",
		"maxmemory-policy other":    "maxmemory-policy') - argument(s) must be one of the following: volatile-ttl, allkeys-lru, noeviction",
		"maxmemory 0 appendonly no": "appendonly') - it is a setting of the server",
	} {
		r.expect(c, "CONFIG SET "+request, failure("ERR CONFIG SET failed (possibly related to argument '"+why))
	}
	check := func(when string) {
		t.Helper()
		if err := r.reopen(); err != nil {
			t.Fatal(err)
		}
		if got := r.store.limits.keptSettings; got != (keptSettings{maxMemory: 1 << 20, maxMemoryPolicy: AllKeysLRU}) {
			t.Errorf("%s: %+v", when, got)
		}
	}
	check("opened again")
	c = r.client(2)
	r.store.minRewrite = 0
	r.expect(c, "SET k v", simple("OK"))
	for r.store.log.rewrite != nil {
		r.pass(0)
	}
	check("rewritten")

	r.store.options.Memory = 1 << 10 // the server allows less now
	check("with a lower limit")
	c = r.client(3)
	r.expect(c, "CONFIG GET maxmemory", []any{"maxmemory", "1024"})
	r.expect(c, "CONFIG SET maxmemory 0 maxmemory-policy noeviction", simple("OK"))
	r.store.options.Memory = 64 << 20
	r.expect(c, "CONFIG GET maxmemory*", []any{"maxmemory", "67108864", "maxmemory-policy", "noeviction"})
}
