// Package console uses the console of a real installation in Chromium.
package console

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any

// console is Chromium at the console, used as people do: by labels and texts. Errors of scripts,
// violations of the Content-Security-Policy and an executed alert fail the test.
type console struct {
	*chromium.Browser
	s *installation.Steward
}

// watch collects what goes wrong in a page. A script that was smuggled in calls smuggled.
const watch = `window.faults = [];
performance.setResourceTimingBufferSize(10000);
addEventListener('error', e => faults.push('error: ' + e.message));
addEventListener('unhandledrejection', e => faults.push('rejection: ' + e.reason));
document.addEventListener('securitypolicyviolation', e => faults.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
window.smuggled = () => faults.push('a stored text was executed');
window.alert = window.smuggled;`

func newConsole(t *testing.T, s *installation.Steward) *console {
	c := &console{Browser: chromium.New(t), s: s}
	c.Do(chromedp.Evaluate[chromedp.Void](`undefined`)) // starts the browser
	_, err := chromedp.Call(c.Ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	s.Must(err)
	c.Do(chromedp.EmulateViewport(1280, 900))
	return c
}

// signedIn returns a console in which the first owner is signed in.
func signedIn(t *testing.T, s *installation.Steward) *console {
	t.Helper()
	c := newConsole(t, s)
	c.visit("/")
	c.signIn()
	c.see("Overview")
	return c
}

// signIn signs the first owner in, from the page that says that nobody is.
func (c *console) signIn() {
	c.T.Helper()
	c.signInAs(installation.AdminEmail, installation.AdminPassword)
}

func (c *console) signInAs(email, password string) {
	c.T.Helper()
	c.press("Sign in")
	c.wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), email))
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="password"]`), password))
	c.Do(chromedp.Click(chromedp.CSS(`form button`)))
	c.wait("the console", `location.pathname.startsWith('/console/') && document.querySelector('#app h1')`)
}

// visit opens a page of the console by its address.
func (c *console) visit(path string) {
	c.T.Helper()
	c.Do(chromedp.Navigate(c.s.URL + "/console" + path))
	c.wait("a page", `document.querySelector('#app h1')`)
}

// wait waits until a JavaScript expression is true.
func (c *console) wait(what, expression string) {
	c.T.Helper()
	shown := false
	defer func() {
		if !shown {
			c.Screenshot("console-stuck")
			c.T.Logf("%s shows\n%s", chromium.Evaluate[string](c.Browser, `location.href`), chromium.Evaluate[string](c.Browser, `document.body.innerText`))
			c.clean()
		}
	}()
	waittest.True(c.T, what, func() bool {
		c.KeepOpen()
		value, err := chromedp.Run(c.Ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		shown = err == nil && value // a page that is being left or opened cannot be asked
		return shown
	})
}

// see waits until the page shows a text.
func (c *console) see(text string) {
	c.T.Helper()
	c.wait(fmt.Sprintf("%q", text), `document.body?.innerText.includes(`+quoted(text)+`)`)
}

// control is the expression of the visible button, link or summary with a text or label; the last
// one, which is the one of an open dialog.
func control(text string) string {
	return `[...document.querySelectorAll('button, a, summary')].filter(e => e.checkVisibility() && !e.disabled &&
		(e.innerText.trim() === ` + quoted(text) + ` || e.getAttribute('aria-label') === ` + quoted(text) + `)).at(-1)`
}

// press clicks a button or link.
func (c *console) press(text string) {
	c.T.Helper()
	c.wait("the button "+text, control(text))
	c.Do(chromedp.Evaluate[chromedp.Void](control(text) + `.click(); undefined`))
}

// fill sets the field with a name in the open dialog or on the page.
func (c *console) fill(name, value string) {
	c.T.Helper()
	field := `[...document.querySelectorAll('[name="` + name + `"]')].filter(e => e.checkVisibility()).at(-1)`
	c.wait("the field "+name, `(e => e && (e.tagName !== 'SELECT' || [...e.options].some(o => o.value === `+quoted(value)+`)))(`+field+`)`)
	c.Do(chromedp.Evaluate[chromedp.Void](`{ const e = ` + field + `; e.focus(); e.value = ` + quoted(value) +
		`; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); } undefined`))
}

// text returns what the first element with a CSS selector shows.
func (c *console) text(selector string) string {
	c.T.Helper()
	c.wait(selector, `document.querySelector(`+quoted(selector)+`)`)
	return chromium.Evaluate[string](c.Browser, `document.querySelector(`+quoted(selector)+`).innerText`)
}

// offline cuts the browser off from the network, or connects it again.
func (c *console) offline(off bool) {
	c.T.Helper()
	_, err := chromedp.Call(c.Ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	c.s.Must(err)
}

// clean fails the test if something went wrong on the page since it was opened.
func (c *console) clean() {
	c.T.Helper()
	if faults := chromium.Evaluate[[]string](c.Browser, `window.faults ?? []`); len(faults) > 0 {
		c.T.Errorf("%s: %s", chromium.Evaluate[string](c.Browser, `location.pathname`), strings.Join(faults, "\n"))
	}
}

// logged collects what the browser writes to its console from now on, and returns a function that
// returns the messages with a text.
func (c *console) logged(text string) func() []string {
	var mu sync.Mutex
	var found []string
	messages := chromedp.Console(c.Ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			mu.Lock()
			if strings.Contains(m.Text, text) {
				found = append(found, m.Text)
			}
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(found)
	}
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can be encoded
	}
	return string(b)
}
