package embedkv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/waittest"
)

var _ resource.Stores = (*Engine)(nil)

func TestDeletedStoreIsRefusedAtOnce(t *testing.T) {
	f := start(t, nil)
	p, other := f.create(), f.create()
	c, stays := f.login(p), f.login(other)
	equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	f.drop(p)
	must(t, f.Delete(t.Context(), p))
	c.closed("deletion")
	equal(t, "AUTH", f.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n")[:10], "-WRONGPASS")
	if _, err := os.Stat(f.dir(p.ID)); !os.IsNotExist(err) {
		t.Errorf("files: %v", err)
	}
	must(t, f.Delete(t.Context(), p)) // may be repeated
	equal(t, "other store", stays.ask("SET k v\r\n"), "+OK")
}

func TestOldPasswordIsRefusedAtOnce(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.login(p)
	rotated := *p
	rotated.Password = id.Secret(43)
	f.put(&rotated)
	must(t, f.Rotate(t.Context(), &rotated))
	c.closed("rotation")
	equal(t, "old password", f.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n")[:10], "-WRONGPASS")
	stays := f.login(&rotated)
	must(t, f.Rotate(t.Context(), &rotated))
	equal(t, "new password", stays.ask("PING\r\n"), "+PONG")
}

// TestForget changes rows as another replica does.
func TestForget(t *testing.T) {
	f := start(t, nil)
	deleted, rotated, kept := f.create(), f.create(), f.create()
	gone, old, stays := f.login(deleted), f.login(rotated), f.login(kept)
	f.drop(deleted)
	changed := *rotated
	changed.Password = id.Secret(43)
	f.put(&changed)
	f.Forget()
	gone.closed("deletion")
	old.closed("rotation")
	equal(t, "other store", stays.ask("PING\r\n"), "+PONG")
}

func TestStoreOfAnotherNode(t *testing.T) {
	f := start(t, nil)
	p := &resource.Provisioned{ID: id.New(id.KVStore), Node: "node_b", Password: id.Secret(43)}
	f.put(p)
	if got := f.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n"); !strings.Contains(got, "on another node") {
		t.Errorf("AUTH: %s", got)
	}
	equal(t, "Create", errs.KindOf(f.Create(t.Context(), p)), errs.Unavailable)
	_, err := f.Keys(t.Context(), p, resource.KeyQuery{Limit: 10})
	equal(t, "Keys", errs.KindOf(err), errs.Unavailable)
	must(t, f.Delete(t.Context(), p))
	must(t, f.Rotate(t.Context(), p))
}

func TestRestartKeepsStores(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	must(t, f.client(p).Set(t.Context(), "k", "v", 0).Err())
	must(t, f.Engine.Close(context.Background()))
	again := start(t, func(e *Engine) { e.Dir = f.Dir })
	again.put(p)
	must(t, again.Create(t.Context(), p)) // a repeated Create keeps what there is
	equal(t, "GET", again.client(p).Get(t.Context(), "k").Val(), "v")
}

func TestUnusedStoresAreClosed(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Unused: time.Millisecond} })
	c := f.client(f.create())
	must(t, c.Set(t.Context(), "k", "v", 0).Err())
	waittest.True(t, "the store to be closed", func() bool { return len(f.pool.ready()) == 0 })
	equal(t, "GET on the same connection", c.Get(t.Context(), "k").Val(), "v")
}

func TestOpenStoresAreBounded(t *testing.T) {
	f := start(t, func(e *Engine) { e.Limits = Limits{Stores: 3} })
	for i := range 10 {
		p := f.create()
		must(t, f.client(p).Set(t.Context(), "k", i, 0).Err())
		waittest.True(t, "stores to be closed", func() bool { return len(f.pool.ready()) <= 3 })
	}
}

func TestKeys(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	c := f.client(p)
	ctx := t.Context()
	for i := range 25 {
		must(t, c.Set(ctx, fmt.Sprintf("a*:%02d", i), "v", 0).Err())
	}
	must(t, c.Set(ctx, "", "empty", 0).Err())
	must(t, c.Set(ctx, "ab", "v", time.Hour).Err())
	must(t, c.HSet(ctx, "\xff\xff", "f", "v").Err())
	must(t, c.Set(ctx, "expired", "v", time.Millisecond).Err())
	waittest.True(t, "a key to expire", func() bool { return c.Exists(ctx, "expired").Val() == 0 })

	equal(t, "all", strings.Join(keyNames(t, f, p, "", 7), ",")[:12], ",a*:00,a*:01")
	equal(t, "number of all", len(keyNames(t, f, p, "", 7)), 28)
	equal(t, "prefix is literal", len(keyNames(t, f, p, "a*:", 10)), 25)
	equal(t, "last bytes", len(keyNames(t, f, p, "\xff", 10)), 1)
	page, err := f.Keys(ctx, p, resource.KeyQuery{Prefix: "ab", Limit: 10})
	must(t, err)
	equal(t, "type", page.Keys[0].Type, "string")
	if ttl := page.Keys[0].TTL; ttl == nil || *ttl <= 0 || *ttl > 3_600_000 {
		t.Errorf("ttl: %v", ttl)
	}
	_, err = f.Keys(ctx, p, resource.KeyQuery{Cursor: "%", Limit: 10})
	equal(t, "cursor", errs.KindOf(err), errs.Invalid)
}

// keyNames returns all keys with a prefix, read in pages.
func keyNames(t *testing.T, f *fixture, p *resource.Provisioned, prefix string, limit int) []string {
	t.Helper()
	var names []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := f.Keys(t.Context(), p, resource.KeyQuery{Prefix: prefix, Cursor: cursor, Limit: limit})
		must(t, err)
		for _, key := range page.Keys {
			names = append(names, key.Key)
		}
		cursor = page.Next
	}
	return names
}
