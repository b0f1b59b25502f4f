package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/minio/minio-go/v7"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/db"
)

// markup is what an attacker stores to have it executed in the console of others.
const markup = `<img src=x onerror=smuggled()><script>smuggled()</script>"'></textarea></pre><svg onload=smuggled()>{@html smuggled()}`

// TestConsoleShowsStoredMarkupAsText stores markup in every text that the pages show, opens all of
// them, and checks that nothing was executed and that no element was made of it.
func TestConsoleShowsStoredMarkupAsText(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	k.Handle("/x", func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Answer", markup)
		http.Error(w, markup, 500)
	})
	hook := s.Call("POST", "/webhook/create", object{"name": markup, "description": markup}).Want(201)
	id := hook.Text("id")
	config := object{"url": k.URL + "/x?q=<script>smuggled()</script>", "headers": object{"X-Evil": markup}}
	s.Call("POST", "/webhook/destination-create/"+id, object{"type": "url", "config": config}).Want(201)
	receipts := map[string]string{
		"application/json": `{"<img src=x onerror=smuggled()>": ` + chromium.Quote(markup) + `}`,
		"text/html":        markup,
	}
	for contentType, body := range receipts {
		req, err := http.NewRequest("POST", hook.Text("url")+"?q=%3Cscript%3Esmuggled()%3C/script%3E", strings.NewReader(body))
		s.Must(err)
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-Evil", markup)
		req.Header.Set("User-Agent", markup)
		res, err := installation.Client.Do(req)
		s.Must(err)
		s.Must(res.Body.Close())
		if res.StatusCode != 200 {
			t.Fatalf("got %s", res.Status)
		}
	}
	k.Wait("/x", 2)
	var list []struct{ ID string }
	s.Call("GET", "/webhook/receipt-list/"+id, nil).Want(200).Decode(&list)

	c := signedIn(t, s)
	pages := []string{"/", "/webhooks", "/webhooks/" + id, "/settings"}
	for _, tab := range []string{"deliveries", "destinations", "analytics", "replay", "settings"} {
		pages = append(pages, "/webhooks/"+id+"?tab="+tab)
	}
	for _, r := range list {
		for _, view := range []string{"", "?body=raw", "?body=hex"} {
			pages = append(pages, "/webhooks/"+id+"/receipts/"+r.ID+view)
		}
	}
	pages = append(pages, "/webhooks/%3Cscript%3Esmuggled()%3C%2Fscript%3E", "/webhooks?cursor=%3Cscript%3E")
	for _, page := range pages {
		c.visit(page)
		c.Wait("the content of "+page, `document.querySelector('#content .card, #content .failure')`)
		c.Wait("what is loaded on "+page, `![...document.querySelectorAll('.loading')].some(e => e.innerText === 'Loading…')`)
		if made := chromium.Evaluate[int](c.Browser, `document.querySelectorAll('#app img, #app script, #app [onerror], #app [onload]').length`); made != 0 {
			t.Errorf("%s: %d elements were made of stored markup", page, made)
		}
		c.Clean()
	}
}

// TestConsoleShowsMarkupOfResourcesAsText stores markup where the names of resources and what they
// hold are shown. Where the API refuses it, an earlier version may have taken it: it is written
// into the database.
func TestConsoleShowsMarkupOfResourcesAsText(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	a := s.NewApplication(object{})
	s.Call("PUT", "/oidc/clients/"+a.ID, object{"homepage_url": "javascript:smuggled()"}).Want(422)
	s.Call("POST", "/oidc/org/members", object{"email": `"<img src=x onerror=smuggled()>"@example.com`, "role": "viewer"}).Want(422)
	_, member := s.Invite("grace@example.com", "viewer")
	s.Offline(func(ctx context.Context, d *db.DB) {
		s.Must(d.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE oidc_clients SET homepage_url = $1, icon = $1, description = $2`, "javascript:smuggled()", markup); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE users SET email = $1 WHERE id = $2`, markup, member); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE orgs SET name = $1`, markup); err != nil {
				return err
			}
			_, err := tx.Exec(`UPDATE audit SET target = $1, remote_addr = $1, request_id = $1`, markup)
			return err
		}))
	})
	resources := []object{{"type": "s3", "name": "files"}, {"type": "db", "name": "shop", "description": markup}, {"type": "kv", "name": "carts", "description": markup}}
	s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": resources}).Want(201)
	b := existingBucket(s, "files")
	s.Must(b.TryPut("page.html", markup, minio.PutObjectOptions{ContentType: "text/html"}))
	s.Must(b.TryPut("drawing.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="smuggled()"><script>smuggled()</script></svg>`, minio.PutObjectOptions{ContentType: "image/svg+xml"}))
	s.Must(b.TryPut("odd", "x", minio.PutObjectOptions{ContentType: markup}))
	query := "/resource/" + s.OrgID + "/local/shop/query"
	s.Call("POST", query, object{"query": `CREATE TABLE "` + strings.ReplaceAll(markup, `"`, `""`) + `" ("` + strings.ReplaceAll(markup, `"`, `""`) + `" TEXT)`}).Want(200)
	s.Must(installation.KVStore{Steward: s, Name: "carts"}.Again().Client().Set(t.Context(), "key", markup, 0).Err())
	session := installation.SessionRequest(s, "s1", "t1", "p1")
	session["url"] = "/x?q=" + markup
	session["metadata"] = object{markup: markup}
	s.Call("POST", "/session", session).Want(201)
	s.Call("PUT", "/cli/eval/e1", object{"name": markup, "projectId": "p1", "agentIdentifier": markup, "description": markup}).Want(200)
	s.Call("POST", "/evalrun", installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.Body(s.OrgID, 0)).Want(201)
	s.Call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": false, markup: markup}}).Want(200)

	c := signedIn(t, s)
	for _, page := range []string{
		"/", "/settings", "/audit", "/members", "/oauth/clients", "/oauth/clients/" + a.ID, "/oauth/clients/" + a.ID + "?tab=connect", "/oauth/clients/" + a.ID + "?tab=settings",
		"/storage", "/storage/files", "/storage/files?key=page.html", "/storage/files?key=drawing.svg", "/storage/files?key=odd", "/storage/files?prefix=%3Cimg%20src=x%20onerror=smuggled()%3E",
		"/databases", "/databases/local/shop", "/key-value", "/key-value/local/carts",
		"/sessions", "/sessions/s1", "/evaluations", "/evaluations?tab=evals", "/evaluations/runs/r1",
	} {
		c.visit(page)
		c.settle()
		if made := chromium.Evaluate[int](c.Browser, `document.querySelectorAll('#app img:not([src^="http"]), #app script, #app [onerror], #app [onload], #app iframe, #app object, #app a[href^="javascript:"]').length`); made != 0 {
			t.Errorf("%s: %d elements were made of stored markup", page, made)
		}
		c.Clean()
	}
}

// testCannotBeFramed opens a page that frames the console. It is on another port of the same
// host, since the frames of another site belong to another process of the browser.
func testCannotBeFramed(t *testing.T, s *installation.Steward) {
	c := signedIn(t, s)
	for address, want := range map[string]bool{
		"/console/": false, "/console/webhooks": false, "/console/api/cli/region": false, "/console/sign-in": false, "/console/icon.svg": false,
		otherSite(s, "<h1>open</h1>"): true, // which shows that the test could fail
	} {
		if strings.HasPrefix(address, "/") {
			address = s.URL + address
		}
		c.Do(chromedp.Navigate(otherSite(s, `<h1>evil</h1><iframe src="`+address+`"></iframe>`)))
		tree := chromium.Call(c.Browser, cdppage.GetFrameTree, cdp.Empty{})
		if len(tree.FrameTree.ChildFrames) != 1 {
			t.Fatalf("%s: the page has %d frames", address, len(tree.FrameTree.ChildFrames))
		}
		if framed := tree.FrameTree.ChildFrames[0].Frame.UnreachableURL == ""; framed != want {
			t.Errorf("%s is framed: %v, want %v", address, framed, want)
		}
	}
}

// otherSite starts another server with one page, and returns its address.
func otherSite(s *installation.Steward, html string) string {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(html))
	}))
	s.T.Cleanup(other.Close)
	return other.URL
}

// otherSite opens a page of another site.
func (c *console) otherSite(html string) {
	c.T.Helper()
	c.Do(chromedp.Navigate(strings.Replace(otherSite(c.s, html), "127.0.0.1", "localhost", 1)))
}

// forgeryScript is a script that tries to create a webhook with the user's session, and to read what the
// browser keeps.
func forgeryScript(s *installation.Steward) string {
	return `<h1>evil</h1><form method="post" action="` + s.URL + `/console/api/webhook/create" enctype="text/plain"><input name='{"name":"csrf","x":"' value='"}'><button>Win a prize</button></form>
		<script>
		const send = (method, headers, mode) => fetch("` + s.URL + `/console/api/webhook/create", {method, mode, credentials: "include", headers, body: '{"name":"csrf"}'}).then(r => r.type + r.status, e => String(e));
		Promise.all([
			send("POST", {"X-Steward-Console": "1", "Content-Type": "application/json"}, "cors"),
			send("POST", {"Content-Type": "text/plain"}, "no-cors"),
			send("POST", {"Content-Type": "text/plain"}, "cors"),
		]).then(all => window.result = all.join(" ") + " " + document.cookie);
		</script>`
}

// TestConsoleIgnoresForgedRequests sends requests from another site, and from an object of the
// storage, which is on the same host and so of the same site for cookies.
func TestConsoleIgnoresForgedRequests(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	b := s.NewBucket("files")
	s.Must(b.TryPut("evil.html", forgeryScript(s), minio.PutObjectOptions{ContentType: "text/html"}))
	c := signedIn(t, s)
	for name, open := range map[string]func(){
		"another site": func() { c.otherSite(forgeryScript(s)) },
		"an object":    func() { c.Do(chromedp.Navigate(b.Presigned("GET", "evil.html", time.Now(), 10*time.Minute))) },
	} {
		open()
		c.Wait("the requests", `window.result`)
		got := chromium.Evaluate[string](c.Browser, `window.result`)
		if !strings.HasPrefix(got, "TypeError: Failed to fetch TypeError: Failed to fetch TypeError: Failed to fetch") || strings.Contains(got, "steward") {
			t.Errorf("%s: a script gets %s", name, got)
		}
		c.Do(chromedp.Click(chromedp.CSS(`button`)))
		c.Wait("the answer to the form", `document.body.innerText.includes('forbidden')`)
	}
	if list := s.Call("GET", "/webhook/list", nil).Want(200).Body; strings.Contains(string(list), "csrf") {
		t.Errorf("somebody else has created %s", list)
	}
}

// testKeepsItsCookieFromScripts looks for the cookie of the console where scripts can read.
func testKeepsItsCookieFromScripts(t *testing.T, s *installation.Steward) {
	c := signedIn(t, s)
	stored := chromium.Call(c.Browser, network.GetCookies, network.GetCookiesParams{URLs: []string{s.URL + "/console/api/"}})
	value := ""
	for _, cookie := range stored.Cookies {
		if cookie.Name != "steward_console" {
			continue
		}
		value = cookie.Value
		if !cookie.HTTPOnly || cookie.SameSite != network.CookieSameSiteStrict || cookie.Path != "/console/" {
			t.Errorf("the cookie is %+v", cookie)
		}
	}
	if len(value) < 40 {
		t.Fatalf("the cookie has the value %q", value)
	}
	for _, page := range []string{"/", "/settings", "/keys"} {
		c.visit(page)
		c.settle()
		readable := chromium.Evaluate[string](c.Browser, `[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.documentElement.outerHTML, name, location.href].join('\n')`)
		for what, secret := range map[string]string{"cookie": value, "token": "eyJ", "name of the cookie": "steward_console", "session": "ses_"} {
			if strings.Contains(readable, secret) {
				t.Errorf("%s: a script can read the %s", page, what)
			}
		}
	}
}

// testCopiesCommandsThatRunNothingElse copies a request as a command and gives that to a shell.
func testCopiesCommandsThatRunNothingElse(t *testing.T, s *installation.Steward) {
	h := s.NewHook("orders")
	dir := t.TempDir()
	s.Must(os.WriteFile(filepath.Join(dir, "curl"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\nfor arg; do [ \"$arg\" = @- ] && cat; done\ntrue\n"), 0o755))
	c := signedIn(t, s)
	for _, body := range []string{"'; touch ran; '", "$(touch ran)`touch ran`", "\x1b[201~\ntouch ran\n", "@/etc/passwd", "\"; touch ran; \"\\"} {
		r, err := s.Send("POST", h.Path+"?q=$(touch%20ran)`touch${IFS}ran`\"", strings.NewReader(body), "Content-Type", "text/plain", "X-Evil", "'$(touch ran)`touch ran`")
		s.Must(err)
		c.at("/webhooks/"+h.ID+"/receipts/"+r.Want(200).Text("id"), "POST")
		chromium.Evaluate[bool](c.Browser, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
		c.Press("Copy as curl")
		c.Wait("the command", `window.copied`)
		command := chromium.Evaluate[string](c.Browser, `window.copied`)
		run := exec.Command("bash", "-c", command)
		run.Dir = dir
		run.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "WEBHOOK_URL=http://h"}
		out, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(out), body) {
			t.Errorf("%q: %v: %s", command, err, out)
		}
		if strings.ContainsAny(command, "\x1b\x07\x08") || strings.Contains(command, "--data-binary '@") || strings.Contains(command, "--data-binary @/") {
			t.Errorf("the command is %q", command)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command was run")
	}
}

// TestConsoleLinksFromOtherSitesWork opens a page by a link of another site, with which the browser
// sends no cookie of the console, and expects to be signed in there.
func TestConsoleLinksFromOtherSitesWork(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.otherSite(`<a href="` + s.URL + `/console/webhooks">webhooks</a>`)
	c.Do(chromedp.Click(chromedp.CSS(`a`)))
	c.See("No webhooks yet")
	c.Clean()
}
