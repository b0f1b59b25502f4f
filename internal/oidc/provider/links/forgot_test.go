package links_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
)

// forgot asks for a link to an address.
func forgot(b *providertest.Browser, email string) *providertest.Response {
	b.Fixture.T.Helper()
	return b.Submit(b.Get(b.Fixture.URL+"/forgot-password").Want(http.StatusOK), "email", email)
}

func TestNothingIsOfferedWithoutMail(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	page := b.Get(f.URL + "/account")
	if strings.Contains(page.Body, "Forgot") {
		t.Error("the sign-in page offers to mail a link")
	}
	b.Get(f.URL + "/forgot-password").Want(http.StatusNotFound)
	b.Post("/forgot-password", "email", providertest.OwnerEmail).Want(http.StatusNotFound)
	if strings.Contains(b.SignIn(page).Body, "/account/email") {
		t.Error("the account page offers to change the address")
	}
	b.Post("/account/email", "new_email", "new@example.com").Want(http.StatusNotFound)
	b.Get(f.URL + "/account/email/token").Want(http.StatusNotFound)
}

// TestForgottenPasswordRevealsNoAddress compares the responses for addresses that have an account, have none,
// and are invited.
func TestForgottenPasswordRevealsNoAddress(t *testing.T) {
	f := providertest.OnSQLite(t)
	mail := f.ServeWithMail()
	f.Invite(f.OrgID, "invited@example.com", auth.Member)
	if !strings.Contains(f.Browser().Get(f.URL+"/account").Body, `href="/forgot-password"`) {
		t.Error("the sign-in page does not lead to the page")
	}
	texts := map[string]bool{}
	for _, email := range []string{providertest.OwnerEmail, "nobody@example.com", "invited@example.com"} {
		got := forgot(f.Browser(), " "+strings.ToUpper(email)).Want(http.StatusOK)
		texts[strings.ReplaceAll(got.Body, email, "ADDRESS")] = true
		mail.Want("reset " + email)
	}
	if len(texts) != 1 {
		t.Errorf("the responses differ: %v", texts)
	}
	forgot(f.Browser(), "no address").Want(http.StatusBadRequest)
	forgot(f.Browser(), "a@example.com\r\nBcc: b@example.com").Want(http.StatusBadRequest)
	mail.Want()
}

// TestForgottenPasswordTakesTheSameTime measures CPU time, which does not depend on the load of the machine.
func TestForgottenPasswordTakesTheSameTime(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.ServeWithMail()
	b := f.Browser()
	page := b.Get(f.URL + "/forgot-password")
	shortest := map[string]time.Duration{}
	for range 10 {
		for _, email := range []string{providertest.OwnerEmail, "nobody@example.com"} {
			f.Clock.Add(time.Hour)
			start := providertest.CPUTime(t)
			for range 3 {
				b.Submit(page, "email", email).Want(http.StatusOK)
			}
			if took := providertest.CPUTime(t) - start; shortest[email] == 0 || took < shortest[email] {
				shortest[email] = took
			}
		}
	}
	known, unknown := shortest[providertest.OwnerEmail], shortest["nobody@example.com"]
	if known > 2*unknown || unknown > 2*known {
		t.Errorf("a known address takes %s, another one %s", known, unknown)
	}
}

func TestForgottenPasswordsAreThrottled(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.ServeWithMail()
	for _, email := range []string{providertest.OwnerEmail, "nobody@example.com"} {
		for i := range 5 { // from elsewhere each time
			want := http.StatusOK
			if i >= 3 {
				want = http.StatusTooManyRequests
			}
			forgot(f.BrowserAt(fmt.Sprintf("10.0.%d.1", i)), email).Want(want)
		}
	}
	b := f.BrowserAt("192.0.2.1")
	statuses := map[int]int{}
	for i := range 30 {
		statuses[forgot(b, fmt.Sprintf("u%d@example.com", i)).Status]++
	}
	if statuses[http.StatusOK] != 20 || statuses[http.StatusTooManyRequests] != 10 {
		t.Errorf("one network gets %v", statuses)
	}
	f.Clock.Add(time.Hour)
	forgot(b, providertest.OwnerEmail).Want(http.StatusOK)
}
