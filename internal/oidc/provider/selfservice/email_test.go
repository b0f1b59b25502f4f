package selfservice_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/providertest"
)

const newEmail = "new@example.com"

// changeEmail asks for another address on the account page.
func changeEmail(b *providertest.Browser, email, password string) *providertest.Response {
	b.Fixture.T.Helper()
	return b.Post("/account/email", "new_email", email, "password", password)
}

// mailedEmail returns the link that is mailed to the new address of the owner.
func mailedEmail(f *providertest.Fixture) string {
	f.T.Helper()
	_, token, err := f.Accounts.NewMailedEmail(f.T.Context(), f.UserID)
	providertest.Must(f.T, err)
	return f.URL + "/account/email/" + token
}

func TestUsersChangeTheirAddress(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		mail := f.ServeWithMail()
		a := f.NewApp(providertest.Confidential)
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		mail.Want("device " + providertest.OwnerEmail)
		asked := changeEmail(b, "New@Example.com", providertest.OwnerPassword).Want(http.StatusOK)
		mail.Want("email of " + f.UserID)
		if !strings.Contains(asked.Body, "was sent to "+newEmail) || !strings.Contains(asked.Body, providertest.OwnerEmail) {
			t.Errorf("the page says %s", asked.Body)
		}
		tokens := a.Redeem(b.Complete(b.Get(a.AuthorizeURL("scope", "openid email"))).Get("code")).JSON()
		if got := f.Userinfo(tokens["access_token"].(string)).JSON(); got["email_verified"] != false {
			t.Errorf("before: %v", got)
		}
		link := mailedEmail(f)
		page := b.Get(link).Want(http.StatusOK)
		if !strings.Contains(page.Body, newEmail) {
			t.Errorf("the page says %s", page.Body)
		}
		if got := f.Userinfo(tokens["access_token"].(string)).JSON(); got["email"] != providertest.OwnerEmail {
			t.Errorf("the link alone has changed the address: %v", got)
		}
		b.Submit(page).Want(http.StatusOK)
		mail.Want("email " + providertest.OwnerEmail)
		if got := f.Userinfo(tokens["access_token"].(string)).JSON(); got["email"] != newEmail || got["email_verified"] != true {
			t.Errorf("after: %v", got)
		}
		b.Submit(page).Want(http.StatusNotFound)
		b.Get(link).Want(http.StatusNotFound)
		f.Browser().SignInAs(newEmail, providertest.OwnerPassword)
		var changes int
		for _, e := range f.Entries() {
			if e.Action == "user.email" && e.Target == f.UserID && *e.UserID == f.UserID {
				changes++
			}
		}
		if changes != 1 {
			t.Errorf("%d entries in the audit log", changes)
		}
	})
}

func TestChangeOfAddressNeedsThePassword(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	mail.Want("device " + providertest.OwnerEmail)
	for _, password := range []string{"", "wrong password"} {
		changeEmail(b, newEmail, password).Want(http.StatusBadRequest)
	}
	for _, email := range []string{"", "no address", "a@b\r\nc", providertest.OwnerEmail} {
		changeEmail(b, email, providertest.OwnerPassword).Want(http.StatusBadRequest)
	}
	if !changeEmail(f.Browser(), newEmail, providertest.OwnerPassword).IsSignIn() {
		t.Error("the change needs no session")
	}
	mail.Want()
}

// TestUserWithoutPasswordSignsInAgain has a user who signs in without a password.
func TestUserWithoutPasswordSignsInAgain(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	_, err := f.DB.Exec(t.Context(), `UPDATE users SET password_hash = NULL WHERE id = $1`, f.UserID)
	providertest.Must(t, err)
	mail.Want("device " + providertest.OwnerEmail)
	changeEmail(b, newEmail, "").Want(http.StatusOK)
	mail.Want("email of " + f.UserID)
	f.Clock.Add(11 * time.Minute)
	changeEmail(b, newEmail, "").Want(http.StatusBadRequest)
	mail.Want()
}

// TestTakenAddressIsNotRevealed asks for an address that another user has.
func TestTakenAddressIsNotRevealed(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	f.NewUser("other@example.com", "another password")
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	mail.Want("device " + providertest.OwnerEmail)
	done := func(email string) string {
		_, after, _ := strings.Cut(changeEmail(b, email, providertest.OwnerPassword).Want(http.StatusOK).Body, `role="status">`)
		text, _, _ := strings.Cut(after, "<")
		mail.Want("email of " + f.UserID)
		return strings.ReplaceAll(text, email, "ADDRESS")
	}
	if taken, free := done("other@example.com"), done(newEmail); taken != free {
		t.Errorf("%q and %q", taken, free)
	}
}

// TestStrangerCannotUseTheLinkOfAnAddress has a mail that has come to somebody else, who may have an account.
func TestStrangerCannotUseTheLinkOfAnAddress(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.ServeWithMail()
	f.NewUser("other@example.com", "another password")
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	changeEmail(b, newEmail, providertest.OwnerPassword).Want(http.StatusOK)
	link := mailedEmail(f)
	page := b.Get(link).Want(http.StatusOK)
	_, path, _ := page.Form()

	nobody := f.Browser()
	if !nobody.Get(link).IsSignIn() || !nobody.Post(path).IsSignIn() {
		t.Error("the link works without a session")
	}
	other := f.Browser().SignInAs("other@example.com", "another password")
	other.Get(link).Want(http.StatusNotFound)
	other.Post(path).Want(http.StatusNotFound)

	again := f.Browser() // where the user signs in on the way
	confirm := again.SignIn(again.Get(link)).Want(http.StatusOK)
	again.Submit(confirm).Want(http.StatusOK)
	if user, err := f.Accounts.UserByEmail(t.Context(), newEmail); err != nil || user.ID != f.UserID {
		t.Errorf("got %+v, %v", user, err)
	}
}

func TestLinksOfAddressesAreNotGuessed(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.ServeWithMail()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	statuses := map[int]int{}
	for range 40 {
		statuses[b.Get(f.URL+"/account/email/guess").Status]++
	}
	if statuses[http.StatusNotFound] != 30 || statuses[http.StatusTooManyRequests] != 10 {
		t.Errorf("guesses get %v", statuses)
	}
}
