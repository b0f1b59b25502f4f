package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// templates is where the pages of the provider are.
const templates = "../../../internal/oidc/provider/pages/templates/"

// TestPagesAreAccessible opens every page that people see in Chromium, light and dark, on a wide and on a
// narrow screen. axe-core must find nothing serious, and no page may be wider than the screen. A template that no
// page is made of fails the test. Screenshots are written to e2e/artifacts.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	s, mail := installation.StartWithMail(t, "sqlite", append(installation.OnLocalhost(t), "--registration", "token")...)
	reset := newReset(s)
	invited := s.Call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "member"}).Want(201)
	scopes := []string{"openid", "profile", "email", "offline_access", "storage:read", "webhook:write"}
	a := s.NewApplication(object{"scopes": scopes, "grant_types": installation.EveryGrant})
	config := s.NewRelyingParty(a, scopes...).Config
	b := chromium.New(t)
	b.LoadAxe()
	// base.html has parts of the others, and formpost.html sends itself before anybody can read it.
	// The page of the front channel has a test of its own.
	checked := map[string]bool{"base.html": true, "formpost.html": true, "signedout.html": true}
	document, err := os.ReadFile("../../../docs/accounts.md")
	s.Must(err)
	check := func(template, name string) {
		t.Helper()
		checked[template] = true
		b.Check(name)
		picture := "images/accounts/" + name + ".webp"
		if !strings.Contains(string(document), picture) {
			return
		}
		b.ColorScheme("light")
		b.Picture("../../../docs/"+picture, 640)
		if _, err := os.Stat("../../../docs/" + picture); err != nil {
			t.Errorf("run `make screenshots`: %v", err)
		}
	}

	b.Open(installation.Start(t, "sqlite", installation.OnLocalhost(t)...).URL + "/console/setup")
	check("setup.html", "setup")
	b.Open(s.URL + "/invite/unknown")
	check("message.html", "message")
	b.Open(invited.Text("link"))
	check("invite.html", "invitation")
	b.Open(reset)
	check("reset.html", "reset")
	b.Open(s.URL + "/forgot-password")
	check("forgot.html", "forgot-password")
	b.Open(config.AuthCodeURL("s"))
	check("signin.html", "sign-in")
	b.Submit("email", installation.AdminEmail, "password", "wrong password")
	check("signin.html", "sign-in-wrong")
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	check("consent.html", "consent")
	b.Open(s.URL + "/device")
	check("device.html", "device")
	b.Submit("user_code", "AAAA-BBBB")
	check("device.html", "device-wrong")
	status, started := s.PostForm(a, "/device_authorization", map[string][]string{"scope": {"openid webhook:write"}})
	if status != 200 {
		t.Fatalf("got %v", started)
	}
	b.Open(started["verification_uri_complete"].(string))
	check("consent.html", "device-consent")
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	check("message.html", "device-connected")
	b.Open(s.URL + "/account")
	b.Do(chromedp.SetValue(chromedp.CSS(`input[name="name"]`), "Laptop of Ada"))
	b.Do(chromedp.Click(chromedp.CSS(`form[action="/account/keys"] button`)), chromedp.WaitVisible(chromedp.CSS(`.value`)))
	check("key.html", "key")
	b.Open(s.URL + "/account")
	check("account.html", "account")
	b.Submit("password", "wrong password", "new_password", "a new password")
	check("account.html", "account-wrong")
	b.Open(s.URL + "/account/passkeys")
	check("passkey.html", "passkey")
	b.Open(s.URL + "/account")
	b.Do(chromedp.SetValue(chromedp.CSS(`input[name="new_email"]`), "countess@example.com"))
	b.Do(chromedp.SetValue(chromedp.CSS(`form[action="/account/email"] input[name="password"]`), installation.AdminPassword))
	b.Do(chromedp.Click(chromedp.CSS(`form[action="/account/email"] button`)), chromedp.WaitVisible(chromedp.CSS(`.good`)))
	check("account.html", "account-email")
	b.Open(mail.WaitSubject("countess@example.com", "Confirm your email address").Link())
	check("email.html", "email")
	joins := s.SecondOrganization().Call("POST", "/oidc/org/members", object{"email": installation.AdminEmail, "role": "member"}).Want(201)
	b.Open(joins.Text("link"))
	check("join.html", "join")
	mailed := mail.WaitSubject(installation.AdminEmail, "You are invited to Second organization").Link()
	b.Open(mailed)
	check("join.html", "join-unproved")
	b.Open(mailed + "?account=new")
	check("invite.html", "invitation-unproved")
	b.Open(joins.Text("link"))
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`button[value="approve"]`)))
	b.Open(s.URL + "/authorize?client_id=https%3A%2F%2Feditor.example.com%2Fclient.json")
	check("organizations.html", "organizations")
	b.Open(s.URL + "/account/authenticator")
	check("enrol.html", "authenticator")
	code, err := totp.GenerateCode(chromium.Evaluate[string](b, `document.querySelector('.value').innerText`), time.Now())
	s.Must(err)
	b.Submit("code", code)
	check("recovery.html", "recovery-codes")
	b.Open(s.URL + "/end_session")
	check("signout.html", "sign-out")
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	check("message.html", "signed-out")
	b.Open(mailed)
	check("choose.html", "choose-account")
	b.Open(s.URL + "/account")
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	check("factor.html", "second-factor")

	files, err := filepath.Glob(templates + "*.html")
	s.Must(err)
	if len(files) < 10 {
		t.Errorf("the templates are %q", files)
	}
	for _, file := range files {
		if !checked[filepath.Base(file)] {
			t.Errorf("the page %s is not checked", filepath.Base(file))
		}
	}
}

// newReset returns a link with which the first owner can set a new password.
func newReset(s *installation.Steward) string {
	s.T.Helper()
	owner := s.Call("GET", "/cli/auth/user", nil).Want(200).Text("id")
	return s.Call("POST", "/oidc/org/members/"+owner+"/reset-password", nil).Want(200).Text("link")
}
