package links_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

// setupPasskeyPage sends the first form of a setup with a passkey, without a password.
func setupPasskeyPage(b *providertest.Browser, token, email string) *providertest.Response {
	b.Fixture.T.Helper()
	_, _, form := b.Get(b.Fixture.URL + "/console/setup").Want(http.StatusOK).Form()
	form.Del("password")
	form.Set("token", token)
	form.Set("organization", "Acme")
	form.Set("email", email)
	return b.Do("POST", b.Fixture.URL+"/console/setup/passkey", form)
}

func TestSetupWithPasskeyOnly(t *testing.T) {
	eachPending(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		b, token, key := f.Browser(), f.SetupToken(), f.NewAuthenticator()
		setupPasskeyPage(b, "guess", "ada@example.com").Want(http.StatusBadRequest)
		setupPasskeyPage(b, token, "ada").Want(http.StatusBadRequest)
		create := setupPasskeyPage(b, token, "ada@example.com")
		if !strings.Contains(create.Body, `href="/console/setup#`+token+`"`) {
			t.Errorf("there is no way back to a password: %s", create.Body)
		}
		done := b.AddPasskey(create, key).Want(http.StatusSeeOther)
		if to := done.Header.Get("Location"); to != "/console/sign-in" {
			t.Errorf("the setup leads to %q", to)
		}
		account := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(account.Body, "You have no password") || !strings.Contains(account.Body, "<strong>Laptop</strong>") {
			t.Errorf("got %s", account.Body)
		}
		if !f.Audited("user.setup") || !f.Audited("user.passkey") {
			t.Error("the setup is not in the audit log")
		}
		other := f.Browser()
		other.UsePasskey(other.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		b.Get(f.URL + "/console/setup").Want(http.StatusGone)
		if f.Browser().AddPasskey(create, f.NewAuthenticator()).Want(http.StatusForbidden); !b.SignedIn() {
			t.Error("the owner is not signed in any more")
		}
	})
}

// TestSetupPasskeyBelongsToItsForm sends answers that were made for something else.
func TestSetupPasskeyBelongsToItsForm(t *testing.T) {
	f := pending(t)
	f.UseLocalhost()
	b, token := f.Browser(), f.SetupToken()
	action, values, options := setupPasskeyPage(b, token, "ada@example.com").Ceremony()
	values.Set("credential", f.NewAuthenticator().Create(options))
	values.Set("email", "eve@example.com")
	b.Do("POST", f.URL+action, values).Want(http.StatusBadRequest)

	unverified := f.NewAuthenticator()
	unverified.Unverified = true
	refused := b.AddPasskey(setupPasskeyPage(b, token, "ada@example.com"), unverified).Want(http.StatusBadRequest)
	if !strings.Contains(refused.Body, "not accepted") || b.SignedIn() {
		t.Errorf("got %s", refused.Body)
	}
	late := setupPasskeyPage(b, token, "ada@example.com")
	setUp(f.Browser(), token).Want(http.StatusSeeOther)
	b.AddPasskey(late, f.NewAuthenticator()).Want(http.StatusGone) // the link was used with a password
	if b.SignedIn() {
		t.Error("a used link signs in")
	}
}

func TestSetupSaysWhyThereAreNoPasskeys(t *testing.T) {
	f := pending(t) // at an IP address
	b := f.Browser()
	page := b.Get(f.URL + "/console/setup").Want(http.StatusOK)
	if strings.Contains(page.Body, "/console/setup/passkey") || !strings.Contains(page.Body, "Passkeys need a host name") {
		t.Errorf("got %s", page.Body)
	}
	setupPasskeyPage(b, f.SetupToken(), "ada@example.com").Want(http.StatusBadRequest)
}
