package oidc

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
)

func TestConsentIsKept(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{Icon: some("i")}).Client
		none, err := b.Consent(b.ctx, c.ID, "usr_1")
		if none != nil || err != nil {
			t.Fatal(none, err)
		}
		first := b.consent(c.ID, "usr_1", "openid")
		wider := b.consent(c.ID, "usr_1", "openid", "email")
		if first.Epoch != wider.Epoch || first.CreatedAt != wider.CreatedAt || wider.UpdatedAt <= first.UpdatedAt || b.userCount(c.ID) != 1 {
			t.Error("another consent instead of a wider one", first, wider)
		}
		got, err := b.Consent(b.ctx, c.ID, "usr_1")
		must(t, err)
		if diff := cmp.Diff(wider, *got); diff != "" {
			t.Error(diff)
		}
		b.consent(c.ID, "usr_2", "openid")
		result, err := b.Users(b.ctx, b.caller.OrgID, c.ID, whole)
		must(t, err)
		if len(result.Items) != 2 || result.Total != 2 || result.Items[0].UserID != "usr_2" ||
			!slices.Equal(result.Items[1].Scopes, []string{"openid", "email"}) {
			t.Error(result)
		}
		own, err := b.Own(b.ctx, "usr_1", whole)
		must(t, err)
		want := []OwnGrant{{
			ClientID: c.ID, Scopes: wider.Scopes, CreatedAt: wider.CreatedAt, UpdatedAt: wider.UpdatedAt, ClientName: c.Name,
			ClientDescription: c.Description, ClientIcon: c.Icon, ClientHomepageURL: c.HomepageURL,
		}}
		if diff := cmp.Diff(want, own.Items); diff != "" {
			t.Error(diff)
		}
		_, err = b.SaveConsent(b.ctx, id.New(id.Client), "usr_1", nil, nil)
		wantKind(t, err, errs.NotFound)
	})
}

// TestNarrowedConsent: what is granted is added, also when two pages are answered at once, and ends nothing; what is taken back ends the
// tokens that were given before.
func TestNarrowedConsent(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		var group sync.WaitGroup
		for _, scope := range []string{"email", "profile", "webhook:read", "thread:read"} {
			group.Go(func() {
				if _, err := b.SaveConsent(b.ctx, c.ID, "usr_1", []string{"openid", scope}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wide, err := b.Consent(b.ctx, c.ID, "usr_1")
		must(t, err)
		if len(wide.Scopes) != 5 || !b.live(*wide) {
			t.Fatal("of grants at the same time some are lost", wide.Scopes)
		}
		same, err := b.SaveConsent(b.ctx, c.ID, "usr_1", []string{"openid"}, []string{"eval:read"}) // was never granted
		if err != nil || same.Epoch != wide.Epoch || !b.live(*wide) {
			t.Error("declining what was never granted ends tokens", err)
		}
		narrow, err := b.SaveConsent(b.ctx, c.ID, "usr_1", []string{"openid"}, []string{"profile"})
		must(t, err)
		if b.live(*wide) || !b.live(narrow) || len(narrow.Scopes) != 4 || slices.Contains(narrow.Scopes, "profile") || b.userCount(c.ID) != 1 {
			t.Error("not narrowed", narrow)
		}
	})
}

func TestRevokeOneUser(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		revoked, kept := b.consent(c.ID, "usr_1", "openid"), b.consent(c.ID, "usr_2", "openid")
		if !b.live(revoked) || !b.live(kept) {
			t.Fatal("not alive at first")
		}
		must(t, b.RevokeUser(b.ctx, b.caller.OrgID, c.ID, "usr_1"))
		if b.live(revoked) || !b.live(kept) || b.userCount(c.ID) != 1 {
			t.Error("revoked", b.live(revoked), "kept", b.live(kept), b.userCount(c.ID))
		}
		err := b.RevokeUser(b.ctx, b.caller.OrgID, c.ID, "usr_1")
		wantKind(t, err, errs.NotFound)
		if err.Error() != "user usr_1 not found" {
			t.Error(err)
		}
		again := b.consent(c.ID, "usr_1", "openid")
		if b.live(revoked) || !b.live(again) || again.CreatedAt <= revoked.CreatedAt {
			t.Error("consenting again revived old tokens, or made none")
		}
	})
}

func TestRevokeOwnConsent(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		elsewhere := b.member(id.New(id.Org), auth.Member)
		mine := b.consent(c.ID, elsewhere.UserID, "openid")
		must(t, b.RevokeConsent(b.ctx, c.ID, elsewhere.UserID))
		if b.live(mine) {
			t.Error("still alive")
		}
		err := b.RevokeConsent(b.ctx, c.ID, elsewhere.UserID)
		wantKind(t, err, errs.NotFound)
		if err.Error() != "consent for client "+c.ID+" not found" {
			t.Error(err)
		}
		wantKind(t, b.RevokeConsent(b.ctx, "nothing", elsewhere.UserID), errs.NotFound)
	})
}

func TestRevokeAllUsers(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c, other := b.client(Settings{}).Client, b.client(Settings{}).Client
		must(t, b.RevokeAll(b.ctx, b.caller.OrgID, c.ID))
		one, two, apart := b.consent(c.ID, "usr_1"), b.consent(c.ID, "usr_2"), b.consent(other.ID, "usr_1")
		machine := one.ClientEpoch
		must(t, b.RevokeAll(b.ctx, b.caller.OrgID, c.ID))
		if b.live(one) || b.live(two) || !b.live(apart) || b.userCount(c.ID) != 0 || b.userCount(other.ID) != 1 {
			t.Error("wrong ones are alive")
		}
		if live, err := b.Live(b.ctx, c.ID, "", machine, 0); live || err != nil {
			t.Error("a client_credentials token is alive", err)
		}
		if got, err := b.Consent(b.ctx, c.ID, "usr_1"); got != nil || err != nil {
			t.Error(got, err)
		}
		result, err := b.Users(b.ctx, b.caller.OrgID, c.ID, whole)
		if err != nil || len(result.Items) != 0 || result.Total != 0 {
			t.Error(result, err)
		}
		own, err := b.Own(b.ctx, "usr_1", whole)
		if err != nil || len(own.Items) != 1 || own.Items[0].ClientID != other.ID {
			t.Error(own, err)
		}
		wantKind(t, b.RevokeUser(b.ctx, b.caller.OrgID, c.ID, "usr_1"), errs.NotFound)
		again := b.consent(c.ID, "usr_1") // over the dead row
		must(t, b.Purge(b.ctx, 10))
		if !b.live(again) || b.live(one) || b.userCount(c.ID) != 1 || b.rows("oidc_consents") != 2 || b.rows("oidc_remains") != 0 {
			t.Error(b.live(again), b.live(one), b.userCount(c.ID), b.rows("oidc_consents"), b.rows("oidc_remains"))
		}
	})
}

func TestDeleteClientKillsEverything(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		activity := &Activity{Store: b.Store}
		one := b.consent(c.ID, "usr_1", "openid")
		activity.Note(c.ID, "usr_1")
		must(t, activity.Flush(b.ctx))
		if !b.live(one) {
			t.Fatal("not alive at first")
		}
		must(t, b.Delete(b.ctx, b.caller.OrgID, c.ID, page.IfMatch{}))
		_, err := b.Lookup(b.ctx, c.ID)
		wantKind(t, err, errs.NotFound)
		if machine, err := b.Live(b.ctx, c.ID, "", 1, 0); b.live(one) || machine || err != nil {
			t.Error("tokens live on", err)
		}
		own, err1 := b.Own(b.ctx, "usr_1", whole)
		all, err2 := b.AllActivity(b.ctx, b.caller.OrgID, 30, whole)
		if err1 != nil || err2 != nil || len(own.Items)+len(all.Items) != 0 {
			t.Error(own, all, err1, err2)
		}
		activity.Note(c.ID, "usr_1") // a late one
		must(t, activity.Flush(b.ctx))
		must(t, b.Purge(b.ctx, 1))
		for _, table := range []string{"oidc_consents", "oidc_client_states", "oidc_client_days", "oidc_client_day_users", "oidc_remains"} {
			if n := b.rows(table); n != 0 {
				t.Errorf("%d rows left in %s", n, table)
			}
		}
	})
}

// TestRevocationTouchesNoTokens: there is no row for a token here, and consents stay where they are, so the work is the same for one
// user and for many. Purge removes them later, a bounded number at a time.
func TestRevocationTouchesNoTokens(t *testing.T) {
	const many = 3000
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		must(t, b.DB.Write(b.ctx, func(tx *db.Tx) error {
			for i := range many {
				if err := addConsent(tx, b.caller.OrgID, Consent{
					ClientID: c.ID, UserID: "usr_" + strconv.Itoa(i), Scopes: []string{}, Epoch: newEpoch(), ClientEpoch: 1,
				}); err != nil {
					return err
				}
			}
			return count(tx, b.caller.OrgID, c.ID, many)
		}))
		must(t, b.RevokeAll(b.ctx, b.caller.OrgID, c.ID))
		if b.rows("oidc_consents") != many || b.userCount(c.ID) != 0 {
			t.Error("the revocation went through the consents")
		}
		more, err := b.purge(b.ctx, 1000)
		if left := b.rows("oidc_consents"); err != nil || !more || left != many-1000 {
			t.Error(left, more, err)
		}
		must(t, b.Purge(b.ctx, 1000))
		if left := b.rows("oidc_consents") + b.rows("oidc_remains"); left != 0 {
			t.Error(left, "rows left")
		}
	})
}

func TestLiveAsksWhoMayUse(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		stranger := id.New(id.User)
		inside, outside := b.consent(c.ID, b.caller.UserID), b.consent(c.ID, stranger)
		update := func(s Settings) {
			_, err := b.Update(b.ctx, b.caller, c.ID, page.IfMatch{}, ClientPatch{Settings: s})
			must(t, err)
		}
		want := func(name string, in, out bool) {
			t.Helper()
			if b.live(inside) != in || b.live(outside) != out {
				t.Errorf("%s: inside %t, outside %t", name, b.live(inside), b.live(outside))
			}
			r, err := b.Lookup(b.ctx, c.ID)
			must(t, err)
			for userID, allowed := range map[string]bool{inside.UserID: in, outside.UserID: out} {
				if got, err := b.Admits(b.ctx, r, userID); err != nil || got != allowed {
					t.Errorf("%s: admits %s: %t, %v", name, userID, got, err)
				}
			}
		}
		want("for all", true, true)
		update(Settings{IsPublic: some(false)})
		want("members only", true, false)
		update(Settings{IsPublic: some(true), AllowedUserIDs: some([]string{stranger})})
		want("stranger only", false, true)
		update(Settings{AllowedUserIDs: some([]string{"nobody"})})
		want("nobody", false, false)
		update(Settings{AllowedUserIDs: some([]string{})})
		want("for all again", true, true)
	})
}

func TestLiveNeedsBothNumbers(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		one := b.consent(c.ID, "usr_1")
		for name, token := range map[string]Consent{
			"no consent number":  {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 1},
			"another number":     {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch + 1},
			"another user":       {ClientID: c.ID, UserID: "usr_2", ClientEpoch: 1, Epoch: one.Epoch},
			"user without any":   {ClientID: c.ID, UserID: "usr_2", ClientEpoch: 1},
			"no user, consented": {ClientID: c.ID, ClientEpoch: 1, Epoch: one.Epoch},
			"client's future":    {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 2, Epoch: one.Epoch},
			"another client":     {ClientID: id.New(id.Client), UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch},
			"no client":          {UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch},
		} {
			if b.live(token) {
				t.Error(name, "is alive")
			}
		}
		if !b.live(one) || !b.live(Consent{ClientID: c.ID, ClientEpoch: 1}) {
			t.Error("the right ones are not")
		}
	})
}

func TestMemberLeaves(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		open, closed := b.client(Settings{}).Client, b.client(Settings{IsPublic: some(false)}).Client
		user := b.member(b.caller.OrgID, auth.Member).UserID
		public, internal, others := b.consent(open.ID, user), b.consent(closed.ID, user), b.consent(closed.ID, b.caller.UserID)
		if !b.live(internal) {
			t.Fatal("not alive at first")
		}
		b.leaves(b.caller.OrgID, user)
		if b.live(internal) || !b.live(public) || !b.live(others) || b.userCount(closed.ID) != 1 || b.userCount(open.ID) != 1 {
			t.Error(b.live(internal), b.live(public), b.live(others), b.userCount(closed.ID))
		}
	})
}

// TestCountUnderConcurrency: whatever happens at the same time, the count is that of the consents which live.
func TestCountUnderConcurrency(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.Store.Audit = func(*db.Tx, string, string) error { return nil }
		c := b.client(Settings{}).Client
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				user := "usr_" + strconv.Itoa(w%4) // each is shared by two
				for i := range 12 {
					if _, err := b.SaveConsent(b.ctx, c.ID, user, []string{"openid"}, nil); err != nil {
						t.Error(err)
					}
					var err error
					switch {
					case i%6 == 5:
						err = b.RevokeAll(b.ctx, b.caller.OrgID, c.ID)
					case i%3 == 1:
						err = b.RevokeConsent(b.ctx, c.ID, user)
					case w == 0:
						err = b.Purge(b.ctx, 2)
					}
					if err != nil && errs.KindOf(err) != errs.NotFound {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		result, err := b.Users(b.ctx, b.caller.OrgID, c.ID, whole)
		if err != nil || int64(len(result.Items)) != result.Total {
			t.Errorf("%d consents, counted %d (%v)", len(result.Items), result.Total, err)
		}
	})
}

func TestUsersArePaged(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.client(Settings{}).Client
		var want []string
		for i := range 5 {
			want = append(want, "usr_"+strconv.Itoa(i))
			b.consent(c.ID, want[i])
		}
		slices.Reverse(want)
		var got []string
		for p := (page.Paging{Limit: 2}); ; {
			result, err := b.Users(b.ctx, b.caller.OrgID, c.ID, p)
			must(t, err)
			for _, g := range result.Items {
				got = append(got, g.UserID)
			}
			if p.Cursor = result.Next; p.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Error(got)
		}
	})
}

// TestReplicas: what one replica takes away, another refuses within a second; what one gives, another takes at once.
func TestReplicas(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), o)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	b := newBench(t, open())
	d := open()
	there := b.replica(d)
	heard := make(chan struct{}, 100) // told after the cache, which was there first
	d.Watch(Cache, func() { heard <- struct{}{} })
	go d.RunWatch(t.Context())

	made := b.client(Settings{})
	c := made.Client
	seen := func(con Consent) bool {
		live, err := there.Live(b.ctx, con.ClientID, con.UserID, con.ClientEpoch, con.Epoch)
		must(t, err)
		return live
	}
	within := func(what string, done func() bool) {
		t.Helper()
		for late := time.After(time.Second); !done(); {
			select {
			case <-heard:
			case <-late:
				t.Fatalf("%s: not seen within a second", what)
			}
		}
	}
	old := b.consent(c.ID, "usr_1")
	if !seen(old) {
		t.Fatal("a new consent is not seen at once")
	}
	must(t, b.RevokeUser(b.ctx, b.caller.OrgID, c.ID, "usr_1"))
	again := b.consent(c.ID, "usr_1")
	if !seen(again) {
		t.Error("a consent given anew is not seen at once")
	}
	within("revoked user", func() bool { return !seen(old) })
	must(t, b.RevokeAll(b.ctx, b.caller.OrgID, c.ID))
	third := b.consent(c.ID, "usr_1")
	if !seen(third) {
		t.Error("a token of the new epoch is not seen at once")
	}
	within("all revoked", func() bool { return !seen(again) })
	fresh, err := b.Rotate(b.ctx, b.caller.OrgID, c.ID)
	must(t, err)
	if _, err := there.CheckSecret(b.ctx, c.ID, fresh); err != nil {
		t.Error("a new secret is not taken at once", err)
	}
	within("old secret", func() bool { _, err := there.CheckSecret(b.ctx, c.ID, made.ClientSecret); return err != nil })
	must(t, b.Delete(b.ctx, b.caller.OrgID, c.ID, page.IfMatch{}))
	within("deleted client", func() bool { return !seen(third) })
}
