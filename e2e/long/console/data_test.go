package console

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// at opens a page of the console and waits for a text on it.
func (c *console) at(path, text string) {
	c.T.Helper()
	c.visit(path)
	c.See(text)
}

// misses waits until the content of the page does not have a text and no dialog is open.
func (c *console) misses(text string) {
	c.T.Helper()
	c.Wait("no "+text, `!document.getElementById("content").innerText.includes(`+chromium.Quote(text)+`) && !document.querySelector("dialog")`)
}

// choose selects an option of the list with a label.
func (c *console) choose(label, value string) {
	c.T.Helper()
	list := `document.querySelector('select[aria-label="` + label + `"]')`
	c.Wait("the list "+label, list)
	c.Do(chromedp.Evaluate[chromedp.Void](`{ const e = ` + list + `; e.value = ` + chromium.Quote(value) + `; e.dispatchEvent(new Event('change', {bubbles: true})); } undefined`))
}

// inert fails the test if a stored text was run or has become an element.
func (c *console) inert(where string) {
	c.T.Helper()
	if chromium.Evaluate[bool](c.Browser, `!!document.querySelector("img[src=x], script:not([src])")`) {
		c.T.Errorf("%s: a stored text became HTML", where)
	}
	c.Clean()
}

// hostile is a text that runs as a script where it becomes HTML.
const hostile = `"><img src=x onerror="smuggled()"><script>smuggled()</script>`

// TestConsoleDatabases creates a database, runs SQL in the editor and looks at the table.
func TestConsoleDatabases(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/databases")
	c.See("No databases yet")
	c.Check("console-databases-empty")
	c.Press("New database")
	c.Fill("name", "orders")
	c.Press("Create")
	c.See("DATABASE_URL=")
	c.Press("Open orders")
	c.See("No tables yet")
	c.Press("Write SQL")
	c.Wait("the editor", `document.querySelector(".editor").shadowRoot.querySelector(".cm-content")`)
	c.Press("Run")
	c.See("It returns no columns")
	s.Call("POST", "/resource/"+s.OrgID+"/local/orders/query",
		object{"query": "INSERT INTO notes (text) VALUES (?), ('two, \"quoted\"'), ('three')", "args": []string{hostile}}).Want(200)
	c.sql("SELECT id, text, NULL AS absent FROM notes ORDER BY id")
	c.Wait("three rows", `document.querySelectorAll(".grid tbody tr").length === 3`)
	c.See(hostile)
	c.inert("the rows of a query")
	chromium.Evaluate[bool](c.Browser, `(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)`)
	c.Press("Copy as CSV")
	c.Wait("the CSV", `window.copied?.startsWith("id,text,absent\r\n1,") && window.copied.includes('2,"two, ""quoted""",\r\n')`)
	c.Press("Copy as JSON")
	c.Wait("the JSON", `window.copied?.startsWith("[") && JSON.parse(window.copied)[2].text === "three"`)
	c.sql("SELECT * FROM missing")
	c.See("no such table")
	c.at("/databases/local/orders", "three")
	c.See("primary key")
	c.inert("the rows of a table")
	before := databaseToken(s)
	c.at("/databases/local/orders?tab=connection", "DATABASE_AUTH_TOKEN=••••")
	c.Press("Show secrets")
	c.See("DATABASE_AUTH_TOKEN=" + before)
	c.Press("Replace credentials")
	c.Fill("confirm", "orders")
	c.Press("Replace credentials")
	c.See("The credentials were replaced.")
	if after := databaseToken(s); after == before {
		t.Error("the credentials are the same")
	}
	c.at("/databases", "orders")
	c.Press("Delete the database orders")
	c.Fill("confirm", "orders")
	c.Press("Delete database")
	c.See("No databases yet")
}

// databaseToken returns the token of the only database.
func databaseToken(s *installation.Steward) string {
	s.T.Helper()
	var all struct {
		DB []struct{ Env map[string]string }
	}
	s.Call("GET", "/resource?type=db", nil).Want(200).Decode(&all)
	return all.DB[0].Env["DATABASE_AUTH_TOKEN"]
}

// TestConsoleKeyValue creates a store and looks at keys that a client sets.
func TestConsoleKeyValue(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/key-value")
	c.See("No stores yet")
	c.Press("New store")
	c.Fill("name", "cache")
	c.Press("Create")
	c.See("REDIS_URL=")
	c.Press("Open cache")
	c.See("No keys yet")
	ctx := context.Background()
	client := installation.KVStore{Steward: s, Name: "cache"}.Again().Client()
	s.Must(client.Set(ctx, "user:1", "ada lovelace", time.Hour).Err())
	s.Must(client.HSet(ctx, "user:2", "name", "grace", "born", "1906").Err())
	s.Must(client.Set(ctx, "cart:7", `{"lines": [{"sku": "x1", "note": "<b>two</b>"}]}`, 0).Err())
	s.Must(client.Set(ctx, "photo", "\x89PNG\xff", 0).Err())
	s.Must(client.Set(ctx, "long", strings.Repeat("0123456789", 200), 0).Err())
	s.Must(client.Set(ctx, hostile, "x", 0).Err())
	c.Press("Refresh")
	c.See("user:1")
	c.See("hash")
	c.See("in 60 min")
	c.See("ada lovelace")
	c.See("2 fields")
	c.See("5 B that are not text")
	c.See(hostile)
	c.Press("Details of cart:7")
	c.Wait("the JSON as a tree", `[...document.querySelectorAll(".tree .key")].some((k) => k.innerText === "lines")`)
	c.Press("Details of long")
	c.See("Text, 2.0 kB")
	c.Press("Details of photo")
	c.See("iVBOR/8=") // in base64
	c.Press("Details of user:2")
	c.See("HGETALL user:2")
	c.Press("Details of cart:7")
	c.inert("the keys of a store")
	c.Check("console-kv-keys")
	c.Fill("prefix", "user:2")
	c.misses("user:1")
	c.at("/key-value/local/cache?tab=connection", "REDIS_URL")
	c.at("/key-value", "cache")
	c.Press("Delete the store cache")
	c.Fill("confirm", "cache")
	c.Press("Delete store")
	c.See("No stores yet")
}

// TestConsoleThreads filters threads by metadata, and looks at the state of one and at its sessions.
func TestConsoleThreads(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/threads")
	c.See("No threads yet")
	c.Check("console-threads-empty")
	s.Call("PUT", "/thread/support-1", object{"project_id": "p1", "metadata": object{"customer": "ada", "note": hostile}, "user_data": `{"cart": [{"sku": "x1"}], "step": 3}`}).Want(200)
	s.Call("PUT", "/thread/support-2", object{"project_id": "p1", "metadata": object{"customer": "grace", "age": 7}}).Want(200)
	startSessions(s, "support-1", "s1", "s2")
	c.at("/threads", "support-2")
	c.See("note: " + hostile[:20])
	c.inert("the metadata of threads")
	c.Fill("metadata", "age=7")
	c.Press("Filter")
	c.misses("support-1")
	c.at("/threads", "support-2")
	c.Press("customer: ada")
	c.misses("support-2")
	c.Press("support-1")
	c.Wait("the state as a tree", `[...document.querySelectorAll(".tree .key")].some((k) => k.innerText === "cart")`)
	c.inert("the metadata of a thread")
	c.Wait("two sessions", `document.querySelectorAll(".lane").length === 2`)
	c.at("/sessions", "/x?y=1")
	c.at("/sessions/s2", "boom")
	c.inert("a session")
	c.at("/threads/support-1", "Delete")
	c.Press("Delete")
	c.Fill("confirm", "support-1")
	c.Press("Delete thread")
	c.misses("support-1")
	s.Call("GET", "/thread/support-1", nil).Want(404)
}

// startSessions creates two sessions of a thread: one that succeeded and one that failed.
func startSessions(s *installation.Steward, thread, first, second string) {
	s.T.Helper()
	for _, id := range []string{first, second} {
		body := installation.SessionRequest(s, id, thread, "p1")
		body["routeId"] = ""
		s.Call("POST", "/session", body).Want(201)
	}
	s.Call("PUT", "/session", object{
		"id": first, "threadId": thread, "statusCode": 200, "agentIds": []string{"support"}, "userData": `{"answer": 42}`,
		"timestamp": "2026-01-02T03:04:09+01:00",
	}).Want(200)
	s.Call("PUT", "/session", object{"id": second, "threadId": thread, "statusCode": 500, "error": "boom " + hostile, "userData": hostile}).Want(200)
}

// TestConsoleEvaluations filters runs of evaluations and looks at the result of one.
func TestConsoleEvaluations(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/evaluations")
	c.See("No runs yet")
	startSessions(s, "t1", "s1", "s2")
	for _, e := range []string{"polite", "right"} {
		s.Call("PUT", "/cli/eval/"+e, object{"name": "Is " + e, "projectId": "p1", "agentIdentifier": "support", "description": hostile}).Want(200)
	}
	for _, r := range []installation.EvalRun{
		{ID: "r1", SessionID: "s1", EvalID: "polite", ProjectID: "p1"},
		{ID: "r2", SessionID: "s1", EvalID: "right", ProjectID: "p1"},
		{ID: "r3", SessionID: "s1", EvalID: "polite", ProjectID: "p1"},
		{ID: "r4", SessionID: "s1", EvalID: "never-registered", ProjectID: "p1"},
	} {
		body := r.Body(s.OrgID, 0)
		delete(body, "timestamp") // now
		s.Call("POST", "/evalrun", body).Want(201)
	}
	s.Call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": true, "score": 0.9, "reason": hostile}}).Want(200)
	s.Call("PUT", "/evalrun", object{"id": "r3", "result": object{"success": true, "score": 0.7}}).Want(200)
	s.Call("PUT", "/evalrun", object{"id": "r4", "result": object{"success": true, "passed": false, "score": 0.2}}).Want(200)
	s.Call("PUT", "/evalrun", object{"id": "r2", "error": "judge failed " + hostile}).Want(200)
	c.at("/evaluations", "passed")
	c.See("judge failed")
	c.See("50%")
	c.inert("the runs of evaluations")
	c.Press("By evaluation")
	c.Wait("a line for each evaluation", `[...document.querySelectorAll(".legend span")].map((l) => l.innerText.replace(/\s+/g, " ")).sort().join() === "Is polite 100%,Is right 0%,stable 0%"`)
	c.Wait("the plot", `document.querySelector(".plot canvas")`)
	c.Check("console-evaluations")
	c.Press("By agent")
	c.Wait("a line for the agent and one for runs without", `[...document.querySelectorAll(".legend span")].map((l) => l.innerText.replace(/\s+/g, " ")).sort().join() === "no agent 0%,support 66.7%"`)
	c.choose("Outcome of the listed runs", "failed")
	c.Wait("the runs that failed", `document.querySelectorAll("table tbody tr").length === 2 && !document.querySelector("table .good")`)
	c.choose("Evaluation", "right")
	c.Wait("one run", `document.querySelectorAll("table tbody tr").length === 1`)
	c.at("/evaluations?tab=evals", "Is polite")
	c.inert("the evaluations")
	c.at("/evaluations/runs/r1", "score")
	c.See("State of the session")
	c.See("answer")
	c.inert("the result of a run")
	c.Fill("with", "r3")
	c.See("Result of r3, passed")
	c.See("0.7")
	c.Check("console-evaluation-run")
}
