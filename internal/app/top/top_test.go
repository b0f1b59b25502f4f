package top_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"steward/internal/app/metrics"
	"steward/internal/app/top"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
	"steward/internal/waittest"
	"steward/internal/web"
)

// serve starts the metrics listener of a server that has served some requests, and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	m := metrics.New("v1.2.3")
	server, err := m.Serve("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for range 3 {
		m.Served(web.Served{Meta: &web.Meta{Route: "GET /x", OrgID: "org_1"}, Status: 200, Took: time.Millisecond})
	}
	m.Read(metrics.QueueDepth, func() float64 { return 7 })
	m.Read(metrics.OldestDueAge, func() float64 { return 42 })
	return "http://" + server.Address
}

// run runs the command until it ends, or ctx does.
func run(ctx context.Context, out io.Writer, args ...string) error {
	cmd := top.Command(session.Program{Out: out, Err: io.Discard, Environ: []string{"TERM=xterm"}})
	cmd.SetArgs(append([]string{"--interval", "100ms"}, args...))
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	return cmd.ExecuteContext(ctx)
}

func TestOnceAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, "--metrics", serve(t), "--once", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	var v top.View
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if v.Version != "v1.2.3" || v.Queued != 7 || v.OldestDue != 42 || v.P99 != nil || v.Memory == 0 ||
		len(v.Organizations) != 1 || v.Organizations[0].ID != "org_1" || v.Organizations[0].Requests <= 0 {
		t.Errorf("got %s", out.String())
	}
}

// TestPipeGetsPlainText reads views until there are three.
func TestPipeGetsPlainText(t *testing.T) {
	url := serve(t)
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, w, "--metrics", url)
		_ = w.Close()
	}()
	views := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if strings.Contains(lines.Text(), "\x1b") {
			t.Errorf("a pipe got %q", lines.Text())
		}
		if strings.HasPrefix(lines.Text(), "Requests ") {
			views++
		}
		if views == 3 {
			cancel()
		}
	}
	if err := waittest.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// TestTerminalIsRedrawn reads a terminal until the view was drawn twice.
func TestTerminalIsRedrawn(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	url := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, tty, "--metrics", url)
		_ = tty.Close()
	}()
	var shown strings.Builder
	buffer := make([]byte, 4096)
	for strings.Count(shown.String(), "\x1b[H\x1b[2J") < 3 {
		n, err := screen.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(buffer[:n])
	}
	cancel()
	if err := waittest.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"Steward v1.2.3", "queue 7", "oldest due 42 s", "org_1"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("the terminal does not show %q: %q", want, shown.String())
		}
	}
}

func TestServerIsFoundByItsDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := run(t.Context(), io.Discard, "--data", dir); exit.Code(err) != exit.NotFound {
		t.Errorf("no server: %v", err)
	}
	content := `{"listen":{"metrics":"` + strings.TrimPrefix(serve(t), "http://") + `"}}`
	if err := os.WriteFile(filepath.Join(dir, "steward.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, "--data", dir, "--once"); err != nil || !strings.Contains(out.String(), "queue 7") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestUnreachableServerIsToldApart(t *testing.T) {
	if err := run(t.Context(), io.Discard, "--metrics", "http://127.0.0.1:1"); exit.Code(err) != exit.Unavailable {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), io.Discard, "--metrics", serve(t), "-o", "xml"); exit.Code(err) != exit.Usage {
		t.Errorf("got %v", err)
	}
}
