package selfservice_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/mail"
	"steward/internal/oidc/provider/providertest"
)

var passkeyField = regexp.MustCompile(`name="passkey" value="([^"]+)"`)

func TestLastWayToSignInStays(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		mails := f.ServeWithMail()
		b, key := f.Browser(), f.NewAuthenticator() // which does not count
		b.SignIn(b.Get(f.URL + "/account"))
		b.Post("/account/password/remove").Want(http.StatusConflict)
		b.AddPasskey(b.Get(f.URL+"/account/passkeys"), key).Want(http.StatusOK)
		passkeyID := passkeyField.FindStringSubmatch(b.Get(f.URL + "/account").Body)[1]
		b.Post("/account/password/remove").Want(http.StatusSeeOther)

		other := f.Browser()
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
			Want(http.StatusBadRequest)
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "").Want(http.StatusBadRequest)
		other.UsePasskey(other.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		f.Browser().UsePasskey(f.Browser().Get(f.URL+"/account"), key).Want(http.StatusForbidden) // the form of another browser
		other.Post("/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusConflict)

		other.Post("/account/password", "new_password", "a quite new password").Want(http.StatusOK)
		other.Post("/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
		third := f.Browser()
		third.UsePasskey(third.Get(f.URL+"/account"), key).Want(http.StatusBadRequest)
		third.Submit(third.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "a quite new password").
			Want(http.StatusSeeOther)
		var want []string
		for _, event := range []mail.Event{
			mail.NewDevice, mail.PasskeyAdded, mail.PasswordChanged, mail.NewDevice, mail.PasswordChanged,
			mail.PasskeyRemoved, mail.NewDevice,
		} {
			want = append(want, string(event)+" "+providertest.OwnerEmail)
		}
		mails.Want(want...)
	})
}

// TestOneWayToSignInStaysOfTwo removes the password and the only passkey at the same time.
func TestOneWayToSignInStaysOfTwo(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b, _ := f.WithPasskey()
		account := b.Get(f.URL + "/account")
		_, _, own := account.Form()
		passkeyID := passkeyField.FindStringSubmatch(account.Body)[1]
		form := url.Values{"csrf": {own.Get("csrf")}, "passkey": {passkeyID}}
		statuses := make(chan int, 2)
		for _, path := range []string{"/account/password/remove", "/account/passkeys/remove"} {
			go func() { statuses <- b.Do("POST", f.URL+path, form).Status }()
		}
		got := []int{<-statuses, <-statuses}
		slices.Sort(got)
		if !slices.Equal(got, []int{http.StatusSeeOther, http.StatusConflict}) {
			t.Errorf("the statuses are %v, want that one is removed", got)
		}
	})
}

func TestUsersHaveTwentyPasskeys(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	open := b.Get(f.URL + "/account/passkeys")
	for range 20 {
		b.AddPasskey(b.Get(f.URL+"/account/passkeys"), f.NewAuthenticator()).Want(http.StatusOK)
	}
	b.Get(f.URL + "/account/passkeys").Want(http.StatusConflict)
	refused := b.AddPasskey(open, f.NewAuthenticator()).Want(http.StatusConflict)
	if !strings.Contains(refused.Body, "20 passkeys") {
		t.Errorf("got %s", refused.Body)
	}
}

func TestPasskeysAreChangedByTheirUserOnly(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		owner, key := f.WithPasskey()
		passkeyID := passkeyField.FindStringSubmatch(owner.Get(f.URL + "/account").Body)[1]
		stranger := f.SignedInStranger()
		stranger.Post("/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
		stranger.Post("/account/passkeys/rename", "passkey", passkeyID, "name", "Mine").Want(http.StatusSeeOther)
		if list := owner.Get(f.URL + "/account").Body; !strings.Contains(list, "<strong>Laptop</strong>") {
			t.Fatal("another user has changed the passkey")
		}
		// A passkey that was created for one user is not stored for another.
		action, values, options := stranger.Get(f.URL + "/account/passkeys").Ceremony()
		_, ofOwner, optionsOfOwner := owner.Get(f.URL + "/account/passkeys").Ceremony()
		values.Set("challenge", ofOwner.Get("challenge"))
		values.Set("credential", f.NewAuthenticator().Create(optionsOfOwner))
		stranger.Do("POST", f.URL+action, values).Want(http.StatusBadRequest)
		if strings.Contains(options, ofOwner.Get("challenge")) {
			t.Error("two users have the same challenge")
		}
		unverified := f.NewAuthenticator()
		unverified.Unverified = true
		owner.AddPasskey(owner.Get(f.URL+"/account/passkeys"), unverified).Want(http.StatusBadRequest)

		owner.Post("/account/passkeys/rename", "passkey", passkeyID, "name", "Old\u202elaptop").Want(http.StatusBadRequest)
		owner.Post("/account/passkeys/rename", "passkey", passkeyID, "name", "Old laptop").Want(http.StatusSeeOther)
		if list := owner.Get(f.URL + "/account").Body; !strings.Contains(list, "<strong>Old laptop</strong>") {
			t.Error("the passkey has not got its name")
		}
		// A sign-in of long ago is not enough to change how to sign in.
		f.Clock.Add(11 * time.Minute)
		old := owner.Get(f.URL + "/account/passkeys").Want(http.StatusForbidden)
		f.Browser().UsePasskey(old, key).Want(http.StatusForbidden) // the form of another browser
		owner.Post("/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusForbidden)
		again := owner.Post("/account/password/remove").Want(http.StatusForbidden)
		owner.UsePasskey(again, key).Want(http.StatusSeeOther)
		if next := owner.UsePasskey(old, key).Want(http.StatusSeeOther).Header.Get("Location"); next != "/account/passkeys" {
			t.Errorf("the browser continues to %s", next)
		}
		owner.Post("/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
	})
}
