package console

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// TestConsoleSetup opens the link of a fresh installation: one form later the owner is in the console.
func TestConsoleSetup(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	out, err := s.Command("setup-link").Output()
	s.Must(err)
	link, _, _ := bytes.Cut(out, []byte("\n"))
	c := newConsole(t, s)
	c.Do(chromedp.Navigate(s.URL + "/"))
	c.See("steward setup-link")
	c.LoadAxe()
	c.Check("setup-hint")
	c.Do(chromedp.EmulateViewport(390, 800))
	c.Do(chromedp.Navigate(string(link)))
	c.Wait("the form", `document.querySelector('[name="token"]')?.value.length === 54`)
	if shown := chromium.Evaluate[string](c.Browser, `location.href + document.body.innerText`); strings.Contains(shown, "#") {
		t.Errorf("the page shows the token: %s", shown)
	}
	c.LoadAxe()
	c.Check("setup")
	if wide := chromium.Evaluate[bool](c.Browser, `document.documentElement.scrollWidth > 390`); wide {
		t.Error("the page is wider than the screen")
	}
	c.Fill("organization", "Acme")
	c.Fill("email", "ada@example.com")
	c.Fill("password", "ada@example.com")
	c.Press("Set up and open the console")
	c.Wait("the problem", `document.querySelector('[role="alert"]')`)
	c.Fill("password", "a first password")
	c.Press("Set up and open the console")
	c.Do(chromedp.EmulateViewport(1280, 900))
	c.Wait("the console", `location.pathname === '/console/' && document.querySelector('#app h1')`)
	c.See("Acme")
	c.Clean()
	c.Do(chromedp.Navigate(string(link)))
	c.See("This installation is set up")
}

// TestConsoleSetupWithPasskey sets an installation up with a passkey and no password. The owner signs out and
// in again with the passkey.
func TestConsoleSetupWithPasskey(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", installation.OnLocalhost(t)...)
	out, err := s.Command("setup-link").Output()
	s.Must(err)
	link, _, _ := bytes.Cut(out, []byte("\n"))
	c := newConsole(t, s)
	c.LoadAxe()
	c.DisableAutofill()
	a := c.NewAuthenticator()
	c.Do(chromedp.Navigate(string(link)))
	c.Wait("the form", `document.querySelector('[name="token"]')?.value.length === 54`)
	c.Check("setup-passkey")
	c.Fill("organization", "Acme")
	c.Fill("email", "ada@example.com")
	c.Press("Use a passkey instead")
	c.See("Create a passkey")
	c.Check("setup-passkey-create")
	c.Press("Choose a password instead")
	c.Wait("the form", `document.querySelector('[name="token"]')?.value.length === 54`)
	c.Fill("organization", "Acme")
	c.Fill("email", "ada@example.com")
	c.Press("Use a passkey instead")
	c.Press("Create passkey")
	inConsole := `location.pathname === '/console/' && document.querySelector('#app h1')`
	c.Wait("the console", inConsole)
	c.See("Acme")
	if held := a.Passkeys(); len(held) != 1 || held[0].UserName != "ada@example.com" {
		t.Errorf("the authenticator holds %v", held)
	}
	c.Do(chromedp.EmulateViewport(1280, 900))
	c.command("log out", "Sign out")
	c.Press("Sign in")
	c.Press("Sign in with a passkey")
	c.Wait("the console", inConsole)
	c.See("Acme")
	c.Clean()
	s.AgeSignIns()
	c.at("/members", "ada@example.com")
	c.Press("Invite member")
	c.Fill("email", "grace@example.com")
	c.Press("Invite")
	c.Press("Use a passkey")
	c.See("/invite/")
	c.Clean()
}
