// Package console uses the console of a real installation in Chromium.
package console

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }

type object = map[string]any

// console is Chromium at the console, used as people do: by labels and texts.
type console struct {
	*chromium.Browser
	s *installation.Steward
}

// newConsole returns a console in which nobody is signed in.
func newConsole(t *testing.T, s *installation.Steward) *console {
	c := &console{Browser: chromium.New(t), s: s}
	c.Watch()
	c.Do(chromedp.EmulateViewport(1280, 900))
	return c
}

// signedIn returns a console in which the first owner is signed in.
func signedIn(t *testing.T, s *installation.Steward) *console {
	t.Helper()
	c := newConsole(t, s)
	c.visit("/")
	c.signIn()
	c.See("Overview")
	return c
}

// signIn signs the first owner in, from the page that says that nobody is.
func (c *console) signIn() {
	c.T.Helper()
	c.signInAs(installation.AdminEmail, installation.AdminPassword)
}

func (c *console) signInAs(email, password string) {
	c.T.Helper()
	c.Press("Sign in")
	c.Wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), email))
	c.Do(chromedp.SetValue(chromedp.CSS(`input[name="password"]`), password))
	c.Do(chromedp.Click(chromedp.CSS(`form button`)))
	c.Wait("the console", `location.pathname.startsWith('/console/') && document.querySelector('#app h1')`)
}

// visit opens a page of the console by its address.
func (c *console) visit(path string) {
	c.T.Helper()
	c.Do(chromedp.Navigate(c.s.URL + "/console" + path))
	c.Wait("a page", `document.querySelector('#app h1')`)
}

// offline cuts the browser off from the network, or connects it again.
func (c *console) offline(off bool) {
	c.T.Helper()
	chromium.Call(c.Browser, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
	})
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
