package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.loadAxe()
	dir := t.TempDir()
	s.must(os.WriteFile(filepath.Join(dir, "report.pdf"), []byte("%PDF-1.7"), 0o644))
	for _, p := range emptyPages {
		c.visit(p.path)
		c.wait("an empty page at "+p.path, `document.querySelector('.empty h2')`)
		if kind == "curl" {
			c.check("console-empty-" + strings.Trim(strings.NewReplacer("/", "-", "?tab=", "-").Replace(p.path), "-"))
		}
		line := evaluate[string](c.chromium, `[...document.querySelectorAll('.empty .code')].find((e) => e.querySelector('.label').innerText === `+quoted(label)+`)?.querySelector('pre').innerText ?? ''`)
		if !strings.Contains(p.lines, kind) {
			line = s.kvLine()
		}
		if line == "" {
			t.Fatalf("%s has no line %q", p.path, label)
		}
		s.runLine(dir, line)
		c.visit(p.path)
		c.wait(p.path+" to show what was made", `document.querySelector('#content .table, #content .list, .plot') && !document.querySelector('.empty')`)
		c.clean()
	}
}

// kvLine sets a key where a page has no line for it.
func (s *steward) kvLine() string { return "steward kv cli orders SET greeting hello" }

// runLine runs a line in a shell that knows the key, the command line and the credentials of the bucket.
func (s *steward) runLine(dir, line string) {
	s.t.Helper()
	binary, err := process.Build()
	s.must(err)
	shell := exec.Command("sh", "-ec", "curl() { command curl -sS --fail-with-body \"$@\"; }\n"+line)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "STEWARD_KEY="+s.key, "STEWARD_URL="+s.URL, "HOME="+dir,
		"PATH="+filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	shell.Env = append(shell.Env, s.bucketEnv()...)
	if out, err := shell.CombinedOutput(); err != nil {
		s.t.Fatalf("%s\n%v: %s", line, err, out)
	}
}

// bucketEnv returns the variables of the first bucket.
func (s *steward) bucketEnv() (env []string) {
	s.t.Helper()
	var all struct {
		S3 []struct{ Env map[string]string }
	}
	s.call("GET", "/resource?type=s3", nil).want(200).decode(&all)
	for _, b := range all.S3 {
		for name, value := range b.Env {
			env = append(env, name+"="+value)
		}
	}
	return env
}
