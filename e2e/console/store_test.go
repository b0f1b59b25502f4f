package console

import (
	"context"
	"strconv"
	"testing"

	"steward/e2e/installation"
)

// newKey sets a value of a new key in the dialog. fields are names and values of its other fields.
func (c *console) newKey(key, kind string, fields ...string) {
	c.T.Helper()
	c.press("New key")
	c.fill("key", key)
	c.fill("type", kind)
	for i := 0; i < len(fields); i += 2 {
		c.fill(fields[i], fields[i+1])
	}
	c.press("Save")
	c.wait("the key "+key, control("Details of "+key)+` && !document.querySelector("dialog")`)
}

// confirm presses the button of the question that is open.
func (c *console) confirm(button string) {
	c.T.Helper()
	c.wait("the question", `document.querySelector("dialog")?.innerText.includes("cannot be brought back")`)
	c.press(button)
	c.wait("the end of the question", `!document.querySelector("dialog")`)
}

// row waits until a row of the items of a value has all of some texts.
func (c *console) row(texts ...string) {
	c.T.Helper()
	condition := "true"
	for _, text := range texts {
		condition += ` && cells.includes(` + quoted(text) + `)`
	}
	c.wait("a row of items", `[...document.querySelectorAll(".items tbody tr")].some((row) => {
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

	c.press("New key")
	c.Check("console-kv-new")
	c.press("Cancel")
	c.newKey("a/text", "string", "value", "first", "ttl", "1h")
	c.see("in 60 min")
	c.press("Details of a/text")
	c.see("A Redis client reads it with")
	c.press("Edit value")
	c.fill("value", hostile)
	c.press("Save")
	c.see("The value was changed.")
	c.see(hostile)
	c.inert("the value of a key")
	c.press("Change expiry")
	c.fill("ttl", "soon")
	c.press("Save")
	c.see("Expected a duration")
	c.fill("ttl", "")
	c.press("Save")
	c.see("The key does not expire.")
	c.misses("in 60 min")
	if got := client.Get(ctx, "a/text").Val(); got != hostile {
		t.Errorf("the value is %q", got)
	}

	c.newKey("user", "hash", "field", "name", "value", "ada")
	c.press("Details of user")
	c.row("name", "ada")
	c.press("Add field")
	c.fill("field", "born")
	c.fill("value", "1815")
	c.press("Save")
	c.row("born", "1815")
	c.press("Edit name")
	c.fill("value", "grace")
	c.press("Save")
	c.row("name", "grace")
	c.Check("console-kv-hash")
	c.press("Delete born")
	c.confirm("Delete field")
	c.misses("1815")

	c.newKey("jobs", "list", "value", "one")
	c.press("Details of jobs")
	c.press("Add element")
	c.fill("value", "two")
	c.press("Save")
	c.row("1", "two")
	c.newKey("ranking", "zset", "member", "ada", "score", "1.5")
	c.press("Details of ranking")
	c.row("ada", "1.5")
	c.press("Edit ada")
	c.fill("score", "much")
	c.press("Save")
	c.see("expected a number, inf or -inf")
	c.fill("score", "20")
	c.press("Save")
	c.row("ada", "20")
	c.newKey("tags", "set", "member", "red")
	c.newKey("events", "stream", "fields", "kind=created\nby=ada")
	c.press("Details of events")
	c.see("kind=created")
	c.Check("console-kv-stream")

	c.choose("Type", "set")
	c.misses("ranking")
	c.press("Details of tags")
	c.press("Delete key")
	c.confirm("Delete key")
	c.see("No key has a value of this type")

	for i := range 120 {
		s.Must(client.RPush(ctx, "long", "element "+strconv.Itoa(i)).Err())
	}
	c.choose("Type", "list")
	c.press("Details of long")
	c.row("0", "element 0")
	c.press("Next items")
	c.row("50", "element 50")
	c.press("Next items")
	c.row("119", "element 119")
	c.press("Previous items")
	c.row("50", "element 50")
	c.Check("console-kv-list")
	c.clean()
}
