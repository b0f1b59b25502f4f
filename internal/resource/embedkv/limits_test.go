package embedkv

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/budget"
	"steward/internal/disk"
	"steward/internal/resource"
	"steward/internal/waittest"
)

const mib = 1 << 20

// smallKeyMemory gives all stores 32 MiB, of which an organization has 12 MiB and a store 6 MiB.
func smallKeyMemory(e *Engine) { e.KeyMemory = budget.NewPool(32*mib, KeyGrant) }

// fill sets keys to values of 256 KiB until that fails or there are n, and returns how many there are.
func fill(t *testing.T, c *redis.Client, n int) int {
	t.Helper()
	value := strings.Repeat("v", 256<<10)
	for i := range n {
		if err := c.Set(t.Context(), fmt.Sprint(i), value, 0).Err(); err != nil {
			if !strings.HasPrefix(err.Error(), "OOM ") {
				t.Error(err)
			}
			return i
		}
	}
	return n
}

// TestKeyMemoryIsShared has stores of an organization be filled while all of them are in use. Another organization
// gets its share, and so does another store of the same when the others are not used any more.
func TestKeyMemoryIsShared(t *testing.T) {
	f := start(t, func(e *Engine) {
		smallKeyMemory(e)
		e.Limits.Reclaim = time.Nanosecond
	})
	var pins []*raw
	for i := range 3 {
		p := f.createOf("org_a")
		pin := f.login(p) // a store with a watched key is in use
		equal(t, "WATCH", pin.ask("WATCH k\r\n"), "+OK")
		pins = append(pins, pin)
		n := fill(t, f.client(p), 100)
		if most := 6 * 4; n > most || i < 2 && n < most-2 {
			t.Errorf("store %d has %d values", i, n)
		}
	}
	if u := f.KeyMemory.Usage(); u.Common+u.Reserve > 18*mib || u.Owners != 1 {
		t.Errorf("%+v", u)
	}
	if n := fill(t, f.client(f.createOf("org_b")), 100); n < 20 {
		t.Errorf("another organization has %d values", n)
	}
	for _, pin := range pins {
		equal(t, "UNWATCH", pin.ask("UNWATCH\r\n"), "+OK")
	}
	if n := fill(t, f.client(f.createOf("org_a")), 100); n < 20 {
		t.Errorf("a store has %d values when others are not used", n)
	}
	must(t, f.pool.close(t.Context()))
	if u := f.KeyMemory.Usage(); u.Common+u.Reserve != 0 {
		t.Errorf("after closing: %+v", u)
	}
}

// TestOpeningWaitsForMemory has a client whose store cannot be opened before another one can be closed.
func TestOpeningWaitsForMemory(t *testing.T) {
	f := start(t, func(e *Engine) {
		smallKeyMemory(e)
		e.Limits.Reclaim = time.Nanosecond
	})
	large := f.create()
	equal(t, "values", fill(t, f.client(large), 20), 20)
	var pins []*raw
	for range 2 {
		p := f.create()
		pin := f.login(p)
		equal(t, "WATCH", pin.ask("WATCH k\r\n"), "+OK")
		fill(t, f.client(p), 100)
		pins = append(pins, pin)
	}
	c := f.login(large)
	_, err := fmt.Fprint(c, "EXISTS 19\r\n")
	must(t, err)
	waittest.True(t, "the store to wait", func() bool { return f.KeyMemory.Usage().Refused > 10 })
	other := f.createOf("org_b")
	must(t, f.client(other).Set(t.Context(), "k", "v", 0).Err())
	equal(t, "UNWATCH", pins[0].ask("UNWATCH\r\n"), "+OK")
	equal(t, "the store that waited", c.line(), ":1")
}

// TestStoreWithoutMemory has a store that cannot be opened. It can be deleted.
func TestStoreWithoutMemory(t *testing.T) {
	var log buffer
	f := start(t, func(e *Engine) {
		smallKeyMemory(e)
		e.Limits.Wait = time.Second
		e.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	large := f.create()
	equal(t, "values", fill(t, f.client(large), 20), 20)
	must(t, f.pool.drop(t.Context(), large.ID, func() error { return nil })) // it is closed
	for range 2 {
		fill(t, f.client(f.create()), 100)
	}
	c := f.client(large)
	if err := c.Get(t.Context(), "0").Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM the store cannot be opened") {
		t.Errorf("GET: %v", err)
	}
	if line := log.String(); !strings.Contains(line, "organization=org_a store="+large.ID) {
		t.Errorf("the log does not tell which store: %s", line)
	}
	must(t, f.Delete(t.Context(), large))
	if _, err := os.Stat(f.dir(large.ID)); !os.IsNotExist(err) {
		t.Errorf("files: %v", err)
	}
}

// TestPolicyIsASettingOfTheStore sets it, and reads it when the store was closed and opened again.
func TestPolicyIsASettingOfTheStore(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Memory: 2 * mib, Unused: time.Millisecond} })
	p := f.create()
	c := f.client(p)
	ctx := t.Context()
	must(t, c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	if err := c.ConfigSet(ctx, "maxmemory", "3mb").Err(); err == nil {
		t.Error("more memory than the installation allows")
	}
	waittest.True(t, "the store to be closed", func() bool { return len(f.pool.ready()) == 0 })
	equal(t, "policy", c.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"], "allkeys-lru")
	equal(t, "limit", c.ConfigGet(ctx, "maxmemory").Val()["maxmemory"], "2097152")
	equal(t, "values", fill(t, c, 100), 100)
	if n := c.DBSize(ctx).Val(); n < 6 || n > 9 {
		t.Errorf("%d values are left", n)
	}
	equal(t, "another store", f.client(f.create()).ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"], "noeviction")
}

func TestUseOfStoresIsCounted(t *testing.T) {
	var full atomic.Bool
	f := start(t, func(e *Engine) {
		e.Disk = &disk.Space{Dir: e.Dir, Reserve: 1 << 61, Reusable: func() (int64, error) {
			if full.Load() {
				return 0, nil
			}
			return 1 << 61, nil
		}}
	})
	p := f.create()
	c := f.login(p)
	for range 10 {
		equal(t, "SET", c.ask("SET key "+strings.Repeat("v", 1000)+"\r\n"), "+OK")
	}
	use := func() resource.Use {
		all := f.Usage()
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	waittest.True(t, "commands to be counted", func() bool { return use().Operations == 10 })
	u := use()
	if u.Org != "org_a" || u.ID != p.ID || u.In < 10_000 || u.Out < 50 || u.Connections != 1 || u.Memory < 1000 || u.Disk < 10_000 || u.Refused != 0 {
		t.Errorf("%+v", u)
	}
	full.Store(true)
	waittest.True(t, "the disk to be full", func() bool { return f.Disk.Room() != nil })
	equal(t, "SET on a full disk", c.ask("SET key v\r\n"), "-"+errDiskFull.Error())
	equal(t, "DEL on a full disk", c.ask("DEL key\r\n"), ":1")
	equal(t, "refused", use().Refused, 1)
	must(t, c.Close())
	waittest.True(t, "the connection to be gone", func() bool { return use().Connections == 0 })
	must(t, f.Delete(t.Context(), p))
	equal(t, "counters of deleted stores", len(f.Usage()), 0)
}

// TestStoreThatCannotBeOpenedIsNamed checks that the log tells which store of which organization has a problem.
func TestStoreThatCannotBeOpenedIsNamed(t *testing.T) {
	var log buffer
	f := start(t, func(e *Engine) { e.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	p := f.createOf("org_b")
	must(t, os.WriteFile(filepath.Join(f.dir(p.ID), "store.log"), []byte("no log"), 0o600))
	equal(t, "GET", f.login(p).ask("GET k\r\n"), "-"+errOpen.Error())
	if line := log.String(); !strings.Contains(line, "organization=org_b store="+p.ID) {
		t.Error(line)
	}
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
