package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// at opens a page of the console and waits for a text on it.
func (c *console) at(path, text string) {
	c.t.Helper()
	c.visit(path)
	c.see(text)
}

// misses waits until the content of the page does not have a text and no dialog is open.
func (c *console) misses(text string) {
	c.t.Helper()
	c.wait("no "+text, `!document.getElementById("content").innerText.includes(`+quoted(text)+`) && !document.querySelector("dialog")`)
}

// choose selects an option of the list with a label.
func (c *console) choose(label, value string) {
	c.t.Helper()
	list := `document.querySelector('select[aria-label="` + label + `"]')`
	c.wait("the list "+label, list)
	c.do(chromedp.Evaluate[chromedp.Void](`{ const e = ` + list + `; e.value = ` + quoted(value) + `; e.dispatchEvent(new Event('change', {bubbles: true})); } undefined`))
}

// inert fails the test if a stored text was run or has become an element.
func (c *console) inert(where string) {
	c.t.Helper()
	if evaluate[bool](c.chromium, `!!document.querySelector("img[src=x], script:not([src])")`) {
		c.t.Errorf("%s: a stored text became HTML", where)
	}
	c.clean()
}

// hostile is a text that runs as a script where it becomes HTML.
const hostile = `"><img src=x onerror="smuggled()"><script>smuggled()</script>`

// hostileKey is a key of an object like that, which is not a folder.
const hostileKey = `<img src=x onerror="smuggled()">.txt`

// TestConsoleStorage creates a bucket, uploads files, previews, shares and deletes them, configures the
// bucket and deletes it.
func TestConsoleStorage(t *testing.T) {
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) { testConsoleStorage(t, database) })
	}
}

func testConsoleStorage(t *testing.T, database string) {
	s := startWithOwner(t, database)
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/storage")
	c.see("No buckets yet")
	c.check("console-storage-empty")
	c.press("New bucket")
	c.fill("name", "Bad Name")
	c.press("Create")
	c.see("Something in the form is not right")
	c.fill("name", "photos")
	c.press("Create")
	c.see("S3_SECRET_ACCESS_KEY=")
	c.press("Open photos")
	c.see("The bucket is empty")

	c.upload(map[string]string{"hello.json": `{"greeting": "hello", "list": [1, 2, 3]}`, hostileKey: hostile})
	c.see("stored")
	c.wait("two uploads", `document.querySelectorAll(".tag.good").length === 2`)
	c.press("hello.json")
	c.wait("the JSON as a tree", `[...document.querySelectorAll("dialog .tree .key")].some((k) => k.innerText === "greeting")`)
	c.check("console-storage-preview")
	c.press("Share")
	c.see("without signing in, for 1 h")
	link := evaluate[string](c.chromium, `document.querySelector("dialog .code pre").innerText`)
	if status, body := fetchText(t, link); status != 200 || !strings.Contains(body, "greeting") {
		t.Errorf("the shared link: %d %s", status, body)
	}
	c.press("Close")
	c.press(hostileKey)
	c.see(hostile)
	c.inert("the preview of an object")
	c.press("Close")
	c.inert("the list of objects")

	b := s.existing("photos")
	b.put("2026/a/1.txt", "one")
	b.put("2026/a/2.txt", "two")
	b.put("2026/b.bin", "\xff\xfe\x00")
	c.at("/storage/photos", "2026/")
	c.check("console-storage")
	c.press("2026/")
	c.see("b.bin")
	c.upload(map[string]string{"inside.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80"><circle cx="40" cy="40" r="30"/></svg>`})
	c.wait("the upload", `document.querySelector(".tag.good")`)
	c.at("/storage/photos?prefix=2026/&key=2026/inside.svg", "image/svg+xml")
	c.wait("the picture", `document.querySelector("dialog img")?.naturalWidth > 0`)
	c.at("/storage/photos?prefix=2026/&key=2026/b.bin", "neither text nor an image")
	c.at("/storage/photos?prefix=2026/", "inside.svg")
	c.press("Delete 2026/b.bin")
	c.press("Delete object")
	c.misses("b.bin")
	c.press("Delete the folder 2026/a/")
	c.see("2 objects have keys that begin with “2026/a/”")
	c.fill("confirm", "2026/a/")
	c.screenshot("console-storage-delete-" + database)
	c.press("Delete 2 objects")
	c.see("2 objects were deleted.")
	c.misses("a/")
	s.call("GET", "/storage/objects/photos?prefix=2026/a/", nil).want(200)
	if total := s.call("GET", "/storage/objects/photos?prefix=2026/", nil).want(200).get("total"); total != 1.0 {
		t.Errorf("%v objects are left, want inside.svg", total)
	}

	c.at("/storage/photos?tab=config", "Storage tier")
	c.check("console-storage-config")
	c.fill("ttl", "86400")
	c.fill("origins", "https://app.example.com")
	c.fill("extra", "X-Robots-Tag: noindex")
	c.press("Save")
	c.see("The configuration was saved")
	config := s.call("GET", "/bucket/config/photos", nil).want(200)
	if config.get("ttl") != 86400.0 || config.text("additional_headers.X-Robots-Tag") != "noindex" ||
		!strings.Contains(string(config.body), "https://app.example.com") {
		t.Errorf("the configuration is %s", config.body)
	}
	c.at("/storage/photos?tab=connection", "S3_ENDPOINT")
	c.check("console-storage-connection")
	c.at("/storage", "photos")
	c.check("console-storage-buckets")
	c.press("Delete the bucket photos")
	c.fill("confirm", "photos")
	c.press("Delete bucket")
	c.see("No buckets yet")
}

// upload chooses files with the button of the page.
func (c *console) upload(files map[string]string) {
	c.t.Helper()
	dir := c.t.TempDir()
	var paths []string
	for name, content := range files {
		path := filepath.Join(dir, name)
		c.s.must(os.WriteFile(path, []byte(content), 0o644))
		paths = append(paths, path)
	}
	c.do(chromedp.SetUploadFiles(chromedp.CSS(`input[name="files"]`), paths, chromedp.NodeReady))
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
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/databases")
	c.see("No databases yet")
	c.check("console-databases-empty")
	c.press("New database")
	c.fill("name", "orders")
	c.press("Create")
	c.see("DATABASE_URL=")
	c.press("Open orders")
	c.see("No tables yet")
	c.press("Write SQL")
	c.wait("the editor", `document.querySelector(".editor").shadowRoot.querySelector(".cm-content")`)
	c.press("Run")
	c.see("It returns no rows")
	s.call("POST", "/resource/"+s.orgID+"/local/orders/query",
		object{"query": "INSERT INTO notes (text) VALUES (?), ('two, \"quoted\"'), ('three')", "args": []string{hostile}}).want(200)
	c.sql("SELECT id, text, NULL AS absent FROM notes ORDER BY id")
	c.wait("three rows", `document.querySelectorAll(".grid tbody tr").length === 3`)
	c.see(hostile)
	c.inert("the rows of a query")
	c.check("console-databases-sql")
	evaluate[bool](c.chromium, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	c.press("Copy as CSV")
	c.wait("the CSV", `window.copied?.startsWith("id,text,absent\r\n1,") && window.copied.includes('2,"two, ""quoted""",\r\n')`)
	c.press("Copy as JSON")
	c.wait("the JSON", `window.copied?.startsWith("[") && JSON.parse(window.copied)[2].text === "three"`)
	c.sql("SELECT * FROM missing")
	c.see("no such table")
	c.at("/databases/local/orders", "three")
	c.see("primary key")
	c.inert("the rows of a table")
	c.check("console-databases-table")
	before := s.databaseToken()
	c.at("/databases/local/orders?tab=connection", "DATABASE_AUTH_TOKEN=••••")
	c.press("Show secrets")
	c.see("DATABASE_AUTH_TOKEN=" + before)
	c.press("Replace credentials")
	c.fill("confirm", "orders")
	c.press("Replace credentials")
	c.see("The credentials were replaced.")
	if after := s.databaseToken(); after == before {
		t.Error("the credentials are the same")
	}
	c.at("/databases", "orders")
	c.check("console-databases")
	c.press("Delete the database orders")
	c.fill("confirm", "orders")
	c.press("Delete database")
	c.see("No databases yet")
}

// databaseToken returns the token of the only database.
func (s *steward) databaseToken() string {
	s.t.Helper()
	var all struct {
		DB []struct{ Env map[string]string }
	}
	s.call("GET", "/resource?type=db", nil).want(200).decode(&all)
	return all.DB[0].Env["DATABASE_AUTH_TOKEN"]
}

// sql runs a statement with the editor, by keyboard.
func (c *console) sql(statement string) {
	c.t.Helper()
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".editor").shadowRoot.querySelector(".cm-content").focus(); undefined`))
	c.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent("\b"), chromedp.KeyEvent(statement))
	c.do(chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// TestConsoleKeyValue creates a store and looks at keys that a client sets.
func TestConsoleKeyValue(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/key-value")
	c.see("No stores yet")
	c.press("New store")
	c.fill("name", "cache")
	c.press("Create")
	c.see("REDIS_URL=")
	c.press("Open cache")
	c.see("No keys yet")
	ctx := context.Background()
	client := kvStore{steward: s, name: "cache"}.again().client()
	s.must(client.Set(ctx, "user:1", "ada", time.Hour).Err())
	s.must(client.HSet(ctx, "user:2", "name", "grace").Err())
	s.must(client.Set(ctx, hostile, "x", 0).Err())
	c.press("Refresh")
	c.see("user:1")
	c.see("hash")
	c.see("in 60 min")
	c.see(hostile)
	c.inert("the keys of a store")
	c.check("console-kv-keys")
	c.fill("prefix", "user:2")
	c.misses("user:1")
	c.at("/key-value/local/cache?tab=connection", "REDIS_URL")
	c.check("console-kv-connection")
	c.at("/key-value", "cache")
	c.check("console-kv")
	c.press("Delete the store cache")
	c.fill("confirm", "cache")
	c.press("Delete store")
	c.see("No stores yet")
}

// TestConsoleThreads filters threads by metadata, and looks at the state of one and at its sessions.
func TestConsoleThreads(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/threads")
	c.see("No threads yet")
	c.check("console-threads-empty")
	s.call("PUT", "/thread/support-1", object{"project_id": "p1", "metadata": object{"customer": "ada", "note": hostile}, "user_data": `{"cart": [{"sku": "x1"}], "step": 3}`}).want(200)
	s.call("PUT", "/thread/support-2", object{"project_id": "p1", "metadata": object{"customer": "grace", "age": 7}}).want(200)
	s.startSessions("support-1", "s1", "s2")
	c.at("/threads", "support-2")
	c.see("note: " + hostile[:20])
	c.inert("the metadata of threads")
	c.check("console-threads")
	c.fill("metadata", "age=7")
	c.press("Filter")
	c.misses("support-1")
	c.at("/threads", "support-2")
	c.press("customer: ada")
	c.misses("support-2")
	c.press("support-1")
	c.wait("the state as a tree", `[...document.querySelectorAll(".tree .key")].some((k) => k.innerText === "cart")`)
	c.inert("the metadata of a thread")
	c.wait("two sessions", `document.querySelectorAll(".lane").length === 2`)
	c.check("console-thread")
	c.at("/sessions", "/x?y=1")
	c.check("console-sessions")
	c.at("/sessions/s2", "boom")
	c.inert("a session")
	c.check("console-session")
	c.at("/threads/support-1", "Delete")
	c.press("Delete")
	c.fill("confirm", "support-1")
	c.press("Delete thread")
	c.misses("support-1")
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
	s.call("PUT", "/session", object{
		"id": first, "threadId": thread, "statusCode": 200, "agentIds": []string{"support"}, "userData": `{"answer": 42}`,
		"timestamp": "2026-01-02T03:04:09+01:00",
	}).want(200)
	s.call("PUT", "/session", object{"id": second, "threadId": thread, "statusCode": 500, "error": "boom " + hostile, "userData": hostile}).want(200)
}

// TestConsoleEvaluations filters runs of evaluations and looks at the result of one.
func TestConsoleEvaluations(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/evaluations")
	c.see("No runs yet")
	s.startSessions("t1", "s1", "s2")
	for _, e := range []string{"polite", "right"} {
		s.call("PUT", "/cli/eval/"+e, object{"name": "Is " + e, "projectId": "p1", "agentIdentifier": "support", "description": hostile}).want(200)
	}
	for i, r := range []evalRun{{ID: "r1", SessionID: "s1", EvalID: "polite", ProjectID: "p1"}, {ID: "r2", SessionID: "s1", EvalID: "right", ProjectID: "p1"}} {
		s.call("POST", "/evalrun", r.body(s.orgID, i)).want(201)
	}
	s.call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": true, "score": 0.9, "reason": hostile}}).want(200)
	s.call("PUT", "/evalrun", object{"id": "r2", "error": "judge failed " + hostile}).want(200)
	c.at("/evaluations", "passed")
	c.see("judge failed")
	c.inert("the runs of evaluations")
	c.check("console-evaluations")
	c.choose("Evaluation", "right")
	c.wait("one run", `document.querySelectorAll("table tbody tr").length === 1`)
	c.at("/evaluations?tab=evals", "Is polite")
	c.inert("the evaluations")
	c.check("console-evaluations-list")
	c.at("/evaluations/runs/r1", "score")
	c.see("State of the session")
	c.see("answer")
	c.inert("the result of a run")
	c.check("console-evaluation-run")
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
