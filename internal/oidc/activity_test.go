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

func (b *bench) activityOf(clientID string, days int) []string {
	b.t.Helper()
	list, err := b.ClientActivity(b.ctx, b.caller.OrgID, clientID, days)
	must(b.t, err)
	out := []string{}
	for _, d := range list {
		date, err := d.Date.MarshalText()
		must(b.t, err)
		out = append(out, fmt.Sprintf("%s %d %d", date, d.TotalAccess, d.UniqueUsers))
	}
	return out
}

// TestActivityIsExact: many goroutines note while others flush, on two replicas; nothing is lost and nothing counted twice.
func TestActivityIsExact(t *testing.T) {
	const workers, notes, users = 8, 500, 40
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		replicas := []*Activity{{Store: b.Store}, {Store: b.replica(b.DB)}}
		var group, flushers sync.WaitGroup
		done := make(chan struct{})
		for _, a := range replicas {
			flushers.Go(func() {
				for {
					if err := a.Flush(b.ctx); err != nil {
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
			must(t, a.Flush(b.ctx))
		}
		// Every tenth note has no user, and those are all of the users 0, 10, 20 and 30.
		want := []string{fmt.Sprintf("2026-11-15 %d %d", workers*notes, users-users/10)}
		if diff := cmp.Diff(want, b.activityOf(c.ID, 30)); diff != "" {
			t.Error(diff)
		}
		if l, err := b.Get(b.ctx, b.caller.OrgID, c.ID); err != nil || l.LastActivity == nil || *l.LastActivity != stamp.Of(b.now()) {
			t.Error(l.LastActivity, err)
		}
	})
}

func TestActivityByDay(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c, quiet := b.client(Settings{}).Client, b.client(Settings{}).Client
		a := &Activity{Store: b.Store}
		a.Note(c.ID, "usr_1")
		a.Note(c.ID, "")
		b.pass(15*time.Hour + 29*time.Minute + 57*time.Second) // 23:59:59
		a.Note(c.ID, "usr_1")
		b.pass(time.Second)
		a.Note(c.ID, "usr_1") // flushed together with the day before
		must(t, a.Flush(b.ctx))
		b.pass(3 * 24 * time.Hour)
		a.Note(c.ID, "usr_1")
		a.Note(c.ID, "usr_2")
		must(t, a.Flush(b.ctx))
		a.Note(c.ID, "usr_2")
		must(t, a.Flush(b.ctx))
		must(t, a.Flush(b.ctx))
		if diff := cmp.Diff([]string{"2026-11-15 3 1", "2026-11-16 1 1", "2026-11-19 3 2"}, b.activityOf(c.ID, 30)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"2026-11-16 1 1", "2026-11-19 3 2"}, b.activityOf(c.ID, 4)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"2026-11-19 3 2"}, b.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
		if len(b.activityOf(quiet.ID, 3650)) != 0 {
			t.Error("activity out of nothing")
		}
		b.pass(8 * 24 * time.Hour)
		must(t, b.Purge(b.ctx, 2))
		if b.rows("oidc_client_day_users") != 0 || b.rows("oidc_flushes") != 0 || len(b.activityOf(c.ID, 30)) != 3 {
			t.Error("old notes are there still, or counts are gone", b.rows("oidc_client_day_users"), b.rows("oidc_flushes"))
		}
	})
}

func TestActivityOfAllClients(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		one, two := b.client(Settings{}).Client, b.client(Settings{}).Client
		a := &Activity{Store: b.Store}
		for range 2 {
			a.Note(two.ID, "usr_1")
			a.Note(one.ID, "usr_1")
			a.Note(one.ID, "usr_2")
			b.pass(24 * time.Hour)
		}
		must(t, a.Flush(b.ctx))
		want := []DayOfAll{
			{one.ID, dayOf(stamp.Of(b.now())) - 2, 2},
			{two.ID, dayOf(stamp.Of(b.now())) - 2, 1},
			{one.ID, dayOf(stamp.Of(b.now())) - 1, 2},
			{two.ID, dayOf(stamp.Of(b.now())) - 1, 1},
		}
		var got []DayOfAll
		for p := whole; ; {
			p.Limit = 3
			page, err := b.AllActivity(b.ctx, b.caller.OrgID, 30, p)
			must(t, err)
			got = append(got, page.Items...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if page, err := b.AllActivity(b.ctx, b.caller.OrgID, 2, whole); err != nil || len(page.Items) != 2 {
			t.Error(page, err)
		}
		if page, err := b.AllActivity(b.ctx, "org_other", 30, whole); err != nil || len(page.Items) != 0 {
			t.Error(page, err)
		}
	})
}

// TestDoubtfulBatchCountsOnce: the commit went through but its answer was lost, so the same batch is written again.
func TestDoubtfulBatchCountsOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		a := &Activity{Store: b.Store}
		a.Note(c.ID, "usr_1")
		batch := batches(a.take())
		must(t, b.addActivity(b.ctx, batch[0]))
		a.waiting = batch
		a.Note(c.ID, "usr_1")
		must(t, a.Flush(b.ctx))
		if diff := cmp.Diff([]string{"2026-11-15 2 1"}, b.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailedFlushIsKept(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		a := &Activity{Store: b.Store}
		for i := range 1200 { // three transactions
			a.Note(c.ID, "usr_"+strconv.Itoa(i))
		}
		ended, cancel := context.WithCancel(b.ctx)
		cancel()
		for range 3 {
			if err := a.Flush(ended); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			a.Note(c.ID, "usr_0")
		}
		must(t, a.Flush(b.ctx))
		if diff := cmp.Diff([]string{"2026-11-15 1203 1200"}, b.activityOf(c.ID, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHostileNotes: what cannot be an id never stands in the way of the others.
func TestHostileNotes(t *testing.T) {
	b := newBench(t, dbtest.Open(t, db.SQLite))
	c := b.client(Settings{}).Client
	a := &Activity{Store: b.Store}
	a.Note("\x00", "usr_1")
	a.Note("oac_unknown", "usr_1")
	a.Note(c.ID, "\xff")
	a.Note(c.ID, "usr_1")
	must(t, a.Flush(b.ctx))
	if diff := cmp.Diff([]string{"2026-11-15 2 1"}, b.activityOf(c.ID, 1)); diff != "" {
		t.Error(diff)
	}
	_, err := b.ClientActivity(b.ctx, b.caller.OrgID, "oac_unknown", 1)
	wantKind(t, err, errs.NotFound)
}

func BenchmarkNote(b *testing.B) {
	s := newBench(b, dbtest.Open(b, db.SQLite))
	c := s.client(Settings{}).Client
	a := &Activity{Store: s.Store}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Note(c.ID, s.caller.UserID)
		}
	})
}

func BenchmarkLive(b *testing.B) {
	s := newBench(b, dbtest.Open(b, db.SQLite))
	k := s.consent(s.client(Settings{IsPublic: some(false)}).Client.ID, s.caller.UserID)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !s.live(k) {
				b.Fatal("dead")
			}
		}
	})
}

// BenchmarkRevoke: what revoking everybody costs does not depend on how many there are.
func BenchmarkRevoke(b *testing.B) {
	for _, users := range []int{1, 100_000} {
		b.Run(strconv.Itoa(users), func(b *testing.B) {
			s := newBench(b, dbtest.Open(b, db.SQLite))
			c := s.client(Settings{}).Client
			must(b, s.DB.Write(s.ctx, func(tx *db.Tx) error {
				for i := range users {
					k := Consent{ClientID: c.ID, UserID: "usr_" + strconv.Itoa(i), Epoch: newEpoch(), ClientEpoch: 1}
					if err := addConsent(tx, s.caller.OrgID, k); err != nil {
						return err
					}
				}
				return nil
			}))
			for b.Loop() {
				must(b, s.RevokeAll(s.ctx, s.caller.OrgID, c.ID))
			}
		})
	}
}
