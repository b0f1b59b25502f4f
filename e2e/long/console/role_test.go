package console

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// TestConsoleShowsWhatTheRoleIncludes opens every page without an id, as each role, and with a second
// organization beside it. What a role may not see is neither in the navigation nor in the search, and says so
// when it is opened by its address; what is in the navigation sends no request that the server refuses.
func TestConsoleShowsWhatTheRoleIncludes(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	other := s.SecondOrganization()
	other.Call("POST", "/oidc/org/members", object{"email": "else@example.com", "role": "viewer"}).Want(201)
	source, err := os.ReadFile("../../../console/src/routes.ts")
	s.Must(err)
	for role, hidden := range map[string][]string{
		"admin": {}, "member": {"/members", "/alerts", "/audit", "/oauth/clients/new"}, "viewer": {"/members", "/alerts", "/audit", "/oauth/clients/new"},
	} {
		b, _ := s.Invite(role+"@example.com", role)
		c := newConsole(t, s)
		c.visit("/")
		c.signInAs(b.Email, b.Password)
		for _, m := range patterns.FindAllStringSubmatch(string(source), -1) {
			path := m[1]
			if strings.Contains(path, ":") {
				continue
			}
			c.visit(path)
			c.settle()
			refused := slices.Contains(hidden, path)
			if says := strings.Contains(c.Text("#content"), "Your role does not include this page"); says != refused {
				t.Errorf("%s as %s: says that it is not included: %v", path, role, says)
			}
			if linked := chromium.Evaluate[bool](c.Browser, `!!document.querySelector('.side a.nav[href=`+chromium.Quote("/console"+path)+`]')`); linked && refused {
				t.Errorf("%s is in the navigation of a %s", path, role)
			}
			if n := chromium.Evaluate[[]string](c.Browser, `performance.getEntriesByType('resource').filter(e => e.responseStatus === 403).map(e => e.name)`); len(n) > 0 {
				t.Errorf("%s as %s: the server refuses %q", path, role, n)
			}
			c.Clean()
		}
		c.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
		c.wantFocus("Search")
		offered := chromium.Evaluate[string](c.Browser, `[...document.querySelectorAll('[role=option]')].map(e => e.innerText).join()`)
		if found := strings.Contains(offered, "Members") && strings.Contains(offered, "Audit log"); found != (len(hidden) == 0) {
			t.Errorf("the search offers a %s %s", role, offered)
		}
	}
}
