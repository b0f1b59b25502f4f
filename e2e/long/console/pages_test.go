package console

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// place is something that the console shows: the page of a route, one of its tabs, or a dialog.
type place struct {
	route, path string
	// shows is a text of the installation, which is there when the page is complete.
	shows string
	// then is done on the page: buttons that are pressed.
	then []string
	// picture is the name of its picture in the documentation; it is also taken in dark if dark is set.
	picture string
	dark    bool
}

// tab returns the tab in the address, or "" for the first one.
func (p place) tab() string {
	_, query, _ := strings.Cut(p.path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		panic(err) // the addresses are constants
	}
	return values.Get("tab")
}

// places returns what the console shows of the installation: every route, and every tab that is a
// page of its own.
func (d *demo) places() []place {
	hook, app := "/webhooks/"+d.orders, "/oauth/clients/"+d.dashboard.ID
	return []place{
		{route: "/", path: "/", shows: "127.0.0.1", picture: "overview", dark: true},
		{route: "/webhooks", path: "/webhooks", shows: "repository", picture: "webhooks"},
		{route: "/webhooks", path: "/webhooks?tab=system", shows: "product-photos"},
		{route: "/webhooks", path: "/webhooks?new=1", shows: "repository"},
		{route: "/webhooks/:id", path: hook, shows: `"order"`, picture: "receipts"},
		{route: "/webhooks/:id", path: hook + "?tab=deliveries", shows: "503"},
		{route: "/webhooks/:id", path: hook + "?tab=destinations", shows: "/newsletter", picture: "destinations"},
		{route: "/webhooks/:id", path: hook + "?tab=analytics&span=30d", shows: "orders", picture: "analytics"},
		{route: "/webhooks/:id", path: hook + "?tab=replay", shows: "of 72"},
		{route: "/webhooks/:id", path: hook + "?tab=settings", shows: "orders"},
		{route: "/webhooks/:id/receipts/:receiptId", path: hook + "/receipts/" + d.receiptID, shows: "503", picture: "receipt", dark: true},
		{route: "/storage", path: "/storage", shows: "product-photos", picture: "storage"},
		{route: "/storage/:bucket", path: "/storage/product-photos", shows: "lamp-front.png", picture: "bucket"},
		{route: "/storage/:bucket", path: "/storage/product-photos?key=lamp-front.png", shows: "image/png", picture: "preview"},
		{route: "/storage/:bucket", path: "/storage/product-photos?tab=config", shows: "product-photos"},
		{route: "/storage/:bucket", path: "/storage/product-photos?tab=connection", shows: "S3_ENDPOINT"},
		{route: "/databases", path: "/databases", shows: "analytics"},
		{route: "/databases/:region/:name", path: "/databases/local/shop?table=customers", shows: "Wien"},
		{route: "/databases/:region/:name", path: "/databases/local/shop?table=orders", shows: "paid_at", then: []string{"Query", "Run"}, picture: "sql"},
		{route: "/databases/:region/:name", path: "/databases/local/shop?tab=sql", shows: "One statement", then: []string{"Run", "History"}},
		{route: "/databases/:region/:name", path: "/databases/local/shop?tab=connection", shows: "DATABASE_URL"},
		{route: "/key-value", path: "/key-value", shows: "carts"},
		{route: "/key-value/:region/:name", path: "/key-value/local/carts", shows: "cart:2210", picture: "keys"},
		{route: "/key-value/:region/:name", path: "/key-value/local/carts?tab=connection", shows: "REDIS_URL"},
		{route: "/threads", path: "/threads", shows: "conversation-493", picture: "threads"},
		{route: "/threads/:id", path: "/threads/conversation-489", shows: "/support/message", picture: "thread"},
		{route: "/sessions", path: "/sessions", shows: "/support/message"},
		{route: "/sessions/:id", path: "/sessions/session-7208", shows: "did not answer"},
		{route: "/evaluations", path: "/evaluations", shows: "Is polite", picture: "evaluations"},
		{route: "/evaluations", path: "/evaluations?tab=evals", shows: "Names the right order"},
		{route: "/evaluations/runs/:id", path: "/evaluations/runs/run-380", shows: "friendly"},
		{route: "/oauth/clients", path: "/oauth/clients", shows: "Warehouse scanner", picture: "apps"},
		{route: "/oauth/clients/new", path: "/oauth/clients/new", shows: "What is it?"},
		{route: "/oauth/clients/:id", path: app, shows: d.dashboard.ID, picture: "app"},
		{route: "/oauth/clients/:id", path: app + "?tab=users", shows: "Grace"},
		{route: "/oauth/clients/:id", path: app + "?tab=connect", shows: "openid-client", picture: "connect"},
		{route: "/oauth/clients/:id", path: app + "?tab=settings", shows: "Object storage"},
		{route: "/keys", path: "/keys", shows: "backup of the shop", picture: "api-keys"},
		{route: "/keys", path: "/keys?new=1", shows: "Support agent"},
		{route: "/members", path: "/members", shows: "Grace Okafor", picture: "members"},
		{route: "/members", path: "/members?find=grace", shows: "Grace Okafor", then: []string{"Actions for Grace Okafor"}},
		{route: "/members", path: "/members?role=admin", shows: "Grace Okafor", then: []string{"Actions for Grace Okafor", "Change role"}},
		{route: "/members", path: "/members?new=1", shows: "Steward sends no mail"},
		{route: "/projects", path: "/projects", shows: "Support agent"},
		{route: "/alerts", path: "/alerts", shows: "Orders fail"},
		{route: "/alerts", path: "/alerts?new=1", shows: "Notices go to"},
		{route: "/audit", path: "/audit", shows: "Shop dashboard", picture: "audit"},
		{route: "/organizations", path: "/organizations", shows: "current"},
		{route: "/organizations", path: "/organizations?new=1", shows: "You become its owner"},
		{route: "/settings", path: "/settings", shows: "libsql", picture: "settings"},
	}
}

// show opens a place and waits until nothing on it is being loaded.
func (c *console) show(p place) {
	c.T.Helper()
	c.at(p.path, p.shows)
	for _, text := range p.then {
		c.Press(text)
	}
	c.settle()
}

// settle waits until nothing on the page is being loaded or drawn.
func (c *console) settle() {
	c.T.Helper()
	c.Wait("what is loaded", `![...document.querySelectorAll('.loading, [aria-busy=true]')].some(e => e.checkVisibility() && /^$|Loading|Searching/.test(e.innerText))
		&& [...document.querySelectorAll('.plot')].every(e => e.querySelector('canvas'))
		&& [...document.querySelectorAll('img')].every(e => e.complete)`)
	chromium.Evaluate[bool](c.Browser, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// patterns matches the routes in console/src/routes.ts.
var patterns = regexp.MustCompile(`pattern: '([^']+)'`)

// TestConsolePagesAreAccessible opens every route of the console and every tab of its pages, light and
// dark, on a wide and on a narrow screen. axe-core must find nothing serious, and no page may be wider
// than the screen. A route or tab that is not among the places fails the test. `make screenshots` takes
// the pictures of docs/console.md with it.
func TestConsolePagesAreAccessible(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	places := d.places()
	source, err := os.ReadFile("../../../console/src/routes.ts")
	d.Must(err)
	routes := patterns.FindAllStringSubmatch(string(source), -1)
	if len(routes) < 20 {
		t.Fatalf("routes.ts has %d routes", len(routes))
	}
	for _, route := range routes {
		if !slices.ContainsFunc(places, func(p place) bool { return p.route == route[1] }) {
			t.Errorf("the route %s is not checked", route[1])
		}
	}
	c := newConsole(t, d.Steward)
	c.LoadAxe()
	c.visit("/webhooks")
	c.Check("console-signed-out")
	c.signIn()
	taken := map[string]bool{}
	for _, p := range places {
		c.ColorScheme("light")
		c.Do(chromedp.EmulateViewport(1280, 832))
		c.show(p)
		if p.picture != "" {
			c.picture(p.picture)
			taken[p.picture] = true
		}
		if p.dark {
			c.ColorScheme("dark")
			c.settle()
			c.picture(p.picture + "-dark")
			taken[p.picture+"-dark"] = true
		}
		c.Check("console" + artifact.ReplaceAllString(p.path, "-"))
		for _, tab := range chromium.Evaluate[[]string](c.Browser, `[...document.querySelectorAll('nav.tabs a')].map(a => new URLSearchParams(a.search).get('tab') ?? '')`) {
			if !slices.ContainsFunc(places, func(o place) bool { return o.route == p.route && o.tab() == tab }) {
				t.Errorf("the tab %q of %s is not checked", tab, p.route)
			}
		}
		c.Clean()
	}
	checkPictures(t, taken)
	c.at("/nowhere", "does not exist")
	c.Check("console-nowhere")
	c.at("/webhooks/wh_unknown", "not found")
	c.Check("console-not-found")
	c.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	c.See("Page")
	c.Check("console-palette")
	c.Clean()
	b, _ := d.Invite("viewer@example.com", "viewer")
	viewer := newConsole(t, d.Steward)
	viewer.LoadAxe()
	viewer.visit("/members")
	viewer.signInAs(b.Email, b.Password)
	viewer.See("Your role does not include this page")
	viewer.Check("console-no-access")
	viewer.Clean()
}

// artifact matches what a file of a screenshot is not named with.
var artifact = regexp.MustCompile(`[^a-z0-9]+`)

// pictures is where the pictures of the documentation are.
const pictures = "../../../docs/images/console"

// picture takes a picture of what a screen shows, if that is asked for.
func (c *console) picture(name string) {
	c.T.Helper()
	c.Picture(filepath.Join(pictures, name+".webp"), 1280)
}

// named matches the pictures that a document shows.
var named = regexp.MustCompile(`images/console/([a-z-]+)\.webp`)

// checkPictures fails the test unless the documents show pictures that the test takes, and those
// are there, all of them, and not larger than they need to be.
func checkPictures(t *testing.T, taken map[string]bool) {
	t.Helper()
	shown := map[string]bool{}
	for _, document := range []string{"../../../docs/console.md", "../../../README.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			shown[m[1]] = true
		}
	}
	total := int64(0)
	for name := range taken {
		file, err := os.Stat(filepath.Join(pictures, name+".webp"))
		if err != nil {
			t.Errorf("run `make screenshots`: %v", err)
			continue
		}
		total += file.Size()
		if !shown[name] {
			t.Errorf("no document shows the picture %s", name)
		}
	}
	for name := range shown {
		if !taken[name] {
			t.Errorf("the picture %s is of no page", name)
		}
	}
	if total > 1_500_000 {
		t.Errorf("the pictures have %d bytes", total)
	}
}

// testUnknownTabIsTheFirst opens an address with a tab that does not exist.
func testUnknownTabIsTheFirst(t *testing.T, s *installation.Steward) {
	h := s.NewHook("orders")
	s.Ingest(h, `{"order": 1042}`)
	c := signedIn(t, s)
	c.at("/webhooks/"+h.ID+"?tab=nowhere", "1042")
	c.Wait("the address of the first tab", `location.search === ''`)
	c.Clean()
}

func TestConsoleRotatesSigningKeys(t *testing.T) {
	t.Parallel()
	c := signedIn(t, installation.StartWithOwner(t, "sqlite"))
	c.at("/settings", "libsql")
	c.Wait("the signing keys", `[...document.querySelectorAll('.tag.good')].some((t) => t.innerText === "active")`)
	c.Press("Rotate")
	c.See("Tokens that were signed before stay valid")
	c.Press("Rotate")
	c.See("were rotated")
	c.misses("Tokens that were signed before stay valid")
	c.Clean()
}

// testFirstLoadIsSmall opens the first page with an empty cache and adds up what Chromium
// loads for it from the server, as it is sent, without what the API responds with.
func testFirstLoadIsSmall(t *testing.T, s *installation.Steward) {
	h := s.NewHook("orders")
	s.Ingest(h, `{"order": 1042}`)
	c := signedIn(t, s)
	chromium.Call(c.Browser, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	c.at("/", "Latest changes")
	c.settle()
	loaded := chromium.Evaluate[[]int](c.Browser, `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter(e => !e.name.includes('/api/')).map(e => e.encodedBodySize)`)
	sum := 0
	for _, size := range loaded {
		sum += size
	}
	t.Logf("%d files with %d bytes", len(loaded), sum)
	if len(loaded) < 5 || sum < 20_000 || sum > 200_000 {
		t.Errorf("the first page loads %d files with %d bytes, want at most 200 kB", len(loaded), sum)
	}
}
