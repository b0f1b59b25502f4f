package signin_test

import (
	"net/http"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
)

func TestUsersAreToldOfPasskeysInNewBrowsers(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		mail := f.ServeWithMail()
		b, key := f.Browser(), f.NewAuthenticator()
		b.SignIn(b.Get(f.URL + "/account"))
		addPasskey(b, b.Get(f.URL+"/account/passkeys"), key).Want(http.StatusOK)
		mail.Want("device "+providertest.OwnerEmail, "passkey "+providertest.OwnerEmail)
		use := func(b *providertest.Browser) {
			t.Helper()
			usePasskey(b, b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
			signOut(b)
		}
		signOut(b)
		use(b)
		mail.Want() // the password has made the browser known
		other := f.Browser()
		use(other)
		mail.Want("device " + providertest.OwnerEmail)
		use(other)
		signInAs(other, providertest.OwnerEmail, providertest.OwnerPassword)
		signOut(other)
		mail.Want()

		usePasskey(b, b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		post(b, "/account/password/remove").Want(http.StatusSeeOther)
		mail.Want("password " + providertest.OwnerEmail)
		signOut(b)
		use(b)
		mail.Want()
		use(other) // in which there was the password
		use(other)
		mail.Want("device " + providertest.OwnerEmail)
	})
}

func TestUsersAreToldOfProvidersInNewBrowsers(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		mail := f.ServeWithMail()
		there := newStranger(t, f)
		u := f.NewUpstream(there.settings())
		invite(f, f.OrgID, "anna@example.org", auth.Member)
		there.say(claims{"email": "anna@example.org", "email_verified": true})
		enter := func(b *providertest.Browser) {
			t.Helper()
			wantIn(there.enter(b, u), b)
			signOut(b)
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
	})
}

// TestProviderGivesNoBrowserThatMayGuess signs a linked user in with a provider. The browser is not one in which
// the password may be tried while others have to wait: whoever manages the provider could make any number.
func TestProviderGivesNoBrowserThatMayGuess(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		there := newStranger(t, f)
		u := f.NewUpstream(there.settings())
		owner := f.Browser()
		owner.SignIn(owner.Get(f.URL + "/account"))
		_, _, form := owner.Get(f.URL + "/account").Form()
		form.Set("upstream", u.ID)
		state := there.receive(owner.Do("POST", f.URL+"/account/upstream", form))
		owner.Get(there.back(f, state)).Want(http.StatusSeeOther)
		b := from(f, "192.0.2.1")
		wantIn(there.enter(b, u), b)
		endSession(b, sessionID(b))
		lockOut(f)
		if status := try(b, providertest.OwnerPassword); status != http.StatusTooManyRequests {
			t.Errorf("got status %d", status)
		}
	})
}

func TestUsersAreToldOfLinkedProviders(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		mail := f.ServeWithMail()
		there := newStranger(t, f)
		u := f.NewUpstream(there.settings())
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		mail.Want("device " + providertest.OwnerEmail)
		providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
			return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
				OrgID: f.OrgID, UserID: f.UserID, Issuer: u.Issuer, Subject: "1", Linked: true,
			})
		}))
		post(b, "/account/upstream/unlink", "upstream", u.ID).Want(http.StatusSeeOther)
		mail.Want("identity_removed " + providertest.OwnerEmail)
		post(b, "/account/upstream/unlink", "upstream", u.ID).Want(http.StatusSeeOther)
		mail.Want() // it was gone
	})
}
