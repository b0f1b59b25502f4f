package pages

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// TestMailedLinksWithChromium has a person who accepts an invitation, sets a forgotten password and changes
// the address, each with the link of a mail. The first two end in the console.
func TestMailedLinksWithChromium(t *testing.T) {
	t.Parallel()
	s, mail := installation.StartWithMail(t, "sqlite")
	s.InviteMember("grace@example.com", "member")
	b := chromium.New(t)
	b.LoadAxe()
	b.Open(mail.Wait("grace@example.com", 1).Link())
	b.Check("mailed-invitation")
	b.Submit("password", "a first password")
	onPage(b, "Overview")

	signOut(b, s)
	b.Do(chromedp.Click(chromedp.CSS(`a[href="/forgot-password"]`)), chromedp.WaitVisible(chromedp.CSS(`form[action="/forgot-password"]`)))
	b.Submit("email", "grace@example.com")
	b.Check("mailed-forgot")
	b.Open(mail.WaitSubject("grace@example.com", "Set a new password").Link())
	b.Check("mailed-reset")
	b.Submit("password", "a second password")
	onPage(b, "Overview")

	b.Open(s.URL + "/account")
	form := `form[action="/account/email"] `
	b.Do(
		chromedp.SetValue(chromedp.CSS(form+`input[name="new_email"]`), "hopper@example.com"),
		chromedp.SetValue(chromedp.CSS(form+`input[name="password"]`), "a second password"),
	)
	click(b, form+"button")
	b.Open(mail.WaitSubject("hopper@example.com", "Confirm your email address").Link())
	onPage(b, "Confirm your email address")
	b.Check("mailed-address")
	click(b, `main form button`)
	if text := onPage(b, "Your account"); !strings.Contains(text, "hopper@example.com") {
		t.Errorf("the account page says %s", text)
	}
	mail.WaitSubject("grace@example.com", "Your email address was changed")

	signOut(b, s)
	b.Submit("email", "grace@example.com", "password", "a second password")
	if text := onPage(b, "Sign in"); !strings.Contains(text, "wrong") {
		t.Errorf("the address of before signs in: %s", text)
	}
	b.Submit("email", "hopper@example.com", "password", "a second password")
	onPage(b, "Your account")
	if m := s.MemberOf("hopper@example.com"); m.Pending {
		t.Errorf("the member is %+v", m)
	}
}

// TestUnprovedAccountsWithChromium has people with accounts that were opened with a link of the API accept an invitation
// by mail: one signs in and sets a new password, and one creates another account.
func TestUnprovedAccountsWithChromium(t *testing.T) {
	t.Parallel()
	s, mail := installation.StartWithMail(t, "sqlite")
	other := s.SecondOrganization()
	for email, choice := range map[string]string{"own@example.com": "own", "new@example.com": "new"} {
		_, userID := s.Invite(email, "member")
		other.InviteMember(email, "admin")
		b := chromium.New(t)
		b.LoadAxe()
		b.DisableAutofill()
		b.Open(mail.WaitSubject(email, "You are invited to Second organization").Link())
		b.Check("mailed-choice")
		click(b, `button[value="`+choice+`"]`)
		if choice == "own" {
			b.Submit("email", email, "password", "a first password")
			onPage(b, "Join Second organization")
		}
		b.Submit("password", "a second password")
		onPage(b, "Overview")
		if m := other.MemberOf(email); m.Pending || (m.ID == userID) != (choice == "own") {
			t.Errorf("%s: the member is %+v, and was %s", choice, m, userID)
		}
	}
}
