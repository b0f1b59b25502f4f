package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// templates is where the pages of the provider are.
const templates = "../internal/oidc/provider/pages/templates/"

// TestPagesAreAccessible opens every page that people see in Chromium, light and dark, on a wide and on a
// narrow screen. axe-core must find nothing serious, and no page may be wider than the screen. A template that no
// page is made of fails the test. Screenshots are written to e2e/artifacts.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	reset := s.newReset()
	invited := s.call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "member"}).want(201)
	scopes := []string{"openid", "profile", "email", "offline_access", "storage:read", "webhook:write"}
	a := s.application(object{"scopes": scopes, "grant_types": everyGrant})
	config := s.relyingParty(a, scopes...).config
	b := newChromium(t)
	b.loadAxe()
	// base.html has parts of the others, and formpost.html sends itself before anybody can read it.
	checked := map[string]bool{"base.html": true, "formpost.html": true}
	check := func(template, name string) {
		t.Helper()
		checked[template] = true
		b.check(name)
	}

	b.open(s.URL + "/invite/unknown")
	check("message.html", "message")
	b.open(invited.text("link"))
	check("invite.html", "invitation")
	b.open(reset)
	check("reset.html", "reset")
	b.open(config.AuthCodeURL("s"))
	check("signin.html", "sign-in")
	b.submit("email", adminEmail, "password", "wrong password")
	check("signin.html", "sign-in-wrong")
	b.submit("email", adminEmail, "password", adminPassword)
	check("consent.html", "consent")
	b.open(s.URL + "/device")
	check("device.html", "device")
	b.submit("user_code", "AAAA-BBBB")
	check("device.html", "device-wrong")
	status, started := s.post(a, "/device_authorization", map[string][]string{"scope": {"openid webhook:write"}})
	if status != 200 {
		t.Fatalf("got %v", started)
	}
	b.open(started["verification_uri_complete"].(string))
	check("consent.html", "device-consent")
	b.do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	check("message.html", "device-connected")
	b.open(s.URL + "/account")
	b.do(chromedp.SetValue(chromedp.CSS(`input[name="name"]`), "Laptop of Ada"))
	b.do(chromedp.Click(chromedp.CSS(`form[action="/account/keys"] button`)), chromedp.WaitVisible(chromedp.CSS(`.value`)))
	check("key.html", "key")
	b.open(s.URL + "/account")
	check("account.html", "account")
	b.submit("password", "wrong password", "new_password", "a new password")
	check("account.html", "account-wrong")
	joins := s.secondOrganization().call("POST", "/oidc/org/members", object{"email": adminEmail, "role": "member"}).want(201)
	b.open(joins.text("link"))
	check("join.html", "join")
	b.open(s.URL + "/end_session")
	check("signout.html", "sign-out")
	b.do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	check("message.html", "signed-out")

	files, err := filepath.Glob(templates + "*.html")
	s.must(err)
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
func (s *steward) newReset() string {
	s.t.Helper()
	owner := s.call("GET", "/cli/auth/user", nil).want(200).text("id")
	return s.call("POST", "/oidc/org/members/"+owner+"/reset-password", nil).want(200).text("link")
}

// open opens a page.
func (b *chromium) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(`h1`)))
}

// submit fills in fields and submits the first form with its first button.
func (b *chromium) submit(fields ...string) {
	b.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		b.do(chromedp.SetValue(chromedp.CSS(fmt.Sprintf(`form input[name=%q]`, fields[i])), fields[i+1]))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`document.body.id = "before"; undefined`))
	b.do(chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`body:not(#before) h1`)))
}

// loadAxe reads axe-core.
func (b *chromium) loadAxe() {
	b.t.Helper()
	source, err := os.ReadFile("oidc/node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Fatal("axe-core is not installed: run `make deps`")
	}
	b.axe = string(source)
}

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// check runs axe-core on the page in both color schemes and at both widths, and takes screenshots.
func (b *chromium) check(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.colorScheme(scheme)
			b.do(chromedp.EmulateViewport(width, 844))
			what := fmt.Sprintf("%s-%s-%d", name, scheme, width)
			b.screenshot(what)
			for _, v := range b.violations() {
				if v.Impact == "serious" || v.Impact == "critical" {
					b.t.Errorf("%s: %s: %s: %s: %v", what, v.Impact, v.ID, v.Help, v.Nodes)
				} else {
					b.t.Logf("%s: %s: %s: %s", what, v.Impact, v.ID, v.Help)
				}
			}
			if actual := evaluate[int64](b, `document.documentElement.scrollWidth`); actual > width {
				b.t.Errorf("%s is %d pixels wide", what, actual)
			}
		}
	}
}

func (b *chromium) violations() []violation {
	b.t.Helper()
	if evaluate[bool](b, `!window.axe`) {
		b.do(chromedp.Evaluate[chromedp.Void](b.axe + "; undefined"))
	}
	text := evaluate[string](b, `axe.run({resultTypes: ['violations'], selectors: false}).then(r => JSON.stringify({violations: r.violations, passed: r.passes.length}))`)
	var found struct {
		Violations []violation
		Passed     int
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatal(err)
	}
	if found.Passed < 10 {
		b.t.Fatalf("axe-core has applied %d rules only", found.Passed)
	}
	return found.Violations
}

// evaluate returns the value of a JavaScript expression on the page.
func evaluate[T any](b *chromium, expression string) T {
	b.t.Helper()
	b.watchdog.Reset(actionTimeout)
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}
