package links_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

func TestLinksOfInvitationsAreNotGuessed(t *testing.T) {
	f := providertest.OnSQLite(t)
	link := f.Invite(f.OrgID, "grace@example.com", auth.Member)
	b := f.Browser()
	for range 40 {
		b.Get(link).Want(http.StatusOK) // a valid one is not counted
	}
	statuses := map[int]int{}
	for range 20 {
		statuses[b.Get(f.URL+"/invite/unknown").Status]++
		statuses[b.Get(f.URL+"/invite/unknown/passkey").Status]++
	}
	if statuses[http.StatusNotFound] != 30 || statuses[http.StatusTooManyRequests] != 10 {
		t.Errorf("got %v", statuses)
	}
}

// TestUserOfNoOrganizationNeedsTheSecondFactorToAccept has a user who has left all organizations follow an
// invitation.
func TestUserOfNoOrganizationNeedsTheSecondFactorToAccept(t *testing.T) {
	f := providertest.OnSQLite(t)
	first := f.Invite(f.OrgID, "new@example.com", auth.Viewer)
	b := f.Browser()
	b.Submit(b.Get(first), "password", "a first password").Want(http.StatusSeeOther)
	app := b.AddApp()
	user, err := f.Accounts.UserByEmail(t.Context(), "new@example.com")
	providertest.Must(t, err)
	providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, auth.From(f.Ctx), user.ID, page.IfMatch{}))
	other := f.NewOrg()
	link := f.Invite(other, "new@example.com", auth.Member)
	again := f.Browser()
	asked := again.Submit(again.Get(link), "password", "a first password").Want(http.StatusOK)
	if !asked.IsCode() {
		t.Fatalf("no code is asked for: %s", asked.Body)
	}
	answer := again.Follow(again.Submit(asked, "code", app.Code())).Want(http.StatusOK)
	again.Submit(answer).Want(http.StatusSeeOther)
	if f.Role(other, user.ID) != auth.Member {
		t.Error("the user has not joined")
	}
}

// TestExistingUserAcceptsWhileSignedIn opens the link without a session, with that of another user, and
// with that of the user.
func TestExistingUserAcceptsWhileSignedIn(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := f.NewOrg()
		f.NewUser("stranger@example.com", "another password")
		link := f.Invite(other, providertest.OwnerEmail, auth.Admin)
		b := f.Browser()
		stranger := f.Browser().SignInAs("stranger@example.com", "another password")
		for _, who := range []*providertest.Browser{b, stranger} {
			got := who.Get(link).Want(http.StatusOK)
			if !got.IsSignIn() || strings.Contains(got.Body, "new-password") ||
				!strings.Contains(got.Body, providertest.OwnerEmail) {
				t.Errorf("got %s", got.Body)
			}
			_, _, form := who.Get(f.URL + "/account").Form()
			values := url.Values{"csrf": {form.Get("csrf")}, "password": {"a stolen password"}, "action": {"approve"}}
			if !who.Do("POST", link, values).Want(http.StatusOK).IsSignIn() || f.Role(other, f.UserID) != "" {
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
		if role := f.Role(other, f.UserID); role != "" {
			t.Fatalf("the user is %s without having agreed", role)
		}
		b.Submit(answer, "action", "other").Want(http.StatusOK)
		b.Submit(answer).Want(http.StatusSeeOther)
		if f.Role(other, f.UserID) != auth.Admin || f.Role(f.OrgID, f.UserID) != auth.Owner {
			t.Error("the user has not joined as admin")
		}
		b.Submit(answer).Want(http.StatusNotFound)
		f.Browser().SignInAs(providertest.OwnerEmail, providertest.OwnerPassword)
	})
}

func TestExistingUserDeclines(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := f.NewOrg()
		link := f.Invite(other, providertest.OwnerEmail, auth.Admin)
		b := f.Browser().SignInAs(providertest.OwnerEmail, providertest.OwnerPassword)
		answer := b.Get(link)
		declined := b.Submit(answer, "action", "deny").Want(http.StatusOK)
		if !strings.Contains(declined.Body, "declined") || f.Role(other, f.UserID) != "" {
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
		other := f.NewOrg()
		mine := f.Invite(f.OrgID, "new@example.com", auth.Viewer)
		theirs := f.Invite(other, "new@example.com", auth.Owner)
		b, thief := f.Browser(), f.Browser()
		page := thief.Get(theirs).Want(http.StatusOK)
		b.Submit(b.Get(mine), "password", "a first password").Want(http.StatusSeeOther)
		if !thief.Submit(page, "password", "a stolen password").Want(http.StatusOK).IsSignIn() || thief.SignedIn() {
			t.Error("the second link has set a password")
		}
		user, err := f.Accounts.UserByEmail(t.Context(), "new@example.com")
		providertest.Must(t, err)
		if f.Role(f.OrgID, user.ID) != auth.Viewer || f.Role(other, user.ID) != "" {
			t.Error("the user belongs to another organization than the first")
		}
		f.Browser().SignInAs("new@example.com", "a first password")
		b.Submit(b.Get(theirs)).Want(http.StatusSeeOther)
		if f.Role(other, user.ID) != auth.Owner {
			t.Error("the user has not joined")
		}
	})
}

// TestUserOfNoOrganizationSignsInToAccept has a user who was removed from the only organization. The
// session is good for the invitation alone until that is accepted.
func TestUserOfNoOrganizationSignsInToAccept(t *testing.T) {
	f := providertest.OnSQLite(t)
	first := f.Invite(f.OrgID, "new@example.com", auth.Viewer)
	b := f.Browser()
	b.Submit(b.Get(first), "password", "a first password").Want(http.StatusSeeOther)
	user, err := f.Accounts.UserByEmail(t.Context(), "new@example.com")
	providertest.Must(t, err)
	owner := &auth.Caller{OrgID: f.OrgID, UserID: f.UserID, Role: auth.Owner}
	providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, owner, user.ID, page.IfMatch{}))
	other := f.NewOrg()
	link := f.Invite(other, "new@example.com", auth.Member)
	again := f.Browser()
	again.Submit(again.Get(f.URL+"/account"), "email", "new@example.com", "password", "a first password").
		Want(http.StatusBadRequest)
	again.Submit(again.Get(link), "password", "a wrong password").Want(http.StatusBadRequest)
	answer := again.Follow(again.Submit(again.Get(link), "password", "a first password")).Want(http.StatusOK)
	if again.SignedIn() {
		t.Error("a user without an organization is signed in")
	}
	if again.Submit(answer).Want(http.StatusSeeOther); !again.SignedIn() ||
		f.Role(other, user.ID) != auth.Member {
		t.Error("the user has not joined")
	}
}

// TestPromotedViewersLinkIsVoid keeps the link of a viewer, made by an admin, until the viewer is an
// owner.
func TestPromotedViewersLinkIsVoid(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.NewOrg()
		link := f.Invite(f.OrgID, "new@example.com", auth.Viewer)
		b := f.Browser()
		b.Submit(b.Get(link), "password", "a first password").Want(http.StatusSeeOther)
		user, err := f.Accounts.UserByEmail(t.Context(), "new@example.com")
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
	f := providertest.OnSQLite(t)
	link := f.Invite(f.OrgID, "new@example.com", auth.Member)
	b := f.Browser()
	page := b.Get(link).Want(http.StatusOK)
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
	b.Get(link).Want(http.StatusNotFound)
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
}

// TestInvitedPersonCreatesPasskeyInsteadOfPassword also checks that the link of a later invitation cannot
// set a password of an account that has none.
func TestInvitedPersonCreatesPasskeyInsteadOfPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		owner := &auth.Caller{UserID: f.UserID, OrgID: f.OrgID, Role: auth.Owner}
		link := f.Invite(f.OrgID, "grace@example.com", auth.Member)
		b, key := f.Browser(), f.NewAuthenticator()
		if !strings.Contains(b.Get(link).Want(http.StatusOK).Body, strings.TrimPrefix(link, f.URL)+"/passkey") {
			t.Fatal("the page of the invitation does not offer a passkey")
		}
		create := b.Get(link + "/passkey")
		elsewhere := f.Invite(f.OrgID, "ada@example.com", auth.Member)
		_, values, options := b.Get(elsewhere + "/passkey").Ceremony()
		values.Set("credential", f.NewAuthenticator().Create(options))
		b.Do("POST", link+"/passkey", values).Want(http.StatusBadRequest) // of another invitation
		done := b.AddPasskey(create, key).Want(http.StatusSeeOther)
		if to := done.Header.Get("Location"); to != "/console/sign-in" {
			t.Errorf("the invitation leads to %q", to)
		}
		account := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(account.Body, "grace@example.com") || !strings.Contains(account.Body, "You have no password") {
			t.Fatalf("got %s", account.Body)
		}
		b.Get(link + "/passkey").Want(http.StatusNotFound)

		user, err := f.Accounts.UserByEmail(t.Context(), "grace@example.com")
		providertest.Must(t, err)
		providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, owner, user.ID, page.IfMatch{}))
		back := f.Browser()
		again := f.Invite(f.OrgID, "grace@example.com", auth.Member)
		signIn := back.Get(again).Want(http.StatusOK)
		if strings.Contains(signIn.Body, "new-password") {
			t.Fatal("a link sets a password of an account that has none")
		}
		back.Get(again + "/passkey").Want(http.StatusSeeOther)
		join := back.Follow(back.UsePasskey(signIn, key).Want(http.StatusSeeOther))
		back.Submit(join).Want(http.StatusSeeOther)
		if !back.SignedIn() {
			t.Error("the user has not come back")
		}
	})
}
