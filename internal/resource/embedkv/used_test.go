package embedkv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/budget"
	store "steward/internal/redis"
	"steward/internal/resource"
	"steward/internal/waittest"
)

// again closes the engine of a fixture and starts another one with its files and rows.
func (f *fixture) again(change func(*Engine)) *fixture {
	f.t.Helper()
	must(f.t, f.Close(context.Background()))
	return start(f.t, func(e *Engine) {
		e.Dir = f.Dir
		e.Rows = f.Rows
		if change != nil {
			change(e)
		}
	})
}

// waitOpen waits until these stores are open.
func (f *fixture) waitOpen(want ...*resource.Provisioned) {
	f.t.Helper()
	waittest.True(f.t, "the stores to be open", func() bool {
		return !slices.ContainsFunc(want, func(p *resource.Provisioned) bool { return f.opened(p) == nil })
	})
}

func TestStoresInUseAreOpenedAtTheStart(t *testing.T) {
	f := start(t, nil)
	unused, left, deleted, used, other := f.create(), f.create(), f.create(), f.create(), f.createOf("org_b")
	for _, p := range []*resource.Provisioned{left, deleted, used, other} {
		must(t, f.client(p).Set(t.Context(), "k", p.ID, 0).Err())
		if p == left {
			f.closeUnused()
		}
	}
	f.drop(deleted)
	f = f.again(nil)
	f.waitOpen(used, other)
	for what, p := range map[string]*resource.Provisioned{"never used": unused, "not used for a while": left} {
		if f.opened(p) != nil {
			t.Errorf("a store that was %s is open", what)
		}
		must(t, f.Delete(t.Context(), p))
	}
	for _, p := range []*resource.Provisioned{used, other} {
		equal(t, "GET", f.client(p).Get(t.Context(), "k").Val(), p.ID)
	}
	f.again(nil).waitOpen(used, other)
}

// TestStoresOpenedAtTheStartLeaveHalfOfTheMemory has more stores in use than half of the memory has room for.
// Organizations take turns.
func TestStoresOpenedAtTheStartLeaveHalfOfTheMemory(t *testing.T) {
	f := start(t, nil)
	var greedy []*resource.Provisioned
	for range 6 {
		greedy = append(greedy, f.create())
	}
	other := f.createOf("org_b")
	for _, p := range append([]*resource.Provisioned{other}, greedy...) {
		must(t, f.client(p).Set(t.Context(), "k", strings.Repeat("x", 3<<20), 0).Err())
	}
	f = f.again(func(e *Engine) {
		e.KeyMemory = budget.NewPool(32<<20, 1<<20)
		e.Limits.Memory = 6 << 20
	})
	f.waitOpen(other, greedy[5])
	if u := f.KeyMemory.Usage(); u.Common+u.Reserve > u.Total/2 {
		t.Errorf("stores were opened in %d of %d bytes", u.Common+u.Reserve, u.Total)
	}
}

// hold has stores opened when the returned function is called.
func (f *fixture) hold() (release func()) {
	held := make(chan struct{})
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	open := f.pool.open
	f.pool.open = func(ctx context.Context, p *resource.Provisioned) (*store.Store, error) {
		select {
		case <-held:
		case <-ctx.Done():
		}
		return open(ctx, p)
	}
	return func() { close(held) }
}

func TestClientsReadLoadingWhileAStoreIsOpened(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits.Loading = time.Millisecond })
	p := f.create()
	release := f.hold()
	c := f.login(p)
	equal(t, "GET", c.ask("GET k\r\n"), "-LOADING Redis is loading the dataset in memory")
	if info := c.bulk(c.ask("INFO\r\n")); !strings.Contains(info, "\r\nloading:1\r\n") {
		t.Errorf("INFO: %q", info)
	}
	_, err := f.Keys(t.Context(), p, resource.KeyQuery{Limit: 1})
	if err == nil || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("keys of a store that is being opened: %v", err)
	}
	options, err := redis.ParseURL(f.Connection(p).URL)
	must(t, err)
	options.MaxRetries = 1000
	retrying := redis.NewClient(options)
	defer func() { _ = retrying.Close() }()
	done := make(chan error, 1)
	go func() { done <- retrying.Set(t.Context(), "k", "v", 0).Err() }()
	before := f.stats(p)
	waittest.True(t, "go-redis to try again", func() bool { return f.stats(p) > before+3 })
	release()
	must(t, <-done)
	waittest.True(t, "the store to be open", func() bool { return c.ask("PING\r\n") == "+PONG" })
}

// stats returns how many bytes the clients of a store have sent.
func (f *fixture) stats(p *resource.Provisioned) int64 { return f.usage.Of(p.OrgID, p.ID).in.Load() }

// TestStoresThatAreBeingOpenedCanBeDeleted deletes a store that is being opened, and closes the engine while
// another one is.
func TestStoresThatAreBeingOpenedCanBeDeleted(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits.Loading = time.Millisecond })
	p, other := f.create(), f.createOf("org_b")
	f.hold()
	for _, p := range []*resource.Provisioned{p, other} {
		equal(t, "GET", f.login(p).ask("GET k\r\n"), fmt.Sprint("-", store.ErrLoading))
	}
	f.drop(p)
	must(t, f.Delete(t.Context(), p))
	exists, err := store.Exists(store.Dir(f.dir(p.ID)))
	must(t, err)
	equal(t, "the deleted store exists", exists, false)
	must(t, f.Close(t.Context()))
}

// TestMoreStoresThanMayBeOpen has four clients use 210 stores in turn, so that one after the other is closed while
// requests come.
func TestMoreStoresThanMayBeOpen(t *testing.T) {
	f := start(t, nil)
	stores := make([]*redis.Client, 210)
	for i := range stores {
		stores[i] = f.client(f.createOf(fmt.Sprint("org_", i%3)))
	}
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for n := range 630 {
				if err := stores[(n+client*50)%len(stores)].Incr(t.Context(), "n").Err(); err != nil {
					t.Errorf("command %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range stores {
		equal(t, "n", c.Get(t.Context(), "n").Val(), "12")
	}
}
