package console

import (
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/oidc/upstream"
	"steward/internal/waittest"
)

var stepUp = regexp.QuoteMeta("This needs a sign-in of the last ten minutes.")

// TestConsoleAsksForARecentSignIn invites a member an hour after the sign-in: the page asks for the password in a
// dialog, and then sends the request with what was entered.
func TestConsoleAsksForARecentSignIn(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	c := signedIn(t, s)
	s.AgeSignIns()
	c.at("/members", "ada@example.com")
	c.Press("Invite member")
	c.Fill("email", "grace@example.com")
	c.Press("Invite")
	dialog := `[...document.querySelectorAll('dialog')].find(d => /` + stepUp + `/.test(d.innerText))`
	asked := `document.activeElement === ` + dialog + `?.querySelector('input[type="password"]')`
	c.Wait("the focus in the prompt", asked)
	c.LoadAxe()
	c.Check("sign-in-again")
	for range 8 { // the focus stays in the dialog, or is at the browser's own controls
		c.keys(kb.Tab)
		if !chromium.Evaluate[bool](c.Browser, `document.activeElement === document.body || `+dialog+`.contains(document.activeElement)`) {
			t.Fatal("the focus has left the prompt")
		}
	}
	c.keys(kb.Escape)
	c.See("A new sign-in is needed")
	c.Wait("no prompt", `!`+dialog)
	c.Press("Invite")
	c.Wait("the prompt", asked)
	password := func(text string) {
		c.Do(chromedp.SendKeys(chromedp.CSS(`dialog input[type="password"]`), text+kb.Enter))
	}
	password("a guess")
	c.See("The email address or the password is wrong.")
	c.Wait("the focus in the prompt", asked)
	password(installation.AdminPassword)
	c.See("/invite/")
	c.Wait("no prompt", `!`+dialog)
	if m := s.MemberOf("grace@example.com"); !m.Pending {
		t.Errorf("the member is %+v", m)
	}
	c.Clean()
}

// TestConsoleAsksForACodeToo signs a user in again who has an authenticator app.
func TestConsoleAsksForACodeToo(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	owner := signedIn(t, s)
	owner.LoadAxe()
	owner.Open(s.URL + "/account/authenticator")
	secret, _ := owner.setUpApp("authenticator-of-owner")
	c := newConsole(t, s)
	c.enterPassword(installation.AdminEmail, installation.AdminPassword)
	c.See("Enter a code")
	c.enterCode(c.codeAt(secret, 30*time.Second))
	s.AgeSignIns()
	c.at("/members", "ada@example.com")
	c.Press("Invite member")
	c.Fill("email", "grace@example.com")
	c.Press("Invite")
	enter := func(field, text string) {
		c.Wait("the focus in "+field, `document.activeElement?.matches('dialog input[autocomplete="`+field+`"]')`)
		c.keys(text + kb.Enter)
	}
	enter("current-password", installation.AdminPassword)
	c.See("Code of your authenticator app")
	c.Check("sign-in-again-code")
	enter("one-time-code", "000000")
	c.See("This code is wrong")
	enter("one-time-code", c.codeAt(secret, 0))
	c.See("/invite/")
	if m := s.MemberOf("grace@example.com"); !m.Pending {
		t.Errorf("the member is %+v", m)
	}
	c.Clean()
}

// TestConsoleShowsCredentialsAfterASignIn opens a store an hour after the sign-in, and its connection once the password
// has been entered again.
func TestConsoleShowsCredentialsAfterASignIn(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": []object{{"type": "kv", "name": "cache"}}}).Want(201)
	c := signedIn(t, s)
	c.at("/key-value/local/cache?tab=connection", "Show secrets")
	s.AgeSignIns()
	c.at("/key-value/local/cache?tab=connection", "Credentials are shown after a sign-in of the last ten minutes.")
	c.misses("REDIS_URL")
	c.Press("Sign in to see them")
	c.Wait("the focus in the prompt", `document.activeElement?.matches('dialog input[type="password"]')`)
	c.keys(installation.AdminPassword + kb.Enter)
	c.See("Show secrets")
	c.Press("Show secrets")
	c.Wait("the password", `/rediss?:\/\/[^:]*:[^•@]+@/.test(document.body.innerText)`)
	c.Clean()
}

// TestConsoleOpensAWindowForAProvider signs a user in again who has a provider alone, and shows this session nothing
// that it may not do.
func TestConsoleOpensAWindowForAProvider(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	there := installation.StartOnLocalhost(t, "sqlite") // at another host, since browsers share cookies between ports
	there.Invite("paul@example.org", "member")
	app := there.NewApplication(object{
		"redirect_uris": []string{s.URL + upstream.PathCallback}, "scopes": []string{"openid", "profile", "email"},
	})
	made := s.Call("POST", "/oidc/upstream", object{
		"name": "Acme", "issuer": there.URL, "client_id": app.ID, "client_secret": app.Secret, "default_role": "member",
	}).Want(201)
	c := newConsole(t, s)
	c.DisableAutofill()
	c.Do(chromedp.Navigate(made.Text("sign_in_url")))
	c.Submit("email", "paul@example.org", "password", "a first password")
	c.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	c.See("Overview")
	c.at("/organizations", "Default organization")
	c.misses("New organization")
	c.at("/organizations?new=1", "Default organization")
	c.misses("its owner")

	s.AgeSignIns()
	c.LoadAxe()
	c.at("/keys?new=1", "New API key")
	c.Fill("name", "laptop")
	c.Press("Create")
	c.See("This needs a sign-in of the last ten minutes.")
	c.Check("sign-in-again-provider")
	window := c.Opens(func() { c.Press("Continue with Acme") })
	window.Wait("the page", `document.querySelector('form[action="/sign-in/upstream"] button')`)
	window.Screenshot("sign-in-again-window")
	window.Do(chromedp.Click(chromedp.CSS(`form[action="/sign-in/upstream"] button`)))
	window.Wait("the provider", `location.origin === `+chromium.Quote(there.URL)+` && document.querySelector('input[name="password"]')`)
	window.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), "paul@example.org"),
		chromedp.SetValue(chromedp.CSS(`input[name="password"]`), "a first password"),
		chromedp.Click(chromedp.CSS(`form button`)))
	c.See("sk_")
	c.Screenshot("sign-in-again-key")
	c.Clean()
	waittest.True(t, "the window to close", window.Closed)
}
