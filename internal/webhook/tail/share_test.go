package tail

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
	"steward/internal/webhook/eventlog"
)

var bob = &auth.Caller{OrgID: "org_b", UserID: "usr_bob", Role: auth.Owner, KeyID: "key_b"}

// TestBacklogsAreSharedByOrganizations has 170 tails of one organization that read its log from the
// beginning, and then one of another. That one gets its half of what all of them get.
func TestBacklogsAreSharedByOrganizations(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	const tails, events, size = 170, 60, 50_000
	_, path := f.hookOf(alice)
	f.ingest(path, events, size)
	_, path = f.hookOf(bob)
	f.ingest(path, events, size)
	var begun, others atomic.Int64
	for range tails {
		next, stop := f.openAs(alice, "/webhook/tail?since=2026-01-01T00:00:00Z", "")
		defer stop()
		go func() {
			for i := range events {
				if id, _ := next(); id == "" {
					return
				}
				if i == 0 {
					begun.Add(1)
				}
				others.Add(1)
			}
		}()
	}
	waittest.Until(t, "all tails to begin", func() (int64, bool) { n := begun.Load(); return n, n == tails })
	before := others.Load()
	next, _ := f.openAs(bob, "/webhook/tail?since=2026-01-01T00:00:00Z", "")
	for range events {
		next()
	}
	if n := others.Load() - before; n > 5*events {
		t.Errorf("one tail was shown %d events, and those of another organization %d meanwhile", events, n)
	}
}

// TestFeedsWithoutRoomKeepNothing has feeds that use up the pool. One for which there is no room says that
// its connections are behind, and they read the log by themselves.
func TestFeedsWithoutRoomKeepNothing(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	for i := range 20 {
		c := f.tails.Feeds.Charge(fmt.Sprint(i), "")
		for n := int64(loadBytes); n > 0; n /= 2 {
			for c.Take(n) {
			}
		}
	}
	full := f.tails.Feeds.Usage()
	_, path := f.hook()
	next, _ := f.open("/webhook/tail", "")
	f.ingest(path, 30, 50_000)
	for i, want := range f.order {
		if got, _ := next(); got != want {
			t.Fatalf("event %d is %s, want %s", i, got, want)
		}
	}
	if u := f.tails.Feeds.Usage(); u.Owners != full.Owners || u.Refused == full.Refused {
		t.Errorf("the feed had room: %+v", u)
	}
}

// TestFeedsForgetOldFrames: a feed keeps what connections may still take, and nothing when all is quiet.
func TestFeedsForgetOldFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Feeds: budget.NewPool(32<<20, 1<<20)}
		f := newFeed(s, audience{orgID: "org_a"}, func() {})
		at := func(n int64) eventlog.Position { return eventlog.Position{Number: n, Key: strings.Repeat("0", 52)} }
		f.add([]frame{{at: at(1), text: make([]byte, 100)}}, at(1))
		time.Sleep(feedTime)
		f.add([]frame{{at: at(2), text: make([]byte, 100)}}, at(2))
		if n := s.Feeds.Usage().Common; n != 200 {
			t.Errorf("%d bytes, want 200", n)
		}
		time.Sleep(time.Second)
		f.add(nil, at(2))
		if n := s.Feeds.Usage().Common; n != 100 || f.start != at(1) {
			t.Errorf("%d bytes from %v, want 100", n, f.start)
		}
	})
}

// TestSlowReadersHoldTheShareOfTheirOrganization has tails of one that read nothing, and one of another
// that reads all.
func TestSlowReadersHoldTheShareOfTheirOrganization(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	f.tails.Memory = budget.NewPool(0, loadBytes) // an organization has 3 MiB
	_, path := f.hookOf(alice)
	f.ingest(path, 200, 60_000) // more than the buffers of a socket
	_, path = f.hookOf(bob)
	f.ingest(path, 20, 60_000)
	for range 100 {
		f.openAs(alice, "/webhook/tail?since=2026-01-01T00:00:00Z", "")
	}
	waittest.Until(t, "tails that are not read", func() (int64, bool) {
		n := f.tails.Memory.Usage().Common
		return n, n > 2<<20
	})
	next, _ := f.openAs(bob, "/webhook/tail?since=2026-01-01T00:00:00Z", "")
	for range 20 {
		next()
	}
	if u := f.tails.Memory.Usage(); u.Common > u.Total/2 {
		t.Errorf("one organization has %d of %d bytes", u.Common, u.Total)
	}
}
