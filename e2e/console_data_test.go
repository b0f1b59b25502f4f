package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"steward/internal/waittest"
)

// dataPages is a browser with a user signed in to the console of an installation.
type dataPages struct {
	*chromium
	s *steward
}

// dataPages signs in and opens a page of the console.
func (s *steward) dataPages(t *testing.T, path string) *dataPages {
	p := &dataPages{chromium: newChromium(t), s: s}
	p.loadAxe()
	p.do(chromedp.EmulateViewport(1280, 844))
	p.open(s.URL + "/console/sign-in?return=/console" + path)
	p.submit("email", adminEmail, "password", adminPassword)
	return p
}

// at opens a page of the console and waits for a text on it.
func (p *dataPages) at(path, text string) {
	p.t.Helper()
	p.open(p.s.URL + "/console" + path)
	p.sees(text)
}

// until waits until a JavaScript expression is true.
func (p *dataPages) until(expression string) {
	p.t.Helper()
	waittest.True(p.t, expression, func() bool { return evaluate[bool](p.chromium, "!!("+expression+")") })
}

func quoteJS(text string) string {
	quoted, _ := json.Marshal(text) // a string has JSON
	return string(quoted)
}

// sees waits until the page has a text.
func (p *dataPages) sees(text string) {
	p.t.Helper()
	p.until(`document.body.innerText.includes(` + quoteJS(text) + `)`)
}

// misses waits until the content of the page, without messages, does not have a text.
func (p *dataPages) misses(text string) {
	p.t.Helper()
	p.until(`!document.getElementById("content").innerText.includes(` + quoteJS(text) + `) && !document.querySelector("dialog")`)
}

// click clicks the button or link with a label, in the last dialog if there is one.
func (p *dataPages) click(label string) {
	p.t.Helper()
	p.until(`(() => {
		const box = [...document.querySelectorAll("dialog")].at(-1) ?? document;
		const found = [...box.querySelectorAll("button, a")].find((e) =>
			(e.innerText.replace(/\s+/g, " ").trim() === ` + quoteJS(label) + ` || e.ariaLabel === ` + quoteJS(label) + `) && !e.disabled);
		found?.click();
		return found;
	})()`)
}

// fill enters a text into a field, as typing does.
func (p *dataPages) fill(selector, text string) {
	p.t.Helper()
	p.until(`(() => {
		const field = document.querySelector(` + quoteJS(selector) + `);
		if (!field) return false;
		field.value = ` + quoteJS(text) + `;
		field.dispatchEvent(new Event("input", { bubbles: true }));
		field.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`)
}

// inert fails the test if a stored text was run or has become an element.
func (p *dataPages) inert(where string) {
	p.t.Helper()
	if evaluate[bool](p.chromium, `window.stolen !== undefined || !!document.querySelector("img[src=x], script:not([src])")`) {
		p.t.Errorf("%s: a stored text became HTML", where)
	}
}

// hostile is a text that runs as a script where it becomes HTML.
const hostile = `"><img src=x onerror="window.stolen=1"><script>window.stolen=1</script>`

// hostileKey is a key of an object like that, which is not a folder.
const hostileKey = `<img src=x onerror="window.stolen=1">.txt`

// TestConsoleStorage creates a bucket, uploads files, previews, shares and deletes them, configures the
// bucket and deletes it.
func TestConsoleStorage(t *testing.T) {
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) { testConsoleStorage(t, database) })
	}
}

func testConsoleStorage(t *testing.T, database string) {
	s := startWithOwner(t, database)
	p := s.dataPages(t, "/storage")
	p.sees("No buckets yet")
	p.check("console-storage-empty")
	p.click("New bucket")
	p.fill(`dialog input[name="name"]`, "Bad Name")
	p.click("Create")
	p.sees("Something in the form is not right")
	p.fill(`dialog input[name="name"]`, "photos")
	p.click("Create")
	p.sees("S3_SECRET_ACCESS_KEY=")
	p.click("Open photos")
	p.sees("The bucket is empty")

	p.upload(map[string]string{"hello.json": `{"greeting": "hello", "list": [1, 2, 3]}`, hostileKey: hostile})
	p.sees("stored")
	p.until(`document.querySelectorAll(".tag.good").length === 2`)
	p.click("hello.json")
	p.until(`[...document.querySelectorAll("dialog .tree .key")].some((k) => k.innerText === "greeting")`)
	p.check("console-storage-preview")
	p.click("Share")
	p.sees("without signing in, for 1 h")
	link := evaluate[string](p.chromium, `document.querySelector("dialog .code pre").innerText`)
	if status, body := fetchText(t, link); status != 200 || !strings.Contains(body, "greeting") {
		t.Errorf("the shared link: %d %s", status, body)
	}
	p.click("Close")
	p.click(hostileKey)
	p.sees(hostile)
	p.inert("the preview of an object")
	p.click("Close")
	p.inert("the list of objects")

	b := s.existing("photos")
	b.put("2026/a/1.txt", "one")
	b.put("2026/a/2.txt", "two")
	b.put("2026/b.bin", "\xff\xfe\x00")
	p.at("/storage/photos", "2026/")
	p.check("console-storage")
	p.click("2026/")
	p.sees("b.bin")
	p.upload(map[string]string{"inside.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80"><circle cx="40" cy="40" r="30"/></svg>`})
	p.sees("inside.svg")
	p.at("/storage/photos?prefix=2026/&key=2026/inside.svg", "image/svg+xml")
	p.until(`document.querySelector("dialog img")?.naturalWidth > 0`)
	p.at("/storage/photos?prefix=2026/&key=2026/b.bin", "neither text nor an image")
	p.at("/storage/photos?prefix=2026/", "inside.svg")
	p.click("Delete 2026/b.bin")
	p.click("Delete object")
	p.misses("b.bin")
	p.click("Delete the folder 2026/a/")
	p.sees("2 objects have keys that begin with “2026/a/”")
	p.fill(`dialog input[name="confirm"]`, "2026/a/")
	p.screenshot("console-storage-delete-" + database)
	p.click("Delete 2 objects")
	p.sees("2 objects were deleted.")
	p.misses("a/")
	s.call("GET", "/storage/objects/photos?prefix=2026/a/", nil).want(200)
	if total := s.call("GET", "/storage/objects/photos?prefix=2026/", nil).want(200).get("total"); total != 1.0 {
		t.Errorf("%v objects are left, want inside.svg", total)
	}

	p.at("/storage/photos?tab=config", "Storage tier")
	p.check("console-storage-config")
	p.fill(`input[name="ttl"]`, "86400")
	p.fill(`textarea[name="origins"]`, "https://app.example.com")
	p.fill(`textarea[name="extra"]`, "X-Robots-Tag: noindex")
	p.click("Save")
	p.sees("The configuration was saved")
	config := s.call("GET", "/bucket/config/photos", nil).want(200)
	if config.get("ttl") != 86400.0 || config.text("additional_headers.X-Robots-Tag") != "noindex" ||
		!strings.Contains(string(config.body), "https://app.example.com") {
		t.Errorf("the configuration is %s", config.body)
	}
	p.at("/storage/photos?tab=connection", "S3_ENDPOINT")
	p.check("console-storage-connection")
	p.at("/storage", "photos")
	p.check("console-storage-buckets")
	p.click("Delete the bucket photos")
	p.fill(`dialog input[name="confirm"]`, "photos")
	p.click("Delete bucket")
	p.sees("No buckets yet")
}

// upload chooses files with the button of the page.
func (p *dataPages) upload(files map[string]string) {
	p.t.Helper()
	dir := p.t.TempDir()
	var paths []string
	for name, content := range files {
		path := filepath.Join(dir, name)
		p.s.must(os.WriteFile(path, []byte(content), 0o644))
		paths = append(paths, path)
	}
	p.do(chromedp.SetUploadFiles(chromedp.CSS(`input[name="files"]`), paths, chromedp.NodeReady))
}

// existing returns a bucket with its credentials.
func (s *steward) existing(name string) bucket {
	s.t.Helper()
	var all struct {
		S3 []struct{ Env map[string]string }
	}
	s.call("GET", "/resource?type=s3&name="+name, nil).want(200).decode(&all)
	env := all.S3[0].Env
	return bucket{s, name, env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"]}
}

// TestConsoleDatabases creates a database, runs SQL in the editor and looks at the table.
func TestConsoleDatabases(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	p := s.dataPages(t, "/databases")
	p.sees("No databases yet")
	p.check("console-databases-empty")
	p.click("New database")
	p.fill(`dialog input[name="name"]`, "orders")
	p.click("Create")
	p.sees("DATABASE_URL=")
	p.click("Open orders")
	p.sees("No tables yet")
	p.click("Write SQL")
	p.until(`document.querySelector(".editor").shadowRoot.querySelector(".cm-content")`)
	p.click("Run ⌘ ↵")
	p.sees("It returns no rows")
	s.call("POST", "/resource/"+s.orgID+"/local/orders/query",
		object{"query": "INSERT INTO notes (text) VALUES (?), ('two, \"quoted\"'), ('three')", "args": []string{hostile}}).want(200)
	p.sql("SELECT id, text, NULL AS nothing FROM notes ORDER BY id")
	p.until(`document.querySelectorAll(".grid tbody tr").length === 3`)
	p.sees(hostile)
	p.inert("the rows of a query")
	p.check("console-databases-sql")
	evaluate[bool](p.chromium, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	p.click("Copy as CSV")
	p.until(`window.copied?.startsWith("id,text,nothing\r\n1,") && window.copied.includes('2,"two, ""quoted""",\r\n')`)
	p.click("Copy as JSON")
	p.until(`window.copied?.startsWith("[") && JSON.parse(window.copied)[2].text === "three"`)
	p.sql("SELECT * FROM missing")
	p.sees("no such table")
	p.at("/databases/local/orders", "three")
	p.sees("primary key")
	p.inert("the rows of a table")
	p.check("console-databases-table")
	before := s.call("GET", "/resource?type=db", nil).want(200).text("db.0.env.DATABASE_AUTH_TOKEN")
	p.at("/databases/local/orders?tab=connection", "DATABASE_AUTH_TOKEN=••••")
	p.click("Show secrets")
	p.sees("DATABASE_AUTH_TOKEN=" + before)
	p.click("Replace credentials")
	p.fill(`dialog input[name="confirm"]`, "orders")
	p.click("Replace credentials")
	p.sees("The credentials were replaced.")
	if after := s.call("GET", "/resource?type=db", nil).want(200).text("db.0.env.DATABASE_AUTH_TOKEN"); after == before {
		t.Error("the credentials are the same")
	}
	p.at("/databases", "orders")
	p.check("console-databases")
	p.click("Delete the database orders")
	p.fill(`dialog input[name="confirm"]`, "orders")
	p.click("Delete database")
	p.sees("No databases yet")
}

// sql runs a statement with the editor, by keyboard.
func (p *dataPages) sql(statement string) {
	p.t.Helper()
	evaluate[bool](p.chromium, `(() => {
		const content = document.querySelector(".editor").shadowRoot.querySelector(".cm-content");
		content.focus();
		content.getRootNode().getSelection?.().selectAllChildren(content);
		return document.execCommand("selectAll") && document.execCommand("insertText", false, `+quoteJS(statement)+`);
	})()`)
	p.click("Run ⌘ ↵")
}

// TestConsoleKeyValue creates a store and looks at keys that a client sets.
func TestConsoleKeyValue(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	p := s.dataPages(t, "/key-value")
	p.sees("No stores yet")
	p.click("New store")
	p.fill(`dialog input[name="name"]`, "cache")
	p.click("Create")
	p.sees("REDIS_URL=")
	p.click("Open cache")
	p.sees("No keys yet")
	ctx := context.Background()
	c := kvStore{steward: s, name: "cache"}.again().client()
	s.must(c.Set(ctx, "user:1", "ada", time.Hour).Err())
	s.must(c.HSet(ctx, "user:2", "name", "grace").Err())
	s.must(c.Set(ctx, hostile, "x", 0).Err())
	p.click("Refresh")
	p.sees("user:1")
	p.sees("hash")
	p.sees("in 60 min")
	p.sees(hostile)
	p.inert("the keys of a store")
	p.check("console-kv-keys")
	p.fill(`input[type="search"]`, "user:2")
	p.misses("user:1")
	p.at("/key-value/local/cache?tab=connection", "REDIS_URL")
	p.check("console-kv-connection")
	p.at("/key-value", "cache")
	p.check("console-kv")
	p.click("Delete the store cache")
	p.fill(`dialog input[name="confirm"]`, "cache")
	p.click("Delete store")
	p.sees("No stores yet")
}

// TestConsoleThreads filters threads by metadata, and looks at the state of one and at its sessions.
func TestConsoleThreads(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	p := s.dataPages(t, "/threads")
	p.sees("No threads yet")
	p.check("console-threads-empty")
	s.call("PUT", "/thread/support-1", object{"project_id": "p1", "metadata": object{"customer": "ada", "note": hostile}, "user_data": `{"cart": [{"sku": "x1"}], "step": 3}`}).want(200)
	s.call("PUT", "/thread/support-2", object{"project_id": "p1", "metadata": object{"customer": "grace", "age": 7}}).want(200)
	s.startSessions("support-1", "s1", "s2")
	p.at("/threads", "support-2")
	p.sees("note: " + hostile[:20])
	p.inert("the metadata of threads")
	p.check("console-threads")
	p.fill(`input[name="metadata"]`, "age=7")
	p.click("Filter")
	p.misses("support-1")
	p.at("/threads", "support-2")
	p.click("customer: ada")
	p.misses("support-2")
	p.click("support-1")
	p.until(`[...document.querySelectorAll(".tree .key")].some((k) => k.innerText === "cart")`)
	p.inert("the metadata of a thread")
	p.until(`document.querySelectorAll(".lane").length === 2`)
	p.check("console-thread")
	p.at("/sessions", "/x?y=1")
	p.check("console-sessions")
	p.at("/sessions/s2", "boom")
	p.inert("a session")
	p.check("console-session")
	p.at("/threads/support-1", "Delete")
	p.click("Delete")
	p.fill(`dialog input[name="confirm"]`, "support-1")
	p.click("Delete thread")
	p.misses("support-1")
	s.call("GET", "/thread/support-1", nil).want(404)
}

// startSessions creates two sessions of a thread: one that succeeded and one that failed.
func (s *steward) startSessions(thread, first, second string) {
	s.t.Helper()
	for _, id := range []string{first, second} {
		body := newSession(s, id, thread, "p1")
		body["routeId"] = ""
		s.call("POST", "/session", body).want(201)
	}
	s.call("PUT", "/session", object{"id": first, "threadId": thread, "statusCode": 200, "agentIds": []string{"support"}, "userData": `{"answer": 42}`,
		"timestamp": "2026-01-02T03:04:09+01:00"}).want(200)
	s.call("PUT", "/session", object{"id": second, "threadId": thread, "statusCode": 500, "error": "boom " + hostile, "userData": hostile}).want(200)
}

// TestConsoleEvaluations filters runs of evaluations and looks at the result of one.
func TestConsoleEvaluations(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	p := s.dataPages(t, "/evaluations")
	p.sees("No runs yet")
	s.startSessions("t1", "s1", "s2")
	for _, e := range []string{"polite", "right"} {
		s.call("PUT", "/cli/eval/"+e, object{"name": "Is " + e, "projectId": "p1", "agentIdentifier": "support", "description": hostile}).want(200)
	}
	for i, r := range []evalRun{{ID: "r1", SessionID: "s1", EvalID: "polite", ProjectID: "p1"}, {ID: "r2", SessionID: "s1", EvalID: "right", ProjectID: "p1"}} {
		s.call("POST", "/evalrun", r.body(s.orgID, i)).want(201)
	}
	s.call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": true, "score": 0.9, "reason": hostile}}).want(200)
	s.call("PUT", "/evalrun", object{"id": "r2", "error": "judge failed " + hostile}).want(200)
	p.at("/evaluations", "passed")
	p.sees("judge failed")
	p.inert("the runs of evaluations")
	p.check("console-evaluations")
	p.fill(`select[aria-label="Evaluation"]`, "right")
	p.until(`document.querySelectorAll("table tbody tr").length === 1`)
	p.at("/evaluations?tab=evals", "Is polite")
	p.inert("the evaluations")
	p.check("console-evaluations-list")
	p.at("/evaluations/runs/r1", "score")
	p.sees("State of the session")
	p.sees("answer")
	p.inert("the result of a run")
	p.check("console-evaluation-run")
}

// fetchText returns what a URL answers without credentials.
func fetchText(t *testing.T, address string) (status int, body string) {
	t.Helper()
	got, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}
