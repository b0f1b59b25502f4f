package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

func TestCLIWatchesLists(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	url := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201).Text("url")
	c.run("bucket", "create", "watched-files")
	c.run("kv", "create", "watched-store")
	c.run("db", "create", "watched-data")
	upload := func(key string) func() {
		return func() {
			cmd := c.command("object", "cp", "-", "s3://watched-files/"+key)
			cmd.Stdin = strings.NewReader("x")
			s.Must(cmd.Run())
		}
	}
	for list, change := range map[string]func(){
		"webhook list":                func() { c.run("webhook", "create", "changed") },
		"webhook receipt list orders": func() { c.ingest(url, `"changed"`) },
		"resource list":               func() { c.run("bucket", "create", "changed-bucket") },
		"object ls watched-files":     upload("changed.txt"),
		"object ls -r watched-files":  upload("folder/changed.txt"),
		"kv keys watched-store":       func() { c.run("kv", "cli", "watched-store", "SET", "changed", "1") },
		"db tables watched-data":      func() { c.run("db", "shell", "watched-data", "-c", "CREATE TABLE changed (id INTEGER)") },
		"project list":                func() { c.run("project", "create", "changed") },
		"audit list":                  func() { c.run("project", "create", "changed-too") },
	} {
		t.Run(list, func(t *testing.T) {
			before := c.run(append(strings.Fields(list), "-o", "ndjson", "--limit", "0")...)
			p := c.start((*exec.Cmd).StdoutPipe, append(strings.Fields(list), "--watch", "--interval", "100ms", "-o", "ndjson", "--limit", "0")...)
			for range strings.Count(before, "\n") {
				p.match(t, "^{")
			}
			change()
			if line := p.match(t, "(.*)"); strings.Contains(before, line) {
				t.Errorf("after a change %s is printed", line)
			}
			if code := p.interrupt(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// screen is a terminal on which a command runs.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// pages returns what was printed after each time that the screen was cleared.
func (s *screen) pages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(s.text.String(), "\x1b[H\x1b[2J")[1:]
}

func TestCLIWatchReplacesTheTableOnATerminal(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	cmd := c.command("webhook", "list", "--watch", "--interval", "100ms")
	cmd.Env = append(cmd.Env, "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
	s.Must(err)
	defer func() { _ = terminal.Close() }()
	shown := &screen{}
	ended := make(chan int, 1)
	go func() {
		_, _ = terminal.WriteTo(shown) // until the command ends
		_ = cmd.Wait()
		ended <- cmd.ProcessState.ExitCode()
	}()
	page := func(what string, n int, want ...string) {
		t.Helper()
		waittest.True(t, what, func() bool {
			pages := shown.pages()
			if len(pages) < n {
				return false
			}
			for _, text := range want {
				if !strings.Contains(pages[n-1], text) {
					return false
				}
			}
			return true
		})
	}
	page("an empty list", 1, "Nothing found.")
	c.run("webhook", "create", "first")
	page("a table", 2, "ID", "first")
	c.run("webhook", "create", "second")
	page("the table with another row", 3, "ID", "first", "second")
	_, err = terminal.Write([]byte{3}) // Ctrl-C
	s.Must(err)
	if code := waittest.Receive(t, "the command to end", ended); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
