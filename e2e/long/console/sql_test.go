package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// editorText is the expression of what is in the SQL editor.
const editorText = `[...document.querySelector('.editor').shadowRoot.querySelectorAll('.cm-line')].map(l => l.textContent).join('\n')`

// openSQL opens the SQL editor of a database.
func (c *console) openSQL(database string) {
	c.T.Helper()
	c.visit("/databases/local/" + database + "?tab=sql")
	c.Wait("the editor", `document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')`)
}

// write replaces what is in the SQL editor, by keyboard.
func (c *console) write(statement string) {
	c.T.Helper()
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".editor").shadowRoot.querySelector(".cm-content").focus(); undefined`))
	c.keys("ctrl+a")
	c.keys("\b")
	c.keys(statement)
}

// sql runs a statement with the editor, by keyboard.
func (c *console) sql(statement string) {
	c.T.Helper()
	c.write(statement)
	c.keys("ctrl+\r")
}

// TestConsoleKeepsStatements leaves the SQL editor in the middle of a statement: it is there when the
// page is opened again, for each database its own, and gone when the user has signed out.
func TestConsoleKeepsStatements(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.NewDatabase("shop")
	s.NewDatabase("other")
	c := signedIn(t, s)
	c.openSQL("shop")
	c.write("SELECT 40 + 2 AS answer")
	c.Press("Threads") // by the navigation, without loading the console again
	c.See("No threads yet")
	c.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	c.Wait("the statement", `location.search === '?tab=sql' && `+editorText+` === 'SELECT 40 + 2 AS answer'`)
	c.openSQL("other")
	if text := chromium.Evaluate[string](c.Browser, editorText); strings.Contains(text, "answer") {
		t.Errorf("the editor of another database has %q", text)
	}
	c.openSQL("shop")
	c.Wait("the statement after a reload", editorText+` === 'SELECT 40 + 2 AS answer'`)

	c.sql("SELECT 1 AS first")
	c.See("1 row")
	c.sql("SELECT 2 AS second")
	c.Wait("the second result", `document.querySelector('.grid th')?.innerText === 'second'`)
	c.openSQL("shop")
	c.Press("History")
	c.Wait("both statements, newest first", `[...document.querySelectorAll('dialog .statement code')].map(e => e.innerText).join() === 'SELECT 2 AS second,SELECT 1 AS first'`)
	c.clickNth(`dialog .statement`, 1)
	c.Wait("the first statement", `!document.querySelector('dialog') && `+editorText+` === 'SELECT 1 AS first'`)
	c.Press("Run")
	c.Wait("its result", `document.querySelector('.grid th')?.innerText === 'first'`)
	c.openSQL("other")
	c.Wait("no history", `[...document.querySelectorAll('button')].find(e => e.innerText.trim() === 'History').disabled`)
	c.Clean()

	c.clickNth(".who", 0)
	c.Press("Sign out")
	c.See("Sign in to the console")
	if left := chromium.Evaluate[string](c.Browser, `JSON.stringify({...localStorage, ...sessionStorage})`); strings.Contains(left, "SELECT") {
		t.Errorf("the browser keeps %s", left)
	}
}

// TestConsoleTellsTheOutcomeOfStatements runs statements that change rows, that return some, and
// that fail: the page says how many rows were changed, and shows no result of before beside an error.
func TestConsoleTellsTheOutcomeOfStatements(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.NewDatabase("shop").Exec("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
	c := signedIn(t, s)
	c.openSQL("shop")
	c.sql("INSERT INTO notes (text) VALUES ('one'), ('NULL'), (NULL)")
	c.See("3 rows affected")
	c.sql("SELECT text FROM notes ORDER BY id")
	c.Wait("NULL apart from the text", `(rows => rows.length === 3 && rows[1].innerText === 'NULL' && rows[1].className === 'string'
		&& rows[2].innerText === 'NULL' && rows[2].className === 'null'
		&& getComputedStyle(rows[1]).fontStyle !== getComputedStyle(rows[2]).fontStyle)(document.querySelectorAll('.grid tbody td'))`)
	c.sql("SELECT * FROM missing")
	c.See("SQL error")
	c.See("no such table: missing")
	if text := c.Text("#content"); strings.Contains(text, "3 rows") || strings.Contains(text, "form") {
		t.Errorf("beside the error the page shows %s", text)
	}
	c.sql("DELETE FROM notes WHERE id > 1")
	c.See("2 rows affected")
	c.misses("SQL error")
	c.Clean()
}

// TestConsoleEditorKeepsThePolicy does in the editor what adds styles or elements to it. The pages'
// Content-Security-Policy allows no inline styles, and nothing may violate it.
func TestConsoleEditorKeepsThePolicy(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.NewDatabase("shop")
	c := signedIn(t, s)
	violations := c.logged("Content Security Policy")
	c.openSQL("shop")
	c.write("SELECT (1 + 2) AS \"sum\", 'text' -- " + strings.Repeat("a long line ", 40))
	for _, key := range []string{kb.Home, kb.ArrowRight, "ctrl+a", "ctrl+z", "ctrl+y", "ctrl+f", kb.Escape, kb.PageDown, kb.Tab} {
		c.keys(key)
	}
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.editor').shadowRoot.querySelector('.cm-content').focus(); undefined`))
	for range 40 {
		c.keys("\r")
	}
	c.keys("((')")
	c.ColorScheme("dark")
	c.Do(chromedp.EmulateViewport(390, 844))
	c.settle()
	if styled := chromium.Evaluate[bool](c.Browser, `getComputedStyle(document.querySelector('.editor').shadowRoot.querySelector('.cm-gutters')).display === 'flex'`); !styled {
		t.Error("the editor has no styles")
	}
	c.Clean()
	if all := violations(); len(all) > 0 {
		t.Errorf("the browser has logged %s", strings.Join(all, "\n"))
	}
}
