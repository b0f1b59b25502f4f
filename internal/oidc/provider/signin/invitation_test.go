package signin_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

// otherOrg creates another organization.
func otherOrg(f *providertest.Fixture) (orgID string) {
	f.T.Helper()
	orgID = id.New(id.Org)
	providertest.Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'Other', 1)`, orgID)
		return err
	}))
	return orgID
}

// invite invites an address to an organization, and returns the invitation's id and the address of its
// link.
func invite(f *providertest.Fixture, orgID, email string, role auth.Role) (invitationID, link string) {
	f.T.Helper()
	ctx := auth.With(f.T.Context(), &auth.Caller{OrgID: orgID, UserID: f.UserID, Role: auth.Owner})
	m, token, err := f.Accounts.Invite(ctx, orgID, f.UserID, account.NewMember{Email: email, Role: role})
	providertest.Must(f.T, err)
	return m.ID, f.URL + "/invite/" + token
}

// role returns the role of a user in an organization, or "".
func role(f *providertest.Fixture, orgID, userID string) auth.Role {
	f.T.Helper()
	role, err := f.Accounts.Role(f.T.Context(), orgID, userID)
	if errs.KindOf(err) != errs.NotFound {
		providertest.Must(f.T, err)
	}
	return role
}

// signInAs signs in on the account page.
func signInAs(b *providertest.Browser, email, password string) *providertest.Browser {
	b.Fixture.T.Helper()
	b.Submit(b.Get(b.Fixture.URL+"/account"), "email", email, "password", password).Want(http.StatusSeeOther)
	return b
}

// isSignIn reports whether a page asks to sign in.
func isSignIn(r *providertest.Response) bool { return strings.Contains(r.Body, `action="/sign-in"`) }

// TestExistingUserAcceptsWhileSignedIn opens the link without a session, with that of another user, and
// with that of the user.
func TestExistingUserAcceptsWhileSignedIn(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := otherOrg(f)
		f.NewUser("stranger@example.com", "another password")
		_, link := invite(f, other, providertest.OwnerEmail, auth.Admin)
		b := f.Browser()
		stranger := signInAs(f.Browser(), "stranger@example.com", "another password")
		for _, who := range []*providertest.Browser{b, stranger} {
			got := who.Get(link).Want(http.StatusOK)
			if !isSignIn(got) || strings.Contains(got.Body, "new-password") ||
				!strings.Contains(got.Body, providertest.OwnerEmail) {
				t.Errorf("got %s", got.Body)
			}
			_, _, form := who.Get(f.URL + "/account").Form()
			values := url.Values{"csrf": {form.Get("csrf")}, "password": {"a stolen password"}, "action": {"approve"}}
			if !isSignIn(who.Do("POST", link, values).Want(http.StatusOK)) || role(f, other, f.UserID) != "" {
				t.Error("the invitation was answered by somebody else")
			}
		}
		answer := b.SignIn(b.Get(link))
		for _, want := range []string{
			"Join Other", "<strong>admin</strong>", "invites you", providertest.OwnerEmail,
		} {
			if !strings.Contains(answer.Body, want) {
				t.Errorf("the page does not have %q: %s", want, answer.Body)
			}
		}
		if role := role(f, other, f.UserID); role != "" {
			t.Fatalf("the user is %s without having agreed", role)
		}
		b.Submit(answer, "action", "other").Want(http.StatusOK)
		b.Submit(answer).Want(http.StatusSeeOther)
		if role(f, other, f.UserID) != auth.Admin || role(f, f.OrgID, f.UserID) != auth.Owner {
			t.Error("the user has not joined as admin")
		}
		b.Submit(answer).Want(http.StatusNotFound)
		signInAs(f.Browser(), providertest.OwnerEmail, providertest.OwnerPassword)
	})
}

func TestExistingUserDeclines(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := otherOrg(f)
		_, link := invite(f, other, providertest.OwnerEmail, auth.Admin)
		b := signInAs(f.Browser(), providertest.OwnerEmail, providertest.OwnerPassword)
		answer := b.Get(link)
		declined := b.Submit(answer, "action", "deny").Want(http.StatusOK)
		if !strings.Contains(declined.Body, "declined") || role(f, other, f.UserID) != "" {
			t.Errorf("got %s", declined.Body)
		}
		b.Submit(answer).Want(http.StatusNotFound)
		list, err := f.Accounts.Members(t.Context(), other)
		providertest.Must(t, err)
		if len(list) != 0 {
			t.Errorf("the organization has %+v", list)
		}
	})
}

// TestSecondOfTwoInvitationsAsksToSignIn opens both links before one of them is used.
func TestSecondOfTwoInvitationsAsksToSignIn(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := otherOrg(f)
		_, mine := invite(f, f.OrgID, "new@example.com", auth.Viewer)
		_, theirs := invite(f, other, "new@example.com", auth.Owner)
		b, thief := f.Browser(), f.Browser()
		page := thief.Get(theirs).Want(http.StatusOK)
		b.Submit(b.Get(mine), "password", "a first password").Want(http.StatusSeeOther)
		if !isSignIn(thief.Submit(page, "password", "a stolen password").Want(http.StatusOK)) || thief.SignedIn() {
			t.Error("the second link has set a password")
		}
		user, err := f.Accounts.LoginByEmail(t.Context(), "new@example.com")
		providertest.Must(t, err)
		if role(f, f.OrgID, user.ID) != auth.Viewer || role(f, other, user.ID) != "" {
			t.Error("the user belongs to another organization than the first")
		}
		signInAs(f.Browser(), "new@example.com", "a first password")
		b.Submit(b.Get(theirs)).Want(http.StatusSeeOther)
		if role(f, other, user.ID) != auth.Owner {
			t.Error("the user has not joined")
		}
	})
}

// TestUserOfNoOrganizationSignsInToAccept has a user who was removed from the only organization. The
// session is good for the invitation alone until that is accepted.
func TestUserOfNoOrganizationSignsInToAccept(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, first := invite(f, f.OrgID, "new@example.com", auth.Viewer)
		b := f.Browser()
		b.Submit(b.Get(first), "password", "a first password").Want(http.StatusSeeOther)
		user, err := f.Accounts.LoginByEmail(t.Context(), "new@example.com")
		providertest.Must(t, err)
		owner := &auth.Caller{OrgID: f.OrgID, UserID: f.UserID, Role: auth.Owner}
		providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, owner, user.ID, page.IfMatch{}))
		other := otherOrg(f)
		_, link := invite(f, other, "new@example.com", auth.Member)
		again := f.Browser()
		again.Submit(again.Get(f.URL+"/account"), "email", "new@example.com", "password", "a first password").
			Want(http.StatusBadRequest)
		again.Submit(again.Get(link), "password", "a wrong password").Want(http.StatusBadRequest)
		answer := again.Follow(again.Submit(again.Get(link), "password", "a first password")).Want(http.StatusOK)
		if again.SignedIn() {
			t.Error("a user without an organization is signed in")
		}
		if again.Submit(answer).Want(http.StatusSeeOther); !again.SignedIn() ||
			role(f, other, user.ID) != auth.Member {
			t.Error("the user has not joined")
		}
	})
}

// TestPromotedViewersLinkIsVoid keeps the link of a viewer, made by an admin, until the viewer is an
// owner.
func TestPromotedViewersLinkIsVoid(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		otherOrg(f)
		_, link := invite(f, f.OrgID, "new@example.com", auth.Viewer)
		b := f.Browser()
		b.Submit(b.Get(link), "password", "a first password").Want(http.StatusSeeOther)
		user, err := f.Accounts.LoginByEmail(t.Context(), "new@example.com")
		providertest.Must(t, err)
		admin := &auth.Caller{OrgID: f.OrgID, UserID: "usr_admin", Role: auth.Admin}
		token, _, err := f.Accounts.ResetPassword(auth.With(t.Context(), admin), admin, user.ID)
		providertest.Must(t, err)
		thief := f.Browser()
		opened := thief.Get(f.URL + "/reset/" + token).Want(http.StatusOK)
		owner := &auth.Caller{OrgID: f.OrgID, UserID: f.UserID, Role: auth.Owner}
		_, err = f.Accounts.ChangeMember(f.Ctx, owner, user.ID, page.IfMatch{},
			account.MemberPatch{Role: page.Some(auth.Owner)})
		providertest.Must(t, err)
		thief.Get(f.URL + "/reset/" + token).Want(http.StatusNotFound)
		thief.Submit(opened, "password", "a stolen password").Want(http.StatusNotFound)
		if thief.SignedIn() || !b.SignedIn() {
			t.Error("the link of the viewer works for the owner")
		}
	})
}

// TestInvitedMemberSetsAndChangesThePassword goes from the invitation to the account page.
func TestInvitedMemberSetsAndChangesThePassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, token, err := f.Accounts.Invite(f.Ctx, f.OrgID, f.UserID, member("new@example.com"))
		providertest.Must(t, err)
		b := f.Browser()
		page := b.Get(f.URL + "/invite/" + token).Want(http.StatusOK)
		for _, refused := range []string{"too short", "Password123!", "new@example.com"} {
			b.Submit(page, "password", refused).Want(http.StatusBadRequest)
		}
		in := b.Submit(page, "password", "a first password").Want(http.StatusSeeOther)
		if to := in.Header.Get("Location"); to != "/console/sign-in" {
			t.Errorf("the invitation leads to %q", to)
		}
		mine := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(mine.Body, "new@example.com") || !strings.Contains(mine.Body, ">current<") {
			t.Fatalf("not signed in: %s", mine.Body)
		}
		b.Get(f.URL + "/invite/" + token).Want(http.StatusNotFound)
		b.Submit(page, "password", "another password").Want(http.StatusNotFound)

		elsewhere := f.Browser()
		signIn := func(email, password string) *providertest.Response {
			return elsewhere.Submit(elsewhere.Get(f.URL+"/account"), "email", email, "password", password)
		}
		there := elsewhere.Follow(signIn("NEW@example.com", "a first password")).Want(http.StatusOK)
		if !strings.Contains(there.Body, "Your account") {
			t.Fatal("the first password does not work")
		}
		b.Submit(mine, "password", "wrong", "new_password", "a second password").Want(http.StatusBadRequest)
		for _, refused := range []string{"too short", "1234567890", "new@example.com"} {
			b.Submit(mine, "password", "a first password", "new_password", refused).Want(http.StatusBadRequest)
		}
		b.Submit(mine, "password", "a first password", "new_password", "a second password").Want(http.StatusOK)
		if strings.Contains(elsewhere.Get(f.URL+"/account").Body, "Your account") {
			t.Error("the other session has not ended with the change of the password")
		}
		signIn("new@example.com", "a first password").Want(http.StatusBadRequest)
		signIn("new@example.com", "a second password").Want(http.StatusSeeOther)

		list := b.Get(f.URL + "/account").Want(http.StatusOK)
		forms := providertest.FormTag.FindAllString(list.Body, -1)
		var targets []string
		for _, text := range forms {
			_, action, _ := (&providertest.Response{T: t, Status: 200, Body: text}).Form()
			targets = append(targets, action)
		}
		want := []string{
			"/account/password", "/account/profile", "/account/keys", "/account/sessions",
			"/account/sessions", "/account/sign-out",
		}
		if !slices.Equal(targets, want) || !strings.Contains(list.Body, `current</span><br>`) {
			t.Errorf("the forms are %v, want %v", targets, want)
		}
	})
}

func member(email string) account.NewMember {
	return account.NewMember{Email: email, Role: auth.Member}
}
