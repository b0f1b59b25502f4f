package federation_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
	"steward/internal/page"
)

func TestVerifiedAddressAcceptsAnInvitation(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		u := f.NewUpstream(s.Settings())
		b := f.Browser()
		s.Say(claims{"email": "anna@example.org", "email_verified": true})
		wantRefused(s.Enter(b, u), b) // not invited
		f.Invite(f.OrgID, "anna@example.org", auth.Admin)
		s.Say(claims{"email": "anna@example.org", "email_verified": false})
		wantRefused(s.Enter(b, u), b)
		s.Say(claims{"email": "anna@example.org"})
		wantRefused(s.Enter(b, u), b)
		s.Say(claims{"email": "Anna@example.org", "email_verified": "true", "given_name": "Anna"})
		anna := b.WantIn(s.Enter(b, u))
		if got := f.Role(f.OrgID, anna); got != auth.Admin {
			t.Errorf("the invited person has the role %q", got)
		}
		login, err := f.Accounts.UserByID(t.Context(), anna)
		providertest.Must(t, err)
		if login.Email != "" || login.FirstName != "Anna" {
			t.Errorf("the account is %+v, and the provider does not decide about the domain", login)
		}
		f.Provider.Upstreams.Store.Domains.Granted["granted.example"] = f.OrgID
		f.Invite(f.OrgID, "bob@granted.example", auth.Viewer)
		s.Say(claims{"sub": "bob", "email": "bob@granted.example", "email_verified": true})
		b = f.Browser()
		bob := b.WantIn(s.Enter(b, u))
		if login, err = f.Accounts.UserByEmail(t.Context(), "bob@granted.example"); err != nil || login.ID != bob {
			t.Errorf("the account in a domain of the organization is %+v, %v", login, err)
		}
		// An invitation as owner is accepted with its link: an admin decides what the provider says.
		f.Invite(f.OrgID, "boss@example.org", auth.Owner)
		s.Say(claims{"sub": "boss", "email": "boss@example.org", "email_verified": true})
		other := f.Browser()
		wantRefused(s.Enter(other, u), other)
	})
}

// TestNobodyJoinsADeletedOrganization has a member who can still sign in, an invited person, and a stranger.
func TestNobodyJoinsADeletedOrganization(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	s.Say(claims{"sub": "anna"})
	b := f.Browser()
	anna := b.WantIn(s.Enter(b, u))
	f.Invite(f.OrgID, "bob@example.org", auth.Member)
	providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE orgs SET deleted_at = 1 WHERE id = $1`, f.OrgID)
		return err
	}))
	b = f.Browser()
	if got := b.WantIn(s.Enter(b, u)); got != anna {
		t.Errorf("%s came back as %q", anna, got)
	}
	for sub, email := range map[string]string{"bob": "bob@example.org", "carl": "carl@example.org"} {
		s.Say(claims{"sub": sub, "email": email, "email_verified": true})
		b := f.Browser()
		wantRefused(s.Enter(b, u), b)
	}
}

func TestChangedAddressOpensNoOtherAccount(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	b := f.Browser()
	s.Say(claims{"email": "anna@example.org", "email_verified": true})
	anna := b.WantIn(s.Enter(b, u))
	s.Say(claims{"email": providertest.OwnerEmail, "email_verified": true})
	b = f.Browser()
	if got := b.WantIn(s.Enter(b, u)); got != anna {
		t.Errorf("with a changed address, %s became %s", anna, got)
	}
	login, err := f.Accounts.UserByID(t.Context(), anna)
	providertest.Must(t, err)
	if login.Email != "" {
		t.Errorf("the account took the address %s", login.Email)
	}
}

// TestIdentityNeverTakesOverAUser has users whom a provider must not sign in: a member with a password, one
// without, as users of passkeys are, and a user of another organization.
func TestIdentityNeverTakesOverAUser(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		f.NewUser("other@example.org", "a password of another")
		f.Provider.Upstreams.Store.Domains.Granted["granted.example"] = f.OrgID
		f.NewUser("victim@granted.example", "a password of another")
		u := f.NewUpstream(s.Welcoming())
		for i, email := range []string{providertest.OwnerEmail, "victim@granted.example"} {
			b := f.Browser()
			s.Say(claims{"sub": email, "email": email, "email_verified": true})
			wantRefused(s.Enter(b, u), b)
			if i == 0 { // a passkey alone is no password
				providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
					_, err := tx.Exec(`UPDATE users SET password_hash = NULL WHERE id = $1`, f.UserID)
					return err
				}))
				wantRefused(s.Enter(b, u), b)
			}
		}
		// The provider does not learn that an address of a domain which is not the organization's has an account.
		b := f.Browser()
		s.Say(claims{"sub": "x", "email": "other@example.org", "email_verified": true})
		created := b.WantIn(s.Enter(b, u))
		other, err := f.Accounts.UserByEmail(t.Context(), "other@example.org")
		providertest.Must(t, err)
		if created == other.ID {
			t.Error("the provider has signed in a user of another organization")
		}
		// Nor does an invitation give the account away.
		f.Invite(f.OrgID, "other@example.org", auth.Member)
		b = f.Browser()
		s.Say(claims{"sub": "y", "email": "other@example.org", "email_verified": true})
		wantRefused(s.Enter(b, u), b)
	})
}

func TestIdentityIsNotUsedForAUserWithAnotherWayIn(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		u := f.NewUpstream(s.Welcoming())
		b := f.Browser()
		anna := b.WantIn(s.Enter(b, u))
		change := func(sql string, args ...any) {
			providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(sql, args...)
				return err
			}))
		}
		b = f.Browser()
		change(`UPDATE users SET password_hash = 'x' WHERE id = $1`, anna)
		wantRefused(s.Enter(b, u), b)
		change(`UPDATE users SET password_hash = NULL WHERE id = $1`, anna)
		change(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ('org_2', $1, 'viewer', 1, 1, 1)`, anna)
		wantRefused(s.Enter(b, u), b)
		change(`DELETE FROM members WHERE org_id = 'org_2' AND user_id = $1`, anna)
		b.WantIn(s.Enter(b, u))
	})
}

func TestRemovedAndDisabledMembersStayOut(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		u := f.NewUpstream(s.Welcoming())
		s.Say(claims{"email": "anna@example.org", "email_verified": true})
		b := f.Browser()
		anna := b.WantIn(s.Enter(b, u))
		caller := auth.From(f.Ctx)
		for _, disabled := range []bool{true, false} {
			_, err := f.Accounts.ChangeMember(f.Ctx, caller, anna, page.IfMatch{}, account.MemberPatch{Disabled: page.Some(disabled)})
			providertest.Must(t, err)
			b = f.Browser()
			if r := s.Enter(b, u); disabled {
				wantRefused(r, b)
			} else if got := b.WantIn(r); got != anna {
				t.Errorf("the enabled member is %s", got)
			}
		}
		providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, caller, anna, page.IfMatch{}))
		b = f.Browser()
		wantRefused(s.Enter(b, u), b)
		f.Invite(f.OrgID, "anna@example.org", auth.Admin)
		if got := b.WantIn(s.Enter(b, u)); got != anna || f.Role(f.OrgID, anna) != auth.Admin {
			t.Errorf("the member who was invited again is %s with the role %s", got, f.Role(f.OrgID, got))
		}
	})
}

func TestGroupsDecideRoles(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		n := s.Welcoming()
		n.GroupsClaim = page.Some("teams")
		n.GroupRoles = page.Some([]upstream.GroupRole{{Group: "staff", Role: auth.Viewer}, {Group: "leads", Role: auth.Admin}})
		u := f.NewUpstream(n)
		enter := func(subject string, groups any) string {
			t.Helper()
			b := f.Browser()
			s.Say(claims{"sub": subject, "teams": groups})
			return b.WantIn(s.Enter(b, u))
		}
		anna := enter("anna", []string{"staff", "leads"})
		if got := f.Role(f.OrgID, anna); got != auth.Admin {
			t.Errorf("of two groups, the role is %q", got)
		}
		enter("anna", "staff")
		if got := f.Role(f.OrgID, anna); got != auth.Viewer {
			t.Errorf("after leaving a group, the role is %q", got)
		}
		if got := f.Role(f.OrgID, enter("bob", nil)); got != auth.Member {
			t.Errorf("without a group, the role is %q", got)
		}

		link := func(userID, subject string) {
			providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
				return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
					OrgID: f.OrgID, Issuer: s.URL, Subject: subject, UserID: userID, Linked: true,
				})
			}))
		}
		link(f.UserID, "boss")
		enter("boss", "staff")
		if got := f.Role(f.OrgID, f.UserID); got != auth.Owner {
			t.Errorf("a table without owners has made the owner %q", got)
		}
		store := f.Provider.Upstreams.Store
		owners := upstream.Patch{Settings: upstream.Settings{GroupRoles: page.Some([]upstream.GroupRole{
			{Group: "staff", Role: auth.Viewer}, {Group: "bosses", Role: auth.Owner},
		})}}
		admin := &auth.Caller{UserID: anna, OrgID: f.OrgID, Role: auth.Admin}
		if _, err := store.Update(auth.With(t.Context(), admin), admin, upstream.Change{ID: u.ID}, owners); errs.KindOf(err) != errs.Forbidden {
			t.Errorf("an admin names owners: %v", err)
		}
		_, err := store.Update(f.Ctx, auth.From(f.Ctx), upstream.Change{ID: u.ID}, owners)
		providertest.Must(t, err)
		issuer := upstream.Patch{Issuer: page.Some("https://evil.example"), Settings: upstream.Settings{ClientSecret: page.Some("x")}}
		if _, err := store.Update(auth.With(t.Context(), admin), admin, upstream.Change{ID: u.ID}, issuer); errs.KindOf(err) != errs.Forbidden {
			t.Errorf("an admin changes the provider of owners: %v", err)
		}
		enter("boss", "staff")
		if got := f.Role(f.OrgID, f.UserID); got != auth.Owner {
			t.Errorf("the last owner has become %q", got)
		}
		enter("anna", "bosses")
		enter("boss", "staff")
		if got := f.Role(f.OrgID, anna) + " " + f.Role(f.OrgID, f.UserID); got != "owner viewer" {
			t.Errorf("with owners in the table, the roles are %q", got)
		}
	})
}

// TestGroupsAreClaims tells an application of the organization the groups of the last sign-in, as long as the
// provider is used.
func TestGroupsAreClaims(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.NewApp(`{"redirect_uris": ["https://rp.example.com/callback"], "scopes": ["openid", "organization"]}`)
		s := f.NewStranger()
		n := s.Welcoming()
		n.GroupsClaim = page.Some("teams")
		u := f.NewUpstream(n)
		var token string
		enter := func(groups any) {
			t.Helper()
			b := f.Browser()
			s.Say(claims{"sub": "anna", "teams": groups})
			b.WantIn(s.Enter(b, u))
			code := b.Complete(b.Get(app.AuthorizeURL("scope", "openid organization"))).Get("code")
			token = app.Redeem(code).Want(http.StatusOK).Text("access_token")
		}
		wantGroups := func(want ...any) {
			t.Helper()
			if diff := cmp.Diff(append([]any{}, want...), f.Userinfo(token).Want(http.StatusOK).JSON()["groups"]); diff != "" {
				t.Error(diff)
			}
		}
		enter([]string{"staff", "leads", "staff", "", strings.Repeat("x", 257)})
		wantGroups("leads", "staff")
		enter(nil)
		wantGroups()
		var many []string
		for i := range 300 {
			many = append(many, fmt.Sprintf("%03d", i))
		}
		enter(many)
		if got := f.Userinfo(token).Want(http.StatusOK).JSON()["groups"].([]any); len(got) != 200 || got[199] != "199" {
			t.Errorf("%d of 300 groups are kept: %v", len(got), got)
		}
		_, err := f.Provider.Upstreams.Store.Update(f.Ctx, auth.From(f.Ctx), upstream.Change{ID: u.ID},
			upstream.Patch{Settings: upstream.Settings{Enabled: page.Some(false)}})
		providertest.Must(t, err)
		wantGroups()
	})
}

func TestOrganizationCannotTakeAddressesOfOthers(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	b := f.Browser()
	s.Say(claims{"email": "ceo@bank.example", "email_verified": true})
	b.WantIn(s.Enter(b, u))
	_, token, err := f.Accounts.Invite(f.Ctx, "org_of_the_bank", f.UserID, account.NewMember{Email: "ceo@bank.example", Role: auth.Owner})
	providertest.Must(t, err)
	var users int
	providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT count(*) FROM users WHERE email = 'ceo@bank.example'`).Scan(&users))
	if users != 0 || token == "" {
		t.Error("the real owner of the address cannot register any more")
	}
}
