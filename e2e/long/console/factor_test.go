package console

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// codeAt returns the code of an authenticator app at a time from now. Each is accepted once, and those of
// the next period are accepted already.
func (c *console) codeAt(secret string, later time.Duration) string {
	c.T.Helper()
	code, err := totp.GenerateCode(secret, time.Now().Add(later))
	c.s.Must(err)
	return code
}

// setUpApp enters the code of the app that is shown, and returns its secret and the recovery codes.
func (c *console) setUpApp(picture string) (secret string, recovery []string) {
	c.T.Helper()
	secret = c.Text(".value")
	c.Check(picture)
	c.Submit("code", c.codeAt(secret, 0))
	recovery = strings.Fields(c.Text(".codes"))
	if len(recovery) != 10 {
		c.T.Fatalf("the recovery codes are %q", recovery)
	}
	c.Check(picture + "-codes")
	c.Clean()
	return secret, recovery
}

// enterPassword opens the console and submits the sign-in page.
func (c *console) enterPassword(email, password string) {
	c.T.Helper()
	c.LoadAxe()
	c.visit("/")
	c.Press("Sign in")
	c.Wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	c.Submit("email", email, "password", password)
}

// enterCode submits the page that asks for a code, which leads to the console.
func (c *console) enterCode(code string) {
	c.T.Helper()
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="code"]`), code), chromedp.Click(chromedp.CSS(`form button`)))
	c.See("Overview")
}

// TestSecondFactorWithChromium sets up an authenticator app, signs in with its code and with a recovery
// code, and has the organization require a second factor, which a member sets up while signing in.
func TestSecondFactorWithChromium(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.Invite("grace@example.com", "member")

	owner := signedIn(t, s)
	owner.LoadAxe()
	owner.Open(s.URL + "/account/authenticator")
	secret, recovery := owner.setUpApp("authenticator")
	owner.Open(s.URL + "/account")
	owner.See("10 recovery codes are left")
	owner.Check("account-authenticator")

	withCode := newConsole(t, s)
	withCode.enterPassword(installation.AdminEmail, installation.AdminPassword)
	withCode.See("Enter a code")
	withCode.Check("second-factor")
	withCode.Submit("code", "000000")
	withCode.See("This code is wrong")
	withCode.enterCode(withCode.codeAt(secret, 30*time.Second))

	rescued := newConsole(t, s)
	rescued.enterPassword(installation.AdminEmail, installation.AdminPassword)
	rescued.enterCode(recovery[0])

	withCode.visit("/settings")
	withCode.Fill("factor", "any")
	withCode.Fill("from", "viewer")
	withCode.Press("Save")
	withCode.See("are asked to sign in again")
	withCode.Clean()
	owner.visit("/settings") // its session began with the password alone
	owner.See("Sign in")

	grace := newConsole(t, s)
	grace.enterPassword("grace@example.com", "a first password")
	grace.See("Your organization requires a second factor")
	grace.visit("/members") // instead of setting up an app
	grace.See("Sign in")
	grace.enterPassword("grace@example.com", "a first password")
	grace.setUpApp("required-authenticator")
	grace.Press("Continue")
	grace.See("Overview")

	withCode.visit("/members")
	withCode.Press("Actions for grace@example.com")
	withCode.Press("Remove second factors")
	withCode.See("only if you are sure")
	withCode.Press("Remove second factors")
	withCode.See("were removed")
	grace.visit("/")
	grace.See("Sign in")
	if got := chromium.Evaluate[string](withCode.Browser, `location.pathname`); got != "/console/members" {
		t.Errorf("the owner is at %s", got)
	}
	withCode.Clean()
}
