package pages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// onPage waits for a heading and returns the text of the page.
func onPage(b *chromium.Browser, heading string) string {
	b.T.Helper()
	b.Do(chromedp.WaitVisible(chromedp.Search(fmt.Sprintf(`//h1[text()=%q]`, heading))))
	return chromium.Evaluate[string](b, `document.querySelector('main').innerText`)
}

// click clicks a button of a page and waits for the next one.
func click(b *chromium.Browser, selector string) {
	b.T.Helper()
	b.Do(chromedp.Evaluate[chromedp.Void](`document.body.id = "before"; undefined`))
	b.Do(chromedp.Click(chromedp.CSS(selector)), chromedp.WaitVisible(chromedp.CSS(`body:not(#before) h1`)))
}

// signOut ends the session of the browser, and returns to the page of the account.
func signOut(b *chromium.Browser, s *installation.Steward) {
	b.T.Helper()
	b.Open(s.URL + "/end_session")
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	b.Open(s.URL + "/account")
}

// TestPasskeyWithChromium has a user who creates a passkey, removes the password, and signs in with the
// passkey alone, by the button and by autofill. Screenshots are written to e2e/artifacts.
func TestPasskeyWithChromium(t *testing.T) {
	t.Parallel()
	s := installation.StartOnLocalhost(t, "sqlite")
	b := chromium.New(t)
	b.LoadAxe()
	a := b.NewAuthenticator()
	b.Open(s.URL + "/account")
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	b.Do(chromedp.Click(chromedp.CSS(`a[href="/account/passkeys"]`)))
	onPage(b, "Create a passkey")
	b.Do(chromedp.SetValue(chromedp.CSS(`#passkey input[name="name"]`), "Phone of Ada"))
	b.Do(chromedp.Click(chromedp.CSS(`#passkey button`)))
	if text := onPage(b, "Your account"); !strings.Contains(text, "Phone of Ada") || !strings.Contains(text, "new passkey") {
		t.Fatalf("the account page says %s", text)
	}
	b.Check("account-passkey")
	if held := a.Passkeys(); len(held) != 1 || held[0].RpID != "localhost" || held[0].UserName != installation.AdminEmail {
		t.Fatalf("the authenticator holds %v", held)
	}
	copied := a.Passkeys()[0]
	b.Open(s.URL + "/account/passkeys") // the authenticator has one already
	b.Do(chromedp.Click(chromedp.CSS(`#passkey button`)), chromedp.WaitVisible(chromedp.CSS(`.failed`)))
	b.Check("passkey-failed")
	b.Open(s.URL + "/account")
	click(b, `form[action="/account/password/remove"] button`)
	click(b, `form[action="/account/passkeys/remove"] button`)
	if text := onPage(b, "Your account"); !strings.Contains(text, "only way to sign in") {
		t.Errorf("the only way to sign in was removed: %s", text)
	}

	signOut(b, s)
	onPage(b, "Your account") // autofill has signed in again
	b.DisableAutofill()
	signOut(b, s)
	got := chromium.Evaluate[string](b, `document.querySelector('input[name=email]').autocomplete`)
	if got != "username webauthn" {
		t.Errorf("the autocomplete of the email address is %q", got)
	}
	b.Do(chromedp.WaitVisible(chromedp.CSS(`#passkey button`)))
	b.Check("sign-in-passkey")
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	if text := onPage(b, "Sign in"); !strings.Contains(text, "wrong") {
		t.Errorf("the removed password was accepted: %s", text)
	}
	click(b, `#passkey button`)
	onPage(b, "Your account")

	signOut(b, s)
	a.ForgetVerification(true)
	click(b, `#passkey button`)
	if text := onPage(b, "Sign in"); !strings.Contains(text, "not accepted") {
		t.Errorf("a user who was not verified is signed in: %s", text)
	}
	a.ForgetVerification(false)
	a.Restore(copied)
	click(b, `#passkey button`)
	if text := onPage(b, "Sign in"); !strings.Contains(text, "a copy of it") {
		t.Errorf("a copy of the passkey was accepted: %s", text)
	}
	entries := s.Call("GET", "/audit?action=user.passkey_copy", nil).Want(200)
	if !strings.Contains(string(entries.Body), "user.passkey_copy") {
		t.Error("the copy is not in the audit log")
	}
}
