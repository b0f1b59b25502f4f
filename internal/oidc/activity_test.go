package oidc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/stamp"
)

func (f *fixture) activityOf(clientID string, days int) []string {
	f.t.Helper()
	list, err := f.ClientActivity(f.ctx, f.caller.OrgID, clientID, days)
	must(f.t, err)
	out := []string{}
	for _, d := range list {
		date, err := d.Date.MarshalText()
		must(f.t, err)
		out = append(out, fmt.Sprintf("%s %d %d", date, d.TotalAccess, d.UniqueUsers))
	}
	return out
}

// TestConcurrentActivityIsCountedExactly counts in many goroutines while others flush, on two replicas.
func TestConcurrentActivityIsCountedExactly(t *testing.T) {
	const workers, notes, users = 8, 500, 40
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		replicas := []*Activity{{Store: f.Store}, {Store: f.replica(f.DB)}}
		var group, flushers sync.WaitGroup
		done := make(chan struct{})
		for _, a := range replicas {
			flushers.Go(func() {
				for {
					if err := a.Flush(f.ctx); err != nil {
						t.Error(err)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for w := range workers {
			group.Go(func() {
				for i := range notes {
					user := ""
					if i%10 != 0 {
						user = "usr_" + strconv.Itoa((w*notes+i)%users)
					}
					replicas[w%2].Note(c.ID, user)
				}
			})
		}
		group.Wait()
		close(done)
		flushers.Wait()
		for _, a := range replicas {
			must(t, a.Flush(f.ctx))
		}
		// Every tenth access has no user. These are all that the users 0, 10, 20 and 30 would have had.
		want := []string{fmt.Sprintf("2026-11-15 %d %d", workers*notes, users-users/10)}
		if diff := cmp.Diff(want, f.activityOf(c.ID, 30)); diff != "" {
			t.Error(diff)
		}
		got, err := f.Get(f.ctx, f.caller.OrgID, c.ID)
		must(t, err)
		if got.LastActivity == nil || *got.LastActivity != stamp.Of(f.now()) {
			t.Error(got.LastActivity)
		}
	})
}

func TestActivityIsCountedPerDay(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c, quiet := f.client(Settings{}).Client, f.client(Settings{}).Client
		a := &Activity{Store: f.Store}
		a.Note(c.ID, "usr_1")
		a.Note(c.ID, "")
		f.advance(15*time.Hour + 29*time.Minute + 57*time.Second) // 23:59:59
		a.Note(c.ID, "usr_1")
		f.advance(time.Second)
		a.Note(c.ID, "usr_1") // flushed together with the day before
		must(t, a.Flush(f.ctx))
		f.advance(3 * 24 * time.Hour)
		a.Note(c.ID, "usr_1")
		a.Note(c.ID, "usr_2")
		must(t, a.Flush(f.ctx))
		a.Note(c.ID, "usr_2")
		must(t, a.Flush(f.ctx))
		must(t, a.Flush(f.ctx))
		all := []string{"2026-11-15 3 1", "2026-11-16 1 1", "2026-11-19 3 2"}
		if diff := cmp.Diff(all, f.activityOf(c.ID, 30)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"2026-11-16 1 1", "2026-11-19 3 2"}, f.activityOf(c.ID, 4)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"2026-11-19 3 2"}, f.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
		if len(f.activityOf(quiet.ID, 3650)) != 0 {
			t.Error("a client without accesses has activity")
		}
		f.advance(8 * 24 * time.Hour)
		must(t, f.Purge(f.ctx, 2))
		if f.rows("oidc_client_day_users") != 0 || f.rows("oidc_flushes") != 0 || len(f.activityOf(c.ID, 30)) != 3 {
			t.Error("old rows were not purged, or counts were", f.rows("oidc_client_day_users"), f.rows("oidc_flushes"))
		}
	})
}

func TestActivityOfAllClients(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		one, two := f.client(Settings{}).Client, f.client(Settings{}).Client
		a := &Activity{Store: f.Store}
		for range 2 {
			a.Note(two.ID, "usr_1")
			a.Note(one.ID, "usr_1")
			a.Note(one.ID, "usr_2")
			f.advance(24 * time.Hour)
		}
		must(t, a.Flush(f.ctx))
		want := []ClientActivityDay{
			{ClientID: one.ID, Date: dayOf(stamp.Of(f.now())) - 2, UniqueUsers: 2},
			{ClientID: two.ID, Date: dayOf(stamp.Of(f.now())) - 2, UniqueUsers: 1},
			{ClientID: one.ID, Date: dayOf(stamp.Of(f.now())) - 1, UniqueUsers: 2},
			{ClientID: two.ID, Date: dayOf(stamp.Of(f.now())) - 1, UniqueUsers: 1},
		}
		var got []ClientActivityDay
		for p := whole; ; {
			p.Limit = 3
			page, err := f.AllActivity(f.ctx, f.caller.OrgID, 30, p)
			must(t, err)
			got = append(got, page.Items...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if page, err := f.AllActivity(f.ctx, f.caller.OrgID, 2, whole); err != nil || len(page.Items) != 2 {
			t.Error(page, err)
		}
		if page, err := f.AllActivity(f.ctx, "org_other", 30, whole); err != nil || len(page.Items) != 0 {
			t.Error(page, err)
		}
	})
}

// TestBatchIsCountedOnce writes a batch again, as if the response to its commit had been lost.
func TestBatchIsCountedOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		a := &Activity{Store: f.Store}
		a.Note(c.ID, "usr_1")
		batch := batches(a.take())
		must(t, f.addActivity(f.ctx, batch[0]))
		a.unwritten = batch
		a.Note(c.ID, "usr_1")
		must(t, a.Flush(f.ctx))
		if diff := cmp.Diff([]string{"2026-11-15 2 1"}, f.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailedFlushIsRetried(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		a := &Activity{Store: f.Store}
		for i := range 1200 { // three transactions
			a.Note(c.ID, "usr_"+strconv.Itoa(i))
		}
		ended, cancel := context.WithCancel(f.ctx)
		cancel()
		for range 3 {
			if err := a.Flush(ended); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			a.Note(c.ID, "usr_0")
		}
		must(t, a.Flush(f.ctx))
		if diff := cmp.Diff([]string{"2026-11-15 1203 1200"}, f.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestInvalidIDsAreNotCounted checks that they do not prevent others from being written.
func TestInvalidIDsAreNotCounted(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	c := f.client(Settings{}).Client
	a := &Activity{Store: f.Store}
	a.Note("\x00", "usr_1")
	a.Note("oac_unknown", "usr_1")
	a.Note(c.ID, "\xff")
	a.Note(c.ID, "usr_1")
	must(t, a.Flush(f.ctx))
	if diff := cmp.Diff([]string{"2026-11-15 2 1"}, f.activityOf(c.ID, 1)); diff != "" {
		t.Error(diff)
	}
	_, err := f.ClientActivity(f.ctx, f.caller.OrgID, "oac_unknown", 1)
	wantKind(t, err, errs.NotFound)
}

func BenchmarkNote(b *testing.B) {
	f := newFixture(b, dbtest.Open(b, db.SQLite))
	c := f.client(Settings{}).Client
	a := &Activity{Store: f.Store}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Note(c.ID, f.caller.UserID)
		}
	})
}

func BenchmarkLive(b *testing.B) {
	f := newFixture(b, dbtest.Open(b, db.SQLite))
	k := f.consent(f.client(Settings{IsPublic: some(false)}).Client.ID, f.caller.UserID)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !f.live(k) {
				b.Fatal("not live")
			}
		}
	})
}

// BenchmarkRevoke shows that the cost of revoking all users does not depend on their number.
func BenchmarkRevoke(b *testing.B) {
	for _, users := range []int{1, 100_000} {
		b.Run(strconv.Itoa(users), func(b *testing.B) {
			f := newFixture(b, dbtest.Open(b, db.SQLite))
			c := f.client(Settings{}).Client
			must(b, f.DB.Write(f.ctx, func(tx *db.Tx) error {
				for i := range users {
					k := Consent{ClientID: c.ID, UserID: "usr_" + strconv.Itoa(i), Epoch: newEpoch(), ClientEpoch: 1}
					if err := insertConsent(tx, f.caller.OrgID, k); err != nil {
						return err
					}
				}
				return nil
			}))
			for b.Loop() {
				must(b, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
			}
		})
	}
}
