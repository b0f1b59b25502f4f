package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
)

const victim = "victim@corp.example"

// foothold is what somebody has of an account that they have opened with another person's address: the owner of
// an organization has invited the address, and used the link that the API returned.
type foothold struct {
	f        *providertest.Fixture
	org      string // of the invitation
	userID   string
	browser  *providertest.Browser
	key      *providertest.Authenticator
	app      *providertest.App
	tokens   map[string]any
	provider *providertest.Stranger
	upstream upstream.Upstream
}

const theirPassword = "a password of mallory"

// openAccount opens an account with the address of the victim, and adds all ways to sign in but an
// authenticator app.
func openAccount(f *providertest.Fixture) *foothold {
	f.T.Helper()
	f.UseLocalhost()
	h := &foothold{f: f, org: f.NewOrg(), browser: f.Browser(), key: f.NewAuthenticator(), provider: f.NewStranger()}
	link := f.Invite(h.org, victim, auth.Member)
	h.browser.Submit(h.browser.Get(link), "password", theirPassword).Want(http.StatusSeeOther)
	h.userID = h.browser.CurrentUser()
	h.browser.AddPasskey(h.browser.Get(f.URL+"/account/passkeys"), h.key).Want(http.StatusOK)

	mallory := &auth.Caller{OrgID: h.org, UserID: "usr_mallory", Role: auth.Owner}
	var err error
	h.upstream, err = f.Provider.Upstreams.Store.Create(auth.With(f.T.Context(), mallory), mallory, h.provider.Settings())
	providertest.Must(f.T, err)
	left := h.browser.Post("/account/upstream", "upstream", h.upstream.ID)
	h.browser.Get(h.provider.Back(f, h.provider.Receive(left))).Want(http.StatusSeeOther)

	h.app = f.NewApp(providertest.Confidential)
	code := h.browser.Complete(h.browser.Get(h.app.AuthorizeURL())).Get("code")
	h.tokens = h.app.Redeem(code).Want(http.StatusOK).JSON()
	return h
}

// wantOut requires that nothing of the foothold acts as its user any more.
func (h *foothold) wantOut() {
	t := h.f.T
	t.Helper()
	if h.browser.SignedIn() {
		t.Error("the session goes on")
	}
	b := h.f.Browser()
	b.Submit(b.Get(h.f.URL+"/account"), "email", victim, "password", theirPassword).Want(http.StatusBadRequest)
	if b.UsePasskey(b.Get(h.f.URL+"/account"), h.key); b.SignedIn() {
		t.Error("the passkey signs in")
	}
	b = h.f.Browser()
	if h.provider.Enter(b, h.upstream); b.SignedIn() {
		t.Error("the account at the provider signs in")
	}
	h.app.Refresh(h.tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	h.app.WantInvalid(h.tokens["access_token"], "of the account that somebody else has opened")
	var consents int
	providertest.Must(t, h.f.DB.Read(t.Context()).Row(`SELECT count(*) FROM oidc_consents WHERE user_id = $1`, h.userID).
		Scan(&consents))
	if consents != 0 {
		t.Errorf("%d consents are left", consents)
	}
}

// TestMailedResetEndsWhatOthersHaveOfAnAccount has the victim of an invitation, which somebody else has answered,
// set a new password by mail and become an owner of another organization.
func TestMailedResetEndsWhatOthersHaveOfAnAccount(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		h := openAccount(f)
		_, invitation := f.InviteByMail(f.OrgID, victim, auth.Owner)
		b := f.Browser()
		b.Submit(b.Get(f.MailReset(victim)), "password", "a password of the victim").Want(http.StatusSeeOther)
		join := b.Get(invitation).Want(http.StatusOK)
		b.Submit(join, "action", "approve").Want(http.StatusSeeOther)
		if f.Role(f.OrgID, h.userID) != auth.Owner || f.Role(h.org, h.userID) != auth.Member {
			t.Error("the victim has not joined, or is not a member of the other organization any more")
		}
		h.wantOut()
		if !b.SignedIn() {
			t.Error("the victim is signed out")
		}
	})
}

// TestMailedResetOfAProvedAddressRemovesNothing has a user who has proved the address forget the password.
func TestMailedResetOfAProvedAddressRemovesNothing(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	_, invitation := f.InviteByMail(f.OrgID, victim, auth.Member)
	b, key := f.Browser(), f.NewAuthenticator()
	b.Submit(b.Get(invitation), "password", "a first password").Want(http.StatusSeeOther)
	b.AddPasskey(b.Get(f.URL+"/account/passkeys"), key).Want(http.StatusOK)
	b.Submit(b.Get(f.MailReset(victim)), "password", "a second password").Want(http.StatusSeeOther)
	if other := f.Browser(); true {
		other.UsePasskey(other.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
	}
}

// TestAuthenticatorAppOfSomebodyElseDoesNotKeepThePersonOut has somebody else add an authenticator app to an
// account that they have opened: nobody gets in by the mailed link alone, and a mailed invitation makes a new
// account with the address.
func TestAuthenticatorAppOfSomebodyElseDoesNotKeepThePersonOut(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		h := openAccount(f)
		h.browser.AddApp()
		_, invitation := f.InviteByMail(f.OrgID, victim, auth.Owner)
		b := f.Browser()
		asked := b.Submit(b.Get(f.MailReset(victim)), "password", "a password of the victim").Want(http.StatusOK)
		if !asked.IsCode() || b.SignedIn() {
			t.Fatalf("no code is asked for: %s", asked.Body)
		}
		h.wantOut()
		choice := b.Get(invitation).Want(http.StatusOK)
		if choice.IsSignIn() || !strings.Contains(choice.Body, victim) {
			t.Fatalf("the invitation offers no new account: %s", choice.Body)
		}
		create := b.Submit(choice, "account", "new").Want(http.StatusOK)
		b.Submit(create, "password", "another password of the victim").Want(http.StatusSeeOther)
		got := b.CurrentUser()
		if got == h.userID || f.Role(f.OrgID, got) != auth.Owner || f.Role(f.OrgID, h.userID) != "" {
			t.Errorf("the new owner is %q, with the role %q", got, f.Role(f.OrgID, got))
		}
		if f.Role(h.org, h.userID) != auth.Member || f.Role(h.org, got) != "" {
			t.Error("the memberships have moved")
		}
		login, err := f.Accounts.UserByEmail(t.Context(), victim)
		if err != nil || login.ID != got || !login.EmailVerified {
			t.Errorf("the address belongs to %+v, %v", login, err)
		}
		old, err := f.Accounts.UserByID(t.Context(), h.userID)
		if err != nil || old.Email != "" || old.EmailVerified {
			t.Errorf("the old account is %+v, %v", old, err)
		}
	})
}

// verified reports whether the address of a user is proved.
func verified(f *providertest.Fixture, userID string) bool {
	f.T.Helper()
	login, err := f.Accounts.UserByID(f.T.Context(), userID)
	providertest.Must(f.T, err)
	return login.EmailVerified
}

// TestMailedInvitationEndsWhatOthersHaveOfAnAccount has a person sign in to an account to accept, whose password
// somebody else knows too.
func TestMailedInvitationEndsWhatOthersHaveOfAnAccount(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		h := openAccount(f)
		app := h.browser.AddApp()
		_, invitation := f.InviteByMail(f.OrgID, victim, auth.Owner)
		b := f.Browser()
		signIn := b.Submit(b.Get(invitation)).Want(http.StatusOK)
		asked := b.Submit(signIn, "password", theirPassword).Want(http.StatusOK)
		join := b.Follow(b.Submit(asked, "code", app.Code())).Want(http.StatusOK)
		b.Submit(join, "password", "too short").Want(http.StatusBadRequest)
		if f.Role(f.OrgID, h.userID) != "" || verified(f, h.userID) {
			t.Fatal("the user has joined, or proved the address, without a new password")
		}
		b.Submit(join, "password", "a password of the victim").Want(http.StatusSeeOther)
		if f.Role(f.OrgID, h.userID) != auth.Owner || !verified(f, h.userID) || !b.SignedIn() {
			t.Error("the user has not joined, or not proved the address, or is signed out")
		}
		h.wantOut()
		other := f.Browser()
		again := other.Submit(other.Get(f.URL+"/account"), "email", victim, "password", "a password of the victim")
		if !again.Want(http.StatusOK).IsCode() {
			t.Error("the authenticator app is gone")
		}
	})
}

// TestAddressIsProvedWithTheSecondFactor has a user with an authenticator app use a link that was mailed.
func TestAddressIsProvedWithTheSecondFactor(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	b := f.Browser()
	asked := b.Submit(b.Get(f.MailReset(providertest.OwnerEmail)), "password", "a second password").Want(http.StatusOK)
	if verified(f, f.UserID) || !strings.Contains(asked.Body, "somebody else has opened this account") {
		t.Errorf("the address is proved without the app, or the page does not help: %s", asked.Body)
	}
	if b.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther); !verified(f, f.UserID) {
		t.Error("the address is not proved")
	}
}

// TestMailedResetEndsASignInThatLacksACode has somebody else wait on the page that asks for the code of their
// authenticator app, after a sign-in at their provider.
func TestMailedResetEndsASignInThatLacksACode(t *testing.T) {
	f := providertest.OnSQLite(t)
	h := openAccount(f)
	app := h.browser.AddApp()
	b := f.Browser()
	asked := h.provider.Enter(b, h.upstream).Want(http.StatusOK)
	if !asked.IsCode() {
		t.Fatalf("no code is asked for: %s", asked.Body)
	}
	victims := f.Browser()
	victims.Submit(victims.Get(f.MailReset(victim)), "password", "a password of the victim").Want(http.StatusOK)
	if b.Submit(asked, "code", app.Code()).Want(http.StatusBadRequest); b.SignedIn() {
		t.Error("the sign-in of before goes on")
	}
}
