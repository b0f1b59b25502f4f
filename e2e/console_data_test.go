package e2e

import (
	"context"
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

// TestConsoleDatabases creates a database, runs SQL in the editor and looks at the table.
func TestConsoleDatabases(t *testing.T) {
	t.Parallel()
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
	c.see("It returns no columns")
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

// TestConsoleKeyValue creates a store and looks at keys that a client sets.
func TestConsoleKeyValue(t *testing.T) {
	t.Parallel()
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
	s.must(client.Set(ctx, "user:1", "ada lovelace", time.Hour).Err())
	s.must(client.HSet(ctx, "user:2", "name", "grace", "born", "1906").Err())
	s.must(client.Set(ctx, "cart:7", `{"lines": [{"sku": "x1", "note": "<b>two</b>"}]}`, 0).Err())
	s.must(client.Set(ctx, "photo", "\x89PNG\xff", 0).Err())
	s.must(client.Set(ctx, "long", strings.Repeat("0123456789", 200), 0).Err())
	s.must(client.Set(ctx, hostile, "x", 0).Err())
	c.press("Refresh")
	c.see("user:1")
	c.see("hash")
	c.see("in 60 min")
	c.see("ada lovelace")
	c.see("2 fields")
	c.see("5 B that are not text")
	c.see(hostile)
	c.press("Details of cart:7")
	c.wait("the JSON as a tree", `[...document.querySelectorAll(".tree .key")].some((k) => k.innerText === "lines")`)
	c.press("Details of long")
	c.see("the first of 2.0 kB")
	c.press("Details of photo")
	c.see("iVBOR/8=") // in base64
	c.press("Details of user:2")
	c.see("HGETALL user:2")
	c.press("Details of cart:7")
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
	t.Parallel()
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
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.loadAxe()
	c.visit("/evaluations")
	c.see("No runs yet")
	s.startSessions("t1", "s1", "s2")
	for _, e := range []string{"polite", "right"} {
		s.call("PUT", "/cli/eval/"+e, object{"name": "Is " + e, "projectId": "p1", "agentIdentifier": "support", "description": hostile}).want(200)
	}
	for _, r := range []evalRun{
		{ID: "r1", SessionID: "s1", EvalID: "polite", ProjectID: "p1"},
		{ID: "r2", SessionID: "s1", EvalID: "right", ProjectID: "p1"},
		{ID: "r3", SessionID: "s1", EvalID: "polite", ProjectID: "p1"},
	} {
		body := r.body(s.orgID, 0)
		delete(body, "timestamp") // now
		s.call("POST", "/evalrun", body).want(201)
	}
	s.call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": true, "score": 0.9, "reason": hostile}}).want(200)
	s.call("PUT", "/evalrun", object{"id": "r3", "result": object{"success": true, "score": 0.7}}).want(200)
	s.call("PUT", "/evalrun", object{"id": "r2", "error": "judge failed " + hostile}).want(200)
	c.at("/evaluations", "passed")
	c.see("judge failed")
	c.see("66.7%")
	c.inert("the runs of evaluations")
	c.press("By evaluation")
	c.wait("a line for each evaluation", `[...document.querySelectorAll(".legend span")].map((l) => l.innerText.replace(/\s+/g, " ")).sort().join() === "Is polite 100%,Is right 0%"`)
	c.wait("the plot", `document.querySelector(".plot canvas")`)
	c.check("console-evaluations")
	c.press("By agent")
	c.wait("a line for the agent", `document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("support 66.7%")`)
	c.choose("Evaluation", "right")
	c.wait("one run", `document.querySelectorAll("table tbody tr").length === 1`)
	c.at("/evaluations?tab=evals", "Is polite")
	c.inert("the evaluations")
	c.check("console-evaluations-list")
	c.at("/evaluations/runs/r1", "score")
	c.see("State of the session")
	c.see("answer")
	c.inert("the result of a run")
	c.fill("with", "r3")
	c.see("Result of r3, passed")
	c.see("0.7")
	c.check("console-evaluation-run")
}
