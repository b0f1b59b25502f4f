package provider

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
)

// invite invites an address to an organization, and returns the invitation's id and the address of its
// link.
func (f *fixture) invite(orgID, email string, role auth.Role) (invitationID, link string) {
	f.t.Helper()
	ctx := auth.With(f.t.Context(), &auth.Caller{OrgID: orgID, UserID: f.userID, Role: auth.Owner})
	m, token, err := f.accounts.Invite(ctx, orgID, f.userID, account.NewMember{Email: email, Role: role})
	must(f.t, err)
	return m.ID, f.url + "/invite/" + token
}

// role returns the role of a user in an organization, or "".
func (f *fixture) role(orgID, userID string) auth.Role {
	f.t.Helper()
	role, err := f.accounts.Role(f.t.Context(), orgID, userID)
	if errs.KindOf(err) != errs.NotFound {
		must(f.t, err)
	}
	return role
}

// signInAs signs in on the account page.
func (b *browser) signInAs(email, password string) *browser {
	b.f.t.Helper()
	b.submit(b.get(b.f.url+"/account"), "email", email, "password", password).want(http.StatusSeeOther)
	return b
}

// isSignIn reports whether a page asks to sign in.
func (r *response) isSignIn() bool { return strings.Contains(r.body, `action="/sign-in"`) }

// TestExistingUserAcceptsWhileSignedIn opens the link without a session, with that of another user, and
// with that of the user.
func TestExistingUserAcceptsWhileSignedIn(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.otherOrg()
		f.newUser("stranger@example.com", "another password")
		_, link := f.invite(other, ownerEmail, auth.Admin)
		b := f.browser()
		stranger := f.browser().signInAs("stranger@example.com", "another password")
		for _, who := range []*browser{b, stranger} {
			got := who.get(link).want(http.StatusOK)
			if !got.isSignIn() || strings.Contains(got.body, "new-password") || !strings.Contains(got.body, ownerEmail) {
				t.Errorf("got %s", got.body)
			}
			_, _, form := who.get(f.url + "/account").form()
			values := url.Values{"csrf": {form.Get("csrf")}, "password": {"a stolen password"}, "action": {"approve"}}
			if !who.do("POST", link, values).want(http.StatusOK).isSignIn() || f.role(other, f.userID) != "" {
				t.Error("the invitation was answered by somebody else")
			}
		}
		answer := b.signIn(b.get(link))
		for _, want := range []string{"Join Other", "<strong>admin</strong>", "invites you", ownerEmail} {
			if !strings.Contains(answer.body, want) {
				t.Errorf("the page does not have %q: %s", want, answer.body)
			}
		}
		if role := f.role(other, f.userID); role != "" {
			t.Fatalf("the user is %s without having agreed", role)
		}
		b.submit(answer, "action", "other").want(http.StatusOK)
		b.submit(answer).want(http.StatusSeeOther)
		if f.role(other, f.userID) != auth.Admin || f.role(f.orgID, f.userID) != auth.Owner {
			t.Error("the user has not joined as admin")
		}
		b.submit(answer).want(http.StatusNotFound)
		f.browser().signInAs(ownerEmail, ownerPassword)
	})
}

func TestExistingUserDeclines(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.otherOrg()
		_, link := f.invite(other, ownerEmail, auth.Admin)
		b := f.browser().signInAs(ownerEmail, ownerPassword)
		answer := b.get(link)
		declined := b.submit(answer, "action", "deny").want(http.StatusOK)
		if !strings.Contains(declined.body, "declined") || f.role(other, f.userID) != "" {
			t.Errorf("got %s", declined.body)
		}
		b.submit(answer).want(http.StatusNotFound)
		list, err := f.accounts.Members(t.Context(), other)
		must(t, err)
		if len(list) != 0 {
			t.Errorf("the organization has %+v", list)
		}
	})
}

// TestSecondOfTwoInvitationsAsksToSignIn opens both links before one of them is used.
func TestSecondOfTwoInvitationsAsksToSignIn(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.otherOrg()
		_, mine := f.invite(f.orgID, "new@example.com", auth.Viewer)
		_, theirs := f.invite(other, "new@example.com", auth.Owner)
		b, thief := f.browser(), f.browser()
		page := thief.get(theirs).want(http.StatusOK)
		b.submit(b.get(mine), "password", "a first password").want(http.StatusSeeOther)
		if !thief.submit(page, "password", "a stolen password").want(http.StatusOK).isSignIn() || thief.signedIn() {
			t.Error("the second link has set a password")
		}
		user, err := f.accounts.LoginByEmail(t.Context(), "new@example.com")
		must(t, err)
		if f.role(f.orgID, user.ID) != auth.Viewer || f.role(other, user.ID) != "" {
			t.Error("the user belongs to another organization than the first")
		}
		f.browser().signInAs("new@example.com", "a first password")
		b.submit(b.get(theirs)).want(http.StatusSeeOther)
		if f.role(other, user.ID) != auth.Owner {
			t.Error("the user has not joined")
		}
	})
}

// TestUserOfNoOrganizationSignsInToAccept has a user who was removed from the only organization. The
// session is good for the invitation alone until that is accepted.
func TestUserOfNoOrganizationSignsInToAccept(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		_, first := f.invite(f.orgID, "new@example.com", auth.Viewer)
		b := f.browser()
		b.submit(b.get(first), "password", "a first password").want(http.StatusSeeOther)
		user, err := f.accounts.LoginByEmail(t.Context(), "new@example.com")
		must(t, err)
		owner := &auth.Caller{OrgID: f.orgID, UserID: f.userID, Role: auth.Owner}
		must(t, f.accounts.RemoveMember(f.ctx, owner, user.ID, page.IfMatch{}))
		other := f.otherOrg()
		_, link := f.invite(other, "new@example.com", auth.Member)
		again := f.browser()
		again.submit(again.get(f.url+"/account"), "email", "new@example.com", "password", "a first password").
			want(http.StatusBadRequest)
		again.submit(again.get(link), "password", "a wrong password").want(http.StatusBadRequest)
		answer := again.follow(again.submit(again.get(link), "password", "a first password")).want(http.StatusOK)
		if again.signedIn() {
			t.Error("a user without an organization is signed in")
		}
		if again.submit(answer).want(http.StatusSeeOther); !again.signedIn() || f.role(other, user.ID) != auth.Member {
			t.Error("the user has not joined")
		}
	})
}

// TestPromotedViewersLinkIsVoid keeps the link of a viewer, made by an admin, until the viewer is an
// owner.
func TestPromotedViewersLinkIsVoid(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.otherOrg()
		_, link := f.invite(f.orgID, "new@example.com", auth.Viewer)
		b := f.browser()
		b.submit(b.get(link), "password", "a first password").want(http.StatusSeeOther)
		user, err := f.accounts.LoginByEmail(t.Context(), "new@example.com")
		must(t, err)
		admin := &auth.Caller{OrgID: f.orgID, UserID: "usr_admin", Role: auth.Admin}
		token, _, err := f.accounts.ResetPassword(auth.With(t.Context(), admin), admin, user.ID)
		must(t, err)
		thief := f.browser()
		opened := thief.get(f.url + "/reset/" + token).want(http.StatusOK)
		owner := &auth.Caller{OrgID: f.orgID, UserID: f.userID, Role: auth.Owner}
		_, err = f.accounts.ChangeMember(f.ctx, owner, user.ID, page.IfMatch{}, account.MemberPatch{Role: page.Some(auth.Owner)})
		must(t, err)
		thief.get(f.url + "/reset/" + token).want(http.StatusNotFound)
		thief.submit(opened, "password", "a stolen password").want(http.StatusNotFound)
		if thief.signedIn() || !b.signedIn() {
			t.Error("the link of the viewer works for the owner")
		}
	})
}

func TestUsersChangeTheirProfile(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := f.newUser("other@example.com", "another password")
		b := f.browser().signInAs(ownerEmail, ownerPassword)
		b.post("/account/profile", "first_name", "Ada", "photo_url", "http://a.example/p.png").want(http.StatusBadRequest)
		b.post("/account/profile", "first_name", "A\u202eda").want(http.StatusBadRequest)
		b.post("/account/profile", "first_name", " Ada ", "last_name", "Lovelace", "photo_url", "https://a.example/p.png").
			want(http.StatusSeeOther)
		user, err := f.accounts.LoginByID(t.Context(), f.userID)
		must(t, err)
		if user.FirstName != "Ada" || user.LastName != "Lovelace" || user.PhotoURL != "https://a.example/p.png" {
			t.Errorf("got %+v", user)
		}
		if got := b.get(f.url + "/account"); !strings.Contains(got.body, `value="Lovelace"`) {
			t.Errorf("got %s", got.body)
		}
		b.post("/account/profile", "first_name", "Ada").want(http.StatusSeeOther)
		user, err = f.accounts.LoginByID(t.Context(), f.userID)
		must(t, err)
		if user.LastName != "" || user.PhotoURL != "" {
			t.Errorf("got %+v", user)
		}
		if user, err = f.accounts.LoginByID(t.Context(), other); err != nil || user.FirstName != "" {
			t.Errorf("another user is %+v, %v", user, err)
		}
		entries := f.entries()
		if e := entries[len(entries)-1]; e.Action != "user.update" || *e.UserID != f.userID {
			t.Errorf("the audit log has %+v", e)
		}
	})
}
