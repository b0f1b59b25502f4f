package oidc

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/waittest"
)

func TestConsentIsStoredAndListed(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{Icon: some("https://notes.example/i.png")}).Client
		none, err := f.Consent(f.ctx, c.ID, "usr_1")
		if none != nil || err != nil {
			t.Fatal(none, err)
		}
		first := f.consent(c.ID, "usr_1", "openid")
		wider := f.consent(c.ID, "usr_1", "openid", "email")
		if first.Epoch != wider.Epoch || first.CreatedAt != wider.CreatedAt || wider.UpdatedAt <= first.UpdatedAt ||
			f.userCount(c.ID) != 1 {
			t.Error("the consent was replaced instead of widened", first, wider)
		}
		got, err := f.Consent(f.ctx, c.ID, "usr_1")
		must(t, err)
		if diff := cmp.Diff(wider, *got); diff != "" {
			t.Error(diff)
		}
		f.consent(c.ID, "usr_2", "openid")
		result, err := f.Users(f.ctx, f.caller.OrgID, c.ID, whole)
		must(t, err)
		if len(result.Items) != 2 || result.Total != 2 || result.Items[0].UserID != "usr_2" ||
			!slices.Equal(result.Items[1].Scopes, []string{"openid", "email"}) {
			t.Error(result)
		}
		own, err := f.Own(f.ctx, "usr_1", "", whole)
		must(t, err)
		want := []OwnConsent{{
			ClientID: c.ID, Scopes: wider.Scopes, CreatedAt: wider.CreatedAt, UpdatedAt: wider.UpdatedAt, ClientName: c.Name,
			ClientDescription: c.Description, ClientIcon: c.Icon, ClientHomepageURL: c.HomepageURL,
		}}
		if diff := cmp.Diff(want, own.Items); diff != "" {
			t.Error(diff)
		}
		_, err = f.SaveConsent(f.ctx, id.New(id.Client), "usr_1", nil, nil)
		wantKind(t, err, errs.NotFound)
	})
}

// TestNarrowedConsentRevokesTokens also checks that concurrent grants are merged and revoke nothing.
func TestNarrowedConsentRevokesTokens(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		var group sync.WaitGroup
		for _, scope := range []string{"email", "profile", "webhook:read", "thread:read"} {
			group.Go(func() {
				if _, err := f.SaveConsent(f.ctx, c.ID, "usr_1", []string{"openid", scope}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wide, err := f.Consent(f.ctx, c.ID, "usr_1")
		must(t, err)
		if len(wide.Scopes) != 5 || !f.live(*wide) {
			t.Fatal("a concurrent grant was lost", wide.Scopes)
		}
		same, err := f.SaveConsent(f.ctx, c.ID, "usr_1", []string{"openid"}, []string{"eval:read"}) // was never granted
		if err != nil || same.Epoch != wide.Epoch || !f.live(*wide) {
			t.Error("declining a scope that was never granted has revoked tokens", err)
		}
		narrow, err := f.SaveConsent(f.ctx, c.ID, "usr_1", []string{"openid"}, []string{"profile"})
		must(t, err)
		if f.live(*wide) || !f.live(narrow) || len(narrow.Scopes) != 4 || slices.Contains(narrow.Scopes, "profile") ||
			f.userCount(c.ID) != 1 {
			t.Error("the consent was not narrowed", narrow)
		}
	})
}

func TestDeclinedScopesAreRemembered(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		save := func(granted, declined []string) *Consent {
			t.Helper()
			saved, err := f.SaveConsent(f.ctx, c.ID, "usr_1", granted, declined)
			must(t, err)
			read, err := f.Consent(f.ctx, c.ID, "usr_1")
			must(t, err)
			if diff := cmp.Diff(saved, *read); diff != "" {
				t.Error(diff)
			}
			return read
		}
		first := save([]string{"openid"}, []string{"email", "profile"})
		if !slices.Equal(first.Declined, []string{"email", "profile"}) {
			t.Error(first)
		}
		second := save([]string{"openid", "email"}, []string{"webhook:read"})
		if !slices.Equal(second.Declined, []string{"profile", "webhook:read"}) || second.Epoch != first.Epoch ||
			!slices.Equal(second.Scopes, []string{"openid", "email"}) {
			t.Error(second)
		}
		own, err := f.Own(f.ctx, "usr_1", "", whole)
		must(t, err)
		users, err := f.Users(f.ctx, f.caller.OrgID, c.ID, whole)
		must(t, err)
		for _, scopes := range [][]string{own.Items[0].Scopes, users.Items[0].Scopes} {
			if !slices.Equal(scopes, []string{"openid", "email"}) {
				t.Error("a list shows other scopes than those that were granted", scopes)
			}
		}
		must(t, f.RevokeConsent(f.ctx, c.ID, "usr_1", ""))
		if again := save([]string{"openid"}, nil); len(again.Declined) != 0 {
			t.Error("a new consent has the declined scopes of a revoked one", again)
		}
	})
}

func TestRevokeUserKeepsOtherUsers(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		revoked, kept := f.consent(c.ID, "usr_1", "openid"), f.consent(c.ID, "usr_2", "openid")
		if !f.live(revoked) || !f.live(kept) {
			t.Fatal("the consents are not live")
		}
		must(t, f.RevokeUser(f.ctx, f.caller.OrgID, c.ID, "usr_1"))
		if f.live(revoked) || !f.live(kept) || f.userCount(c.ID) != 1 {
			t.Error("revoked", f.live(revoked), "kept", f.live(kept), f.userCount(c.ID))
		}
		err := f.RevokeUser(f.ctx, f.caller.OrgID, c.ID, "usr_1")
		wantKind(t, err, errs.NotFound)
		if err.Error() != "user usr_1 not found" {
			t.Error(err)
		}
		again := f.consent(c.ID, "usr_1", "openid")
		if f.live(revoked) || !f.live(again) || again.CreatedAt <= revoked.CreatedAt {
			t.Error("a new consent has made old tokens valid again, or is not live")
		}
	})
}

func TestRevokeOwnConsent(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		elsewhere := f.member(id.New(id.Org), auth.Member)
		mine := f.consent(c.ID, elsewhere.UserID, "openid")
		must(t, f.RevokeConsent(f.ctx, c.ID, elsewhere.UserID, ""))
		if f.live(mine) {
			t.Error("the consent is still live")
		}
		err := f.RevokeConsent(f.ctx, c.ID, elsewhere.UserID, "")
		wantKind(t, err, errs.NotFound)
		if err.Error() != "consent for client "+c.ID+" not found" {
			t.Error(err)
		}
		wantKind(t, f.RevokeConsent(f.ctx, "nothing", elsewhere.UserID, ""), errs.NotFound)
	})
}

func TestRevokeAllRevokesUsersOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		acting := Settings{GrantTypes: some([]string{AuthorizationCode, ClientCredentials})}
		c, other := f.client(acting).Client, f.client(Settings{}).Client
		must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
		one, two, apart := f.consent(c.ID, "usr_1"), f.consent(c.ID, "usr_2"), f.consent(other.ID, "usr_1")
		machine := one.ClientEpoch
		must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
		if f.live(one) || f.live(two) || !f.live(apart) || f.userCount(c.ID) != 0 || f.userCount(other.ID) != 1 {
			t.Error("not exactly the revoked consents have ended")
		}
		if live, err := f.Live(f.ctx, c.ID, "", machine, 0); !live || err != nil {
			t.Error("a client_credentials token is not live", err)
		}
		if got, err := f.Consent(f.ctx, c.ID, "usr_1"); got != nil || err != nil {
			t.Error(got, err)
		}
		result, err := f.Users(f.ctx, f.caller.OrgID, c.ID, whole)
		if err != nil || len(result.Items) != 0 || result.Total != 0 {
			t.Error(result, err)
		}
		own, err := f.Own(f.ctx, "usr_1", "", whole)
		if err != nil || len(own.Items) != 1 || own.Items[0].ClientID != other.ID {
			t.Error(own, err)
		}
		wantKind(t, f.RevokeUser(f.ctx, f.caller.OrgID, c.ID, "usr_1"), errs.NotFound)
		again := f.consent(c.ID, "usr_1") // replaces the row of the old epoch
		must(t, f.Purge(f.ctx, 10))
		if !f.live(again) || f.live(one) || f.userCount(c.ID) != 1 || f.rows("oidc_consents") != 2 ||
			f.rows("oidc_purges") != 0 {
			t.Error(f.live(again), f.live(one), f.userCount(c.ID), f.rows("oidc_consents"), f.rows("oidc_purges"))
		}
	})
}

// TestConfinedUserManagesConsentsOfOneOrganization has a browser whose user has signed in with the provider of an
// organization.
func TestConfinedUserManagesConsentsOfOneOrganization(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		f.consent(c.ID, "usr_1")
		h := &Handler{Store: f.Store}
		own := func(caller auth.Caller) (listed int, revoke error) {
			caller.UserID = "usr_1"
			ctx := auth.With(t.Context(), &caller)
			list, err := h.Own(ctx, &struct{ WholeList }{WholeList{Limit: 10}})
			must(t, err)
			_, revoke = h.RevokeOwn(ctx, &ConsentPath{c.ID})
			return len(list.Items), revoke
		}
		if listed, err := own(auth.Caller{OrgID: "org_other", Confined: true}); listed != 0 || errs.KindOf(err) != errs.NotFound {
			t.Errorf("in another organization: %d, %v", listed, err)
		}
		if listed, err := own(auth.Caller{OrgID: f.caller.OrgID, Confined: true}); listed != 1 || err != nil {
			t.Errorf("in the organization: %d, %v", listed, err)
		}
		f.consent(c.ID, "usr_1")
		if listed, err := own(auth.Caller{OrgID: "org_other"}); listed != 1 || err != nil {
			t.Errorf("not confined: %d, %v", listed, err)
		}
	})
}

func TestDeletedClientLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		activity := &Activity{Store: f.Store}
		one := f.consent(c.ID, "usr_1", "openid")
		activity.Note(c.ID, "usr_1")
		must(t, activity.Flush(f.ctx))
		if !f.live(one) {
			t.Fatal("the consents are not live")
		}
		must(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{}))
		_, err := f.Lookup(f.ctx, c.ID)
		wantKind(t, err, errs.NotFound)
		if machine, err := f.Live(f.ctx, c.ID, "", 1, 0); f.live(one) || machine || err != nil {
			t.Error("tokens are still live", err)
		}
		own, err1 := f.Own(f.ctx, "usr_1", "", whole)
		all, err2 := f.AllActivity(f.ctx, f.caller.OrgID, 30, whole)
		if err1 != nil || err2 != nil || len(own.Items)+len(all.Items) != 0 {
			t.Error(own, all, err1, err2)
		}
		activity.Note(c.ID, "usr_1") // a late one
		must(t, activity.Flush(f.ctx))
		must(t, f.Purge(f.ctx, 1))
		for _, table := range []string{
			"oidc_consents", "oidc_client_states", "oidc_client_days", "oidc_client_day_users", "oidc_purges",
		} {
			if n := f.rows(table); n != 0 {
				t.Errorf("%d rows left in %s", n, table)
			}
		}
	})
}

// TestRevokeAllLeavesConsentsToPurge checks that the work of a revocation does not depend on the
// number of consents, which Purge deletes later in batches.
func TestRevokeAllLeavesConsentsToPurge(t *testing.T) {
	const many = 3000
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		must(t, f.DB.Write(f.ctx, func(tx *db.Tx) error {
			for i := range many {
				if err := insertConsent(tx, f.caller.OrgID, Consent{
					ClientID: c.ID, UserID: "usr_" + strconv.Itoa(i), Scopes: []string{}, Epoch: newEpoch(), ClientEpoch: 1,
				}); err != nil {
					return err
				}
			}
			return addUsers(tx, f.caller.OrgID, c.ID, many)
		}))
		must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
		if f.rows("oidc_consents") != many || f.userCount(c.ID) != 0 {
			t.Error("the revocation has changed the consents")
		}
		more, err := f.purge(f.ctx, 1000)
		if left := f.rows("oidc_consents"); err != nil || !more || left != many-1000 {
			t.Error(left, more, err)
		}
		must(t, f.Purge(f.ctx, 1000))
		if left := f.rows("oidc_consents") + f.rows("oidc_purges"); left != 0 {
			t.Error(left, "rows left")
		}
	})
}

func TestLiveChecksWhoMayUseTheClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		stranger := id.New(id.User)
		inside, outside := f.consent(c.ID, f.caller.UserID), f.consent(c.ID, stranger)
		update := func(s Settings) {
			_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, ClientPatch{Settings: s})
			must(t, err)
		}
		want := func(name string, in, out bool) {
			t.Helper()
			if f.live(inside) != in || f.live(outside) != out {
				t.Errorf("%s: inside %t, outside %t", name, f.live(inside), f.live(outside))
			}
			r, err := f.Lookup(f.ctx, c.ID)
			must(t, err)
			for userID, allowed := range map[string]bool{inside.UserID: in, outside.UserID: out} {
				if got, err := f.Admits(f.ctx, r, userID); err != nil || got != allowed {
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
		update(Settings{IsPublic: some(false)})
		must(t, f.DB.Write(f.ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE members SET disabled = TRUE WHERE user_id = $1`, f.caller.UserID); err != nil {
				return err
			}
			return tx.Invalidate(auth.Callers)
		}))
		want("members only, the member disabled", false, false)
	})
}

func TestLiveChecksBothEpochs(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		one := f.consent(c.ID, "usr_1")
		for name, token := range map[string]Consent{
			"no consent epoch":     {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 1},
			"another epoch":        {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch + 1},
			"another user":         {ClientID: c.ID, UserID: "usr_2", ClientEpoch: 1, Epoch: one.Epoch},
			"user without consent": {ClientID: c.ID, UserID: "usr_2", ClientEpoch: 1},
			"may not act itself":   {ClientID: c.ID, ClientEpoch: 1},
			"no user, consented":   {ClientID: c.ID, ClientEpoch: 1, Epoch: one.Epoch},
			"future client epoch":  {ClientID: c.ID, UserID: "usr_1", ClientEpoch: 2, Epoch: one.Epoch},
			"another client":       {ClientID: id.New(id.Client), UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch},
			"no client":            {UserID: "usr_1", ClientEpoch: 1, Epoch: one.Epoch},
		} {
			if f.live(token) {
				t.Error(name, "is live")
			}
		}
		acting := f.client(Settings{GrantTypes: some([]string{ClientCredentials})}).Client
		if !f.live(one) || !f.live(Consent{ClientID: acting.ID, ClientEpoch: 1}) {
			t.Error("valid tokens are not live")
		}
	})
}

func TestForgetMemberEndsConsentsToAllClients(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		open, closed := f.client(Settings{}).Client, f.client(Settings{IsPublic: some(false)}).Client
		user := f.member(f.caller.OrgID, auth.Member).UserID
		public, internal := f.consent(open.ID, user), f.consent(closed.ID, user)
		others := f.consent(closed.ID, f.caller.UserID)
		if !f.live(internal) || !f.live(public) {
			t.Fatal("the consents are not live")
		}
		f.removeMember(f.caller.OrgID, user)
		if f.live(internal) || f.live(public) || !f.live(others) ||
			f.userCount(closed.ID) != 1 || f.userCount(open.ID) != 0 {
			t.Error(f.live(internal), f.live(public), f.live(others), f.userCount(closed.ID))
		}
	})
}

func TestUserCountIsExactUnderConcurrency(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				user := "usr_" + strconv.Itoa(w%4) // two goroutines share a user
				for i := range 12 {
					if _, err := f.SaveConsent(f.ctx, c.ID, user, []string{"openid"}, nil); err != nil {
						t.Error(err)
					}
					var err error
					switch {
					case i%6 == 5:
						err = f.RevokeAll(f.ctx, f.caller.OrgID, c.ID)
					case i%3 == 1:
						err = f.RevokeConsent(f.ctx, c.ID, user, "")
					case w == 0:
						err = f.Purge(f.ctx, 2)
					}
					if err != nil && errs.KindOf(err) != errs.NotFound {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		result, err := f.Users(f.ctx, f.caller.OrgID, c.ID, whole)
		if err != nil || int64(len(result.Items)) != result.Total {
			t.Errorf("%d consents, counted %d (%v)", len(result.Items), result.Total, err)
		}
	})
}

func TestUsersArePaged(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		var want []string
		for i := range 5 {
			want = append(want, "usr_"+strconv.Itoa(i))
			f.consent(c.ID, want[i])
		}
		slices.Reverse(want)
		var got []string
		for p := (page.Paging{Limit: 2}); ; {
			result, err := f.Users(f.ctx, f.caller.OrgID, c.ID, p)
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

// TestReplicasFollowRevocations checks that another replica refuses what was revoked as soon as it
// learns of it, and accepts what was granted at once.
func TestReplicasFollowRevocations(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), o)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	f := newFixture(t, open())
	d := open()
	other := f.replica(d)
	go d.RunWatch(t.Context())

	made := f.client(Settings{})
	c := made.Client
	live := func(token Consent) bool {
		live, err := other.Live(f.ctx, token.ClientID, token.UserID, token.ClientEpoch, token.Epoch)
		must(t, err)
		return live
	}
	first := f.consent(c.ID, "usr_1")
	if !live(first) {
		t.Fatal("a new consent is not live at once")
	}
	must(t, f.RevokeUser(f.ctx, f.caller.OrgID, c.ID, "usr_1"))
	second := f.consent(c.ID, "usr_1")
	if !live(second) {
		t.Error("a renewed consent is not live at once")
	}
	waittest.True(t, "the consent of a revoked user to end", func() bool { return !live(first) })
	must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
	third := f.consent(c.ID, "usr_1")
	if !live(third) {
		t.Error("a consent of the new epoch is not live at once")
	}
	waittest.True(t, "all consents to end", func() bool { return !live(second) })
	secret, err := f.Rotate(f.ctx, f.caller, c.ID)
	must(t, err)
	if _, err := other.CheckSecret(f.ctx, c.ID, secret); err != nil {
		t.Error("a new secret is not accepted at once", err)
	}
	waittest.True(t, "the old secret to be refused", func() bool {
		_, err := other.CheckSecret(f.ctx, c.ID, made.ClientSecret)
		return err != nil
	})
	must(t, f.Delete(f.ctx, f.caller.OrgID, c.ID, page.IfMatch{}))
	waittest.True(t, "the consent of a deleted client to end", func() bool { return !live(third) })
}
