package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// focused is the expression of how the element with the focus is called: its label, its text, or
// its name.
const focused = `(e => e.getAttribute('aria-label') || e.innerText?.trim() || e.name || e.id || e.tagName)(document.activeElement)`

// keys presses keys, with Ctrl if the text begins with "ctrl+".
func (c *console) keys(text string) {
	c.T.Helper()
	if key, ok := strings.CutPrefix(text, "ctrl+"); ok {
		c.Do(chromedp.KeyEvent(key, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
		return
	}
	c.Do(chromedp.KeyEvent(text))
}

// tab moves the focus to the next element, which must show that it has it.
func (c *console) tab() string {
	c.T.Helper()
	c.keys(kb.Tab)
	name := chromium.Evaluate[string](c.Browser, focused)
	if !chromium.Evaluate[bool](c.Browser, `(e => e === document.body || e.matches('.editor') || getComputedStyle(e).outlineStyle !== 'none' && parseFloat(getComputedStyle(e).outlineWidth) >= 2)(document.activeElement)`) {
		c.T.Errorf("%s: nothing shows that %q has the focus", chromium.Evaluate[string](c.Browser, `location.pathname`), name)
	}
	return name
}

// tabTo moves the focus to the element whose name begins with a text.
func (c *console) tabTo(text string) {
	c.T.Helper()
	var passed []string
	for range 150 {
		name := c.tab()
		if strings.HasPrefix(name, text) {
			return
		}
		passed = append(passed, name)
	}
	c.T.Fatalf("%q cannot be reached with Tab, which goes to %q", text, passed)
}

// wantFocus waits until an element has the focus.
func (c *console) wantFocus(name string) {
	c.T.Helper()
	c.Wait("the focus on "+name, focused+`.startsWith(`+chromium.Quote(name)+`)`)
}

// find goes to a page or thing with the search.
func (c *console) find(text, path string) {
	c.T.Helper()
	c.keys("ctrl+k")
	c.wantFocus("Search")
	c.keys(text)
	c.Wait("a result", `[...document.querySelectorAll('[role=option]')].some(e => e.getAttribute('aria-selected') === 'true' && e.innerText.length)`)
	c.Wait("the page "+path, `!document.querySelector('.palette .none')`)
	c.Wait("results for "+text, `document.querySelector('[role=option]').innerText.toLowerCase().includes(`+chromium.Quote(strings.ToLower(text))+`) || document.querySelectorAll('[role=option]').length === 1`)
	c.keys(kb.Enter)
	c.Wait("the address "+path, `location.pathname === `+chromium.Quote("/console"+path))
	c.Wait("the focus on the page", `document.activeElement.id === 'content'`)
	c.settle()
}

// TestConsoleByKeyboard creates something on every page where that can be done, with the keyboard
// alone. A dialog keeps the focus and gives it back, and Escape closes it.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	for _, job := range []struct{ page, path, button, field, value, shows string }{
		{"Webhooks", "/webhooks", "New webhook", "name", "orders", "The webhook was created"},
		{"Storage", "/storage", "New bucket", "name", "photos", "S3_SECRET_ACCESS_KEY="},
		{"Databases", "/databases", "New database", "name", "shop", "DATABASE_URL="},
		{"Key-value", "/key-value", "New store", "name", "carts", "REDIS_URL="},
		{"API keys", "/keys", "New API key", "name", "deploy", "The API key was created"},
		{"Members", "/members", "Invite member", "email", "grace@example.com", "The member was invited"},
		{"Projects", "/projects", "New project", "name", "support", "The project was created."},
	} {
		c.find(job.page, job.path)
		c.tabTo(job.button)
		c.keys(kb.Enter)
		c.Wait("the field "+job.field, `document.activeElement.name === `+chromium.Quote(job.field))
		c.keys(job.value)
		for range 30 {
			c.tab()
			if !chromium.Evaluate[bool](c.Browser, `document.activeElement === document.body || !!document.activeElement.closest('dialog')`) {
				t.Fatalf("%s: the focus has left the dialog: %s", job.page, chromium.Evaluate[string](c.Browser, focused))
			}
		}
		c.keys(kb.Escape)
		c.Wait("no dialog", `!document.querySelector('dialog')`)
		c.wantFocus(job.button)
		c.keys(kb.Enter)
		c.Wait("the field again", `document.activeElement.name === `+chromium.Quote(job.field))
		c.keys("ctrl+a")
		c.keys(job.value)
		c.keys(kb.Enter)
		c.See(job.shows)
		c.keys(kb.Escape)
		c.Wait("no dialog", `!document.querySelector('dialog')`)
		c.wantFocus(job.button)
		c.Clean()
	}
	c.find("API keys", "/keys")
	c.tabTo("Delete deploy")
	c.keys(kb.Enter)
	c.Wait("the question", `document.activeElement.name === 'confirm'`)
	c.keys("deploy")
	c.keys(kb.Enter)
	c.See("The API key was deleted.")
	if list := string(s.Call("GET", "/cli/apikey", nil).Want(200).Body); strings.Contains(list, `"deploy"`) {
		t.Errorf("the API keys are %s", list)
	}
}

// TestConsoleOpensThingsByKeyboard goes to things by name and id, and opens rows of lists.
func TestConsoleOpensThingsByKeyboard(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	h := s.NewHook("orders")
	receipt := s.Ingest(h, `{"order": 1042}`)
	s.NewDatabase("shop")
	s.NewKVStore("carts")
	s.NewBucket("photos").Put("lamp.txt", "a lamp")
	a := s.NewApplication(object{})
	s.Call("PUT", "/thread/conversation-1", object{"project_id": "support"}).Want(200)
	startSessions(s, "conversation-1", "s1", "s2")
	s.Call("POST", "/evalrun", installation.EvalRun{ID: "run-1", SessionID: "s1", EvalID: "polite", ProjectID: "p1"}.Body(s.OrgID, 0)).Want(201)
	c := signedIn(t, s)
	c.find("shop", "/databases/local/shop")
	c.find("carts", "/key-value/local/carts")
	c.find(a.ID, "/oauth/clients/"+a.ID)
	c.find("conversation-1", "/threads/conversation-1")
	c.find("photos", "/storage/photos")
	c.tabTo("lamp.txt")
	c.keys(kb.Enter)
	c.See("a lamp")
	c.keys(kb.Escape)
	c.find(h.ID, "/webhooks/"+h.ID)
	c.tabTo("POST")
	c.keys(kb.Enter)
	c.Wait("the receipt", `location.pathname.endsWith(`+chromium.Quote("/receipts/"+receipt)+`)`)
	c.find("Overview", "/")
	c.find(receipt, "/webhooks/"+h.ID+"/receipts/"+receipt)
	for _, row := range []struct{ page, path, row, opens string }{
		{"Webhooks", "/webhooks", "orders", "/webhooks/" + h.ID},
		{"Storage", "/storage", "photos", "/storage/photos"},
		{"Databases", "/databases", "shop", "/databases/local/shop"},
		{"Key-value", "/key-value", "carts", "/key-value/local/carts"},
		{"Threads", "/threads", "conversation-1", "/threads/conversation-1"},
		{"Sessions", "/sessions", "POST", "/sessions/s"},
		{"Evaluations", "/evaluations", "stable", "/evaluations/runs/run-1"},
		{"OAuth apps", "/oauth/clients", "Harbour Dashboard", "/oauth/clients/" + a.ID},
		{"Projects", "/projects", "support", "/threads"},
	} {
		c.find(row.page, row.path)
		c.settle()
		c.tabTo(row.row)
		c.keys(kb.Enter)
		c.Wait("the page of "+row.row, `location.pathname.startsWith(`+chromium.Quote("/console"+row.opens)+`)`)
	}
	c.Clean()
}

// testShellByKeyboard uses what is around the pages: the link to the content, the menu of
// the user, and the navigation on a narrow screen.
func testShellByKeyboard(t *testing.T, s *installation.Steward) {
	c := signedIn(t, s)
	c.visit("/projects")
	if first := c.tab(); first != "Skip to the content" {
		t.Errorf("the first element is %q", first)
	}
	if !chromium.Evaluate[bool](c.Browser, `document.activeElement.getBoundingClientRect().height > 20`) {
		t.Error("the link to the content is not to be seen")
	}
	c.keys(kb.Enter)
	c.wantFocus("Projects")
	if next := c.tab(); next != "New project" {
		t.Errorf("after the link to the content comes %q", next)
	}

	c.visit("/projects")
	c.tabTo("A\n")
	c.keys(kb.Enter)
	c.See("Sign out")
	if next := c.tab(); next != "Organizations" {
		t.Errorf("the menu begins with %q", next)
	}
	c.keys(kb.Escape)
	c.Wait("no menu", `!document.querySelector('.sheet')`)
	c.wantFocus("A\n")

	c.Do(chromedp.EmulateViewport(390, 844))
	c.visit("/projects")
	c.tabTo("Navigation")
	c.keys(kb.Enter)
	c.wantFocus("Overview")
	c.keys(kb.Escape)
	c.wantFocus("Navigation")
	c.keys(kb.Enter)
	c.wantFocus("Overview")
	c.tabTo("Members")
	c.keys(kb.Enter)
	c.See("Invite member")
	c.Wait("the focus on the page", `document.activeElement.id === 'content'`)
	c.Clean()
}

// command types a command into the search, and carries out the first that is found.
func (c *console) command(text, label string) {
	c.T.Helper()
	c.keys("ctrl+k")
	c.wantFocus("Search")
	c.keys(text)
	c.Wait("the command "+label, `document.querySelector('[role=option][aria-selected=true]')?.innerText.startsWith(`+chromium.Quote(label)+`)`)
	c.keys(kb.Enter)
	c.Wait("no search", `!document.querySelector('.palette')`)
}

// options is the expression of what the search offers, with its kind.
const options = `[...document.querySelectorAll('[role=option]')].map(o => o.innerText.replace(/\s+/g, ' '))`

// TestConsoleCommands creates things, changes the color scheme and signs out with the search.
func TestConsoleCommands(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	for _, job := range []struct{ text, label, path, shows string }{
		{"create webhook", "Create webhook", "/webhooks", "New webhook"},
		{"new buck", "Create bucket", "/storage", "New bucket"},
		{"create data", "Create database", "/databases", "New database"},
		{"create key-value", "Create key-value store", "/key-value", "New store"},
		{"create api", "Create API key", "/keys", "New API key"},
		{"create proj", "Create project", "/projects", "New project"},
		{"invite", "Invite member", "/members", "Invite"},
	} {
		c.command(job.text, job.label)
		c.Wait("the page "+job.path, `location.pathname === `+chromium.Quote("/console"+job.path))
		c.Wait("the dialog of "+job.label, `document.querySelector('dialog h2')?.innerText.startsWith(`+chromium.Quote(job.shows)+`) && document.activeElement.closest('dialog')?.querySelector('input') === document.activeElement`)
		c.keys(kb.Escape)
		c.Wait("no dialog", `!document.querySelector('dialog')`)
	}
	c.command("create oauth", "Create OAuth app")
	c.See("What is it?")

	c.keys("ctrl+k")
	c.See("Sign out")
	c.Check("console-palette-commands")
	c.keys(kb.Escape)
	for _, scheme := range []string{"dark", "light"} {
		c.command(scheme, strings.ToUpper(scheme[:1])+scheme[1:]+" mode")
		c.Wait("the scheme", `document.documentElement.dataset.scheme === `+chromium.Quote(scheme))
	}
	c.keys("ctrl+k")
	c.Wait("the other schemes", options+`.includes('Dark mode Command') && !`+options+`.includes('Light mode Command')`)
	c.keys(kb.Escape)
	c.Clean()
	c.command("log out", "Sign out")
	c.See("Sign in to the console")
}

// TestConsoleCommandsOfRoles offers what a role may do.
func TestConsoleCommandsOfRoles(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	for _, who := range []struct {
		role            string
		offers, refuses []string
	}{
		{"viewer", []string{"Dark mode", "Sign out"}, []string{"Create webhook", "Create API key", "Create OAuth app", "Invite member"}},
		{"member", []string{"Create webhook", "Create API key", "Sign out"}, []string{"Create OAuth app", "Invite member"}},
		{"admin", []string{"Create webhook", "Create OAuth app", "Invite member"}, nil},
	} {
		email := who.role + "@example.com"
		s.Invite(email, who.role)
		c := newConsole(t, s)
		c.visit("/")
		c.signInAs(email, "a first password")
		c.See("Overview")
		c.keys("ctrl+k")
		c.See("Sign out")
		for _, label := range who.offers {
			c.Wait(label, options+`.includes(`+chromium.Quote(label+" Command")+`)`)
		}
		for _, label := range who.refuses {
			if chromium.Evaluate[bool](c.Browser, options+`.includes(`+chromium.Quote(label+" Command")+`)`) {
				t.Errorf("a %s may %s", who.role, label)
			}
		}
		c.Clean()
	}
}
