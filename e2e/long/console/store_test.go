package console

import (
	"context"
	"strconv"
	"testing"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// newKey sets a value of a new key in the dialog. fields are names and values of its other fields.
func (c *console) newKey(key, kind string, fields ...string) {
	c.T.Helper()
	c.Press("New key")
	c.Fill("key", key)
	c.Fill("type", kind)
	for i := 0; i < len(fields); i += 2 {
		c.Fill(fields[i], fields[i+1])
	}
	c.Press("Save")
	c.Wait("the key "+key, chromium.Control("Details of "+key)+` && !document.querySelector("dialog")`)
}

// confirm presses the button of the question that is open.
func (c *console) confirm(button string) {
	c.T.Helper()
	c.Wait("the question", `document.querySelector("dialog")?.innerText.includes("cannot be brought back")`)
	c.Press(button)
	c.Wait("the end of the question", `!document.querySelector("dialog")`)
}

// row waits until a row of the items of a value has all of some texts.
func (c *console) row(texts ...string) {
	c.T.Helper()
	condition := "true"
	for _, text := range texts {
		condition += ` && cells.includes(` + chromium.Quote(text) + `)`
	}
	c.Wait("a row of items", `[...document.querySelectorAll(".items tbody tr")].some((row) => {
		const cells = [...row.cells].map((c) => c.innerText.trim()); return `+condition+`; })`)
}

// TestConsoleValues sets, edits, expires and deletes values of all types.
func TestConsoleValues(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": []object{{"type": "kv", "name": "cache"}}}).Want(201)
	client := installation.KVStore{Steward: s, Name: "cache"}.Again().Client()
	ctx := context.Background()
	c := signedIn(t, s)
	c.LoadAxe()
	c.at("/key-value/local/cache", "No keys yet")

	c.Press("New key")
	c.Check("console-kv-new")
	c.Press("Cancel")
	c.newKey("a/text", "string", "value", "first", "ttl", "1h")
	c.See("in 60 min")
	c.Press("Details of a/text")
	c.See("A Redis client reads it with")
	c.Press("Edit value")
	c.Fill("value", hostile)
	c.Press("Save")
	c.See("The value was changed.")
	c.See(hostile)
	c.inert("the value of a key")
	c.Press("Change expiry")
	c.Fill("ttl", "soon")
	c.Press("Save")
	c.See("Expected a duration")
	c.Fill("ttl", "")
	c.Press("Save")
	c.See("The key does not expire.")
	c.misses("in 60 min")
	if got := client.Get(ctx, "a/text").Val(); got != hostile {
		t.Errorf("the value is %q", got)
	}

	c.newKey("user", "hash", "field", "name", "value", "ada")
	c.Press("Details of user")
	c.row("name", "ada")
	c.Press("Add field")
	c.Fill("field", "born")
	c.Fill("value", "1815")
	c.Press("Save")
	c.row("born", "1815")
	c.Press("Edit name")
	c.Fill("value", "grace")
	c.Press("Save")
	c.row("name", "grace")
	c.Check("console-kv-hash")
	c.Press("Delete born")
	c.confirm("Delete field")
	c.misses("1815")

	c.newKey("jobs", "list", "value", "one")
	c.Press("Details of jobs")
	c.Press("Add element")
	c.Fill("value", "two")
	c.Press("Save")
	c.row("1", "two")
	c.newKey("ranking", "zset", "member", "ada", "score", "1.5")
	c.Press("Details of ranking")
	c.row("ada", "1.5")
	c.Press("Edit ada")
	c.Fill("score", "much")
	c.Press("Save")
	c.See("expected a number, inf or -inf")
	c.Fill("score", "20")
	c.Press("Save")
	c.row("ada", "20")
	c.newKey("tags", "set", "member", "red")
	c.newKey("events", "stream", "fields", "kind=created\nby=ada")
	c.Press("Details of events")
	c.See("kind=created")
	c.Check("console-kv-stream")

	c.choose("Type", "set")
	c.misses("ranking")
	c.Press("Details of tags")
	c.Press("Delete key")
	c.confirm("Delete key")
	c.See("No key has a value of this type")

	for i := range 120 {
		s.Must(client.RPush(ctx, "long", "element "+strconv.Itoa(i)).Err())
	}
	c.choose("Type", "list")
	c.Press("Details of long")
	c.row("0", "element 0")
	c.Press("Next items")
	c.row("50", "element 50")
	c.Press("Next items")
	c.row("119", "element 119")
	c.Press("Previous items")
	c.row("50", "element 50")
	c.Check("console-kv-list")
	c.Clean()
}
