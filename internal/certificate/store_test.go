package certificate_test

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestStoreKeepsValuesByName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := newStore(t, d)
		for _, name := range []string{"a/b/c.key", "a/b/c.crt", "a/d", "ab/c"} {
			if err := s.Store(ctx, name, []byte("of "+name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Store(ctx, "a/d", []byte("changed")); err != nil {
			t.Fatal(err)
		}
		value, err := s.Load(ctx, "a/d")
		if err != nil || string(value) != "changed" {
			t.Errorf("Load = %q, %v", value, err)
		}
		for _, test := range []struct {
			name      string
			recursive bool
			want      []string
		}{
			{"a", false, []string{"a/b", "a/d"}},
			{"a", true, []string{"a/b/c.crt", "a/b/c.key", "a/d"}},
			{"", false, []string{"a", "ab"}},
		} {
			got, err := s.List(ctx, test.name, test.recursive)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("List(%q, %v): %v %s", test.name, test.recursive, err, diff)
			}
		}
		if info, err := s.Stat(ctx, "a/b"); err != nil || info.IsTerminal {
			t.Errorf("Stat of a directory = %+v, %v", info, err)
		}
		if info, err := s.Stat(ctx, "a/d"); err != nil || !info.IsTerminal || time.Since(info.Modified) > time.Hour {
			t.Errorf("Stat of a value = %+v, %v", info, err)
		}
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if s.Exists(ctx, "a") || !s.Exists(ctx, "ab") {
			t.Error("Delete must remove what is below a name, and nothing else")
		}
		if _, err := s.Load(ctx, "a/d"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Load of a deleted value: %v", err)
		}
	})
}

func TestValueOpensUnderItsNameOnly(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	s := newStore(t, d)
	if err := s.Store(t.Context(), "a", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec(t.Context(), `UPDATE certificates SET name = 'b'`); err != nil {
		t.Fatal(err)
	}
	if value, err := s.Load(t.Context(), "b"); err == nil {
		t.Errorf("a moved value opens: %q", value)
	}
}

func TestLockIsHeldByOneProcess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		one, other := newStore(t, d), newStore(t, d)
		if err := one.Lock(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := other.Lock(ended, "x"); err == nil {
			t.Error("a second process got the lock")
		}
		if err := other.Lock(t.Context(), "y"); err != nil {
			t.Errorf("another lock: %v", err)
		}
		got := make(chan error, 1)
		go func() { got <- other.Lock(t.Context(), "x") }()
		if err := one.Unlock(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("a released lock: %v", err)
		}
	})
}

// TestLostLockStopsItsHolder has a process freeze while it holds a lock: it must not mix its values with
// those of the process that took the lock over.
func TestLostLockStopsItsHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		frozen, other := newStore(t, d), newStore(t, d)
		if err := frozen.Lock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		other.Now = func() time.Time { return time.Now().Add(time.Hour) }
		if err := other.Lock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := other.Store(ctx, "k", []byte("of the other")); err != nil {
			t.Fatal(err)
		}
		if err := frozen.Store(ctx, "k", []byte("stale")); err == nil {
			t.Error("a process that lost its lock stored a value")
		}
		if err := frozen.Delete(ctx, "k"); err != nil {
			t.Error(err)
		}
		if value, err := other.Load(ctx, "k"); err != nil || string(value) != "of the other" {
			t.Errorf("the value is %q, %v", value, err)
		}
		if err := frozen.RenewLockLease(ctx, "x", time.Minute); err == nil {
			t.Error("a lock that another process holds was renewed")
		}
		if err := other.Unlock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := frozen.RenewLockLease(ctx, "x", time.Minute); err != nil {
			t.Errorf("a lock that is free again: %v", err)
		}
		if err := frozen.Store(ctx, "k", []byte("new")); err != nil {
			t.Error(err)
		}
	})
}

// TestUnlockedLocksAreNotLost has several domains store values, each while it holds a lock of its own.
func TestUnlockedLocksAreNotLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		var domains sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			domains.Go(func() {
				for range 50 {
					if err := s.Lock(t.Context(), name); err != nil {
						t.Error(err)
					}
					if err := s.Store(t.Context(), name, nil); err != nil {
						t.Error(err)
					}
					if err := s.Unlock(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			})
		}
		domains.Wait()
	})
}
