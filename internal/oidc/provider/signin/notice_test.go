package signin_test

import (
	"net/http"
	"testing"

	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
)

func TestUsersAreToldOfPasswordsAndBrowsers(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	b := f.Browser()
	page := b.SignIn(b.Get(f.URL + "/account"))
	mail.Want("device " + providertest.OwnerEmail)
	b.SignOut()
	b.SignInAs(providertest.OwnerEmail, providertest.OwnerPassword)
	mail.Want() // it is known now
	b.TryPassword("wrong password")
	mail.Want()
	b.Submit(page, "password", providertest.OwnerPassword, "new_password", "a second password").Want(http.StatusOK)
	mail.Want("password " + providertest.OwnerEmail)
	b.SignOut()
	b.SignInAs(providertest.OwnerEmail, "a second password")
	mail.Want()
	link := f.NewReset()
	stranger := f.Browser()
	stranger.Submit(stranger.Get(link), "password", "a third password").Want(http.StatusSeeOther)
	mail.Want("password " + providertest.OwnerEmail)
}

func TestUsersAreToldOfPasskeysInNewBrowsers(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	mail := f.ServeWithMail()
	b, key := f.Browser(), f.NewAuthenticator()
	b.SignIn(b.Get(f.URL + "/account"))
	b.AddPasskey(b.Get(f.URL+"/account/passkeys"), key).Want(http.StatusOK)
	mail.Want("device "+providertest.OwnerEmail, "passkey "+providertest.OwnerEmail)
	use := func(b *providertest.Browser) {
		t.Helper()
		b.UsePasskey(b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		b.SignOut()
	}
	b.SignOut()
	use(b)
	mail.Want() // the password has made the browser known
	other := f.Browser()
	use(other)
	mail.Want("device " + providertest.OwnerEmail)
	use(other)
	other.SignInAs(providertest.OwnerEmail, providertest.OwnerPassword)
	other.SignOut()
	mail.Want()

	b.UsePasskey(b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
	b.Post("/account/password/remove").Want(http.StatusSeeOther)
	mail.Want("password " + providertest.OwnerEmail)
	b.SignOut()
	use(b)
	mail.Want()
	use(other) // in which there was the password
	use(other)
	mail.Want("device " + providertest.OwnerEmail)
}

func TestUsersAreToldOfProvidersInNewBrowsers(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	there := f.NewStranger()
	u := f.NewUpstream(there.Settings())
	f.Provider.Upstreams.Store.Domains.Granted["example.org"] = f.OrgID
	f.Invite(f.OrgID, "anna@example.org", auth.Member)
	there.Say(map[string]any{"email": "anna@example.org", "email_verified": true})
	enter := func(b *providertest.Browser) {
		t.Helper()
		b.WantIn(there.Enter(b, u))
		b.SignOut()
	}
	b, other := f.Browser(), f.Browser()
	enter(b)
	mail.Want() // the account is new
	enter(b)
	mail.Want()
	enter(other)
	mail.Want("device anna@example.org")
	enter(other)
	mail.Want()
}

// TestProviderGivesNoBrowserThatMayGuess signs a linked user in with a provider. The browser is not one in which
// the password may be tried while others have to wait: whoever manages the provider could make any number.
func TestProviderGivesNoBrowserThatMayGuess(t *testing.T) {
	f := providertest.OnSQLite(t)
	there := f.NewStranger()
	u := f.NewUpstream(there.Settings())
	owner := f.Browser()
	owner.SignIn(owner.Get(f.URL + "/account"))
	_, _, form := owner.Get(f.URL + "/account").Form()
	form.Set("upstream", u.ID)
	state := there.Receive(owner.Do("POST", f.URL+"/account/upstream", form))
	owner.Get(there.Back(f, state)).Want(http.StatusSeeOther)
	b := f.BrowserAt("192.0.2.1")
	b.WantIn(there.Enter(b, u))
	b.SignOut()
	lockOut(f)
	if status := b.TryPassword(providertest.OwnerPassword); status != http.StatusTooManyRequests {
		t.Errorf("got status %d", status)
	}
}
