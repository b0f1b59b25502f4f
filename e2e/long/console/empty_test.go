package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/process"
)

// emptyPages are the pages that show how the first thing is made, in the order in which that is possible.
var emptyPages = []struct {
	path string
	// lines are the kinds of lines that the page shows.
	lines string
}{
	{"/", "curl cli"},
	{"/storage", "curl cli"},
	{"/storage/my-files", "curl cli"},
	{"/databases", "curl cli"},
	{"/databases/local/orders", "curl cli"},
	{"/key-value", "curl cli"},
	{"/key-value/local/orders", "cli"}, // a store speaks the Redis protocol only
	{"/threads", "curl cli"},
	{"/sessions", "curl cli"},
	{"/evaluations?tab=evals", "curl cli"},
	{"/evaluations", "curl cli"},
}

// TestConsoleEmptyPagesShowLinesThatWork runs the lines that empty pages show. Afterwards, the
// pages are not empty.
func TestConsoleEmptyPagesShowLinesThatWork(t *testing.T) {
	t.Parallel()
	t.Run("curl", func(t *testing.T) { runEmptyPages(t, "curl", "With curl") })
	t.Run("cli", func(t *testing.T) { runEmptyPages(t, "cli", "With the command line") })
}

func runEmptyPages(t *testing.T, kind, label string) {
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	dir := t.TempDir()
	s.Must(os.WriteFile(filepath.Join(dir, "report.pdf"), []byte("%PDF-1.7"), 0o644))
	for _, p := range emptyPages {
		c.visit(p.path)
		c.Wait("an empty page at "+p.path, `document.querySelector('.empty h2')`)
		if kind == "curl" {
			c.Check("console-empty-" + strings.Trim(strings.NewReplacer("/", "-", "?tab=", "-").Replace(p.path), "-"))
		}
		line := chromium.Evaluate[string](c.Browser, `[...document.querySelectorAll('.empty .code')].find((e) => e.querySelector('.label').innerText === `+chromium.Quote(label)+`)?.querySelector('pre').innerText ?? ''`)
		if !strings.Contains(p.lines, kind) {
			line = kvLine
		}
		if line == "" {
			t.Fatalf("%s has no line %q", p.path, label)
		}
		runLine(s, dir, line)
		c.visit(p.path)
		c.Wait(p.path+" to show what was made", `document.querySelector('#content .table, #content .list, .plot') && !document.querySelector('.empty')`)
		c.Clean()
	}
}

// kvLine sets a key where a page has no line for it.
const kvLine = "steward kv cli orders SET greeting hello"

// runLine runs a line in a shell that knows the key, the command line and the credentials of the bucket.
func runLine(s *installation.Steward, dir, line string) {
	s.T.Helper()
	binary, err := process.Build()
	s.Must(err)
	shell := exec.Command("sh", "-ec", "curl() { command curl -sS --fail-with-body \"$@\"; }\n"+line)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "STEWARD_KEY="+s.Key, "STEWARD_URL="+s.URL, "HOME="+dir,
		"PATH="+filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	shell.Env = append(shell.Env, bucketEnv(s)...)
	if out, err := shell.CombinedOutput(); err != nil {
		s.T.Fatalf("%s\n%v: %s", line, err, out)
	}
}

// bucketEnv returns the variables of the first bucket.
func bucketEnv(s *installation.Steward) (env []string) {
	s.T.Helper()
	var all struct {
		S3 []struct{ Env map[string]string }
	}
	s.Call("GET", "/resource?type=s3", nil).Want(200).Decode(&all)
	for _, b := range all.S3 {
		for name, value := range b.Env {
			env = append(env, name+"="+value)
		}
	}
	return env
}
