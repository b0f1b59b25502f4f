package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/porttest"
)

// fixedPort returns an installation that has the same address after each start.
func fixedPort(t *testing.T) *installation.Steward {
	t.Helper()
	s := installation.Prepare(t, "sqlite", "--listen", porttest.Address(porttest.Free(t)))
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword}
	s.Start()
	return s
}

// nav clicks a page in the navigation.
func (c *console) nav(label string) {
	c.T.Helper()
	link := `[...document.querySelectorAll('.side a.nav')].find(a => a.innerText.trim() === ` + chromium.Quote(label) + `)`
	c.Wait("the page "+label, link)
	c.Do(chromedp.Evaluate[chromedp.Void](link + `.click(); undefined`))
}

// TestConsoleRecoversAfterARestart stops the server while pages are open: what was loaded stays, and
// everything that failed is loaded when the server is back, without a click. The page of a script
// that could not be loaded opens too.
func TestConsoleRecoversAfterARestart(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	h := s.NewHook("orders")
	c := signedIn(t, s)
	c.visit("/settings")
	c.See("Running since")
	live := c.newTab()
	live.visit("/webhooks/" + h.ID + "?live=1")
	live.Wait("the stream", `document.querySelector('.dot.live')`)
	gone := c.newTab()
	gone.visit("/webhooks")
	gone.See("orders")
	s.Stop()
	c.nav("Threads") // its script is not in the cache
	c.See("could not be loaded")
	live.Wait("the break", `!document.querySelector('.dot.live')`)
	gone.nav("Webhooks") // loaded already: its requests fail
	gone.Do(chromedp.Evaluate[chromedp.Void](`dispatchEvent(new PopStateEvent('popstate')); undefined`))
	s.Start()
	c.See("No threads yet")
	c.Wait("no error", `!document.querySelector('.failure') && location.pathname === '/console/threads'`)
	live.Wait("the stream again", `document.querySelector('.dot.live')`)
	s.Ingest(h, `{"order": 1042}`)
	live.See("1042")
	gone.Wait("no error", `!document.querySelector('.failure')`)
}

// TestConsoleLoadsAgain opens a page whose requests fail, since the server is overloaded or being
// restarted. It shows the error, and what is asked for as soon as the server answers.
func TestConsoleLoadsAgain(t *testing.T) {
	t.Parallel()
	s := fixedPort(t)
	s.NewHook("orders")
	c := signedIn(t, s)
	c.nav("Webhooks")
	c.See("orders")
	c.nav("Overview")
	c.See("Latest changes")
	s.Stop()
	c.nav("Webhooks")
	c.See("The server cannot be reached")
	c.See("tries again by itself")
	s.Start()
	c.See("orders")
	c.misses("The server cannot be reached")
	c.Clean()
}

// endSession ends the session of a browser without the page knowing.
func (c *console) endSession() {
	c.T.Helper()
	chromium.Evaluate[int](c.Browser, `fetch('/console/sign-out', {method: 'POST', headers: {'X-Steward-Console': '1'}}).then(r => r.status)`)
}

// over is the expression of the dialogs that say that the session has ended.
const over = `[...document.querySelectorAll('dialog')].filter(d => d.innerText.includes('Your session has ended'))`

// testSaysOnceThatTheSessionHasEnded ends the session behind a page that sends many requests:
// one message with one button, which leads back to the same page.
func testSaysOnceThatTheSessionHasEnded(t *testing.T, s *installation.Steward) {
	h := s.NewHook("orders")
	c := signedIn(t, s)
	c.at("/webhooks/"+h.ID+"?tab=destinations", "No destinations yet")
	c.endSession()
	c.nav("Overview")
	c.Wait("one message", over+`.length === 1`)
	c.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	c.Wait("the page of before", `location.search === '?tab=destinations'`)
	c.settle()
	if n := chromium.Evaluate[int](c.Browser, over+`.length + document.querySelectorAll('.toast, .failure').length`); n != 1 {
		t.Errorf("%d messages: %s", n, c.Text("body"))
	}
	if n := chromium.Evaluate[int](c.Browser, over+`[0].querySelectorAll('a, button').length`); n != 1 {
		t.Errorf("the message has %d buttons", n)
	}
	c.LoadAxe()
	c.Check("console-session-ended")
	c.Press("Sign in again")
	c.Wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), installation.AdminEmail))
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="password"]`), installation.AdminPassword))
	c.Do(chromedp.Click(chromedp.CSS(`form button`)))
	c.See("No destinations yet")
	if at := chromium.Evaluate[string](c.Browser, `location.pathname + location.search`); at != "/console/webhooks/"+url.PathEscape(h.ID)+"?tab=destinations" {
		t.Errorf("the sign-in leads to %s", at)
	}
	c.Clean()
}

// TestConsoleFormSurvivesTheEndOfTheSession ends the session while a form is filled in. The user signs in in
// another tab; the page goes on by itself, with what was entered.
func TestConsoleFormSurvivesTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.at("/webhooks", "No webhooks yet")
	c.Press("New webhook")
	c.Fill("name", "orders")
	c.endSession()
	c.Press("Create")
	c.Wait("the message, which opens another tab", over+`[0]?.querySelector('a').target === '_blank'`)
	other := c.newTab()
	other.visit("/")
	other.signIn()
	c.Wait("the form with what was entered", over+`.length === 0 && document.querySelector('dialog [name="name"]').value === 'orders'`)
	c.Press("Create")
	c.See("The webhook was created")
}

// TestConsolePagesGoBack pages through a list and back, over a reload and the browser's own buttons.
func TestConsolePagesGoBack(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	for range 120 {
		s.Call("POST", "/cli/project", object{"name": "project"}).Want(201)
	}
	c := signedIn(t, s)
	c.at("/projects", "50 shown")
	const shown = `[...document.querySelectorAll('#content .mono, #content code')].map(e => e.innerText).join()`
	pages := []string{chromium.Evaluate[string](c.Browser, shown)}
	moved := func(button string) string {
		t.Helper()
		before := chromium.Evaluate[string](c.Browser, shown)
		c.Press(button)
		c.Wait("another page", shown+` !== `+chromium.Quote(before))
		return chromium.Evaluate[string](c.Browser, shown)
	}
	wants := func(where, got string, n int) {
		t.Helper()
		if got != pages[n] || !strings.Contains(got, "prj_") {
			t.Errorf("%s shows %s, want page %d", where, got, n)
		}
	}
	if chromium.Evaluate[bool](c.Browser, `!!`+chromium.Control("Previous page")) {
		t.Error("the first page has a previous one")
	}
	pages = append(pages, moved("Next page"))
	pages = append(pages, moved("Next page"))
	wants("Previous on the third page", moved("Previous page"), 1)
	c.Do(chromedp.Evaluate[chromedp.Void](`window.before = true; location.reload()`))
	c.Wait("the page again", `!window.before`)
	c.See("Previous page")
	wants("Previous after a reload", moved("Previous page"), 0)
	if at := chromium.Evaluate[string](c.Browser, `location.search`); at != "" {
		t.Errorf("the first page is at %s", at)
	}
	wants("Next again", moved("Next page"), 1)
	c.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	c.Wait("the first page", shown+` === `+chromium.Quote(pages[0])+` && !`+chromium.Control("Previous page"))
	c.Clean()
}
