package shell

import (
	"bufio"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"steward/internal/cli/session"
	"steward/internal/waittest"
)

func TestWordsOfACommand(t *testing.T) {
	for line, want := range map[string]string{
		`SET a b`: "SET|a|b", `  GET  'a b' `: "GET|a b", `SET k "x \"y\"\n"`: "SET|k|x \"y\"\n", `''`: "", "": "",
	} {
		got, err := splitWords(line)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`'a`, `"a`, `"\q"`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestTextsAreSplitIntoStatements(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1;":                "SELECT 1;|",
		"SELECT 1":                 "|SELECT 1",
		"SELECT 1; SELECT 2; x":    "SELECT 1;| SELECT 2;| x",
		"SELECT 'a;":               "|SELECT 'a;",
		"SELECT 'it''s;', \"x;\";": "SELECT 'it''s;', \"x;\";|",
		"-- don't; do\nSELECT 1;":  "-- don't; do\nSELECT 1;|",
		"/* ; ' */ SELECT 1;":      "/* ; ' */ SELECT 1;|",
		".tables":                  ".tables|",
		".tables\nSELECT 1;":       ".tables|SELECT 1;|",
		"DO $$ BEGIN; END $$;":     "DO $$ BEGIN; END $$;|",
		"SELECT $a$;$$;$a$;":       "SELECT $a$;$$;$a$;|",
		"SELECT $1;":               "SELECT $1;|",
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;":               "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;|",
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;":                    "|CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;",
		"CREATE TRIGGER t AFTER INSERT ON a EXECUTE FUNCTION f(); SELECT 1;":         "CREATE TRIGGER t AFTER INSERT ON a EXECUTE FUNCTION f();| SELECT 1;|",
		"-- a\n/* b */ CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;": "|-- a\n/* b */ CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b;",
		"": "|",
	} {
		statements, rest := splitSQL(text)
		if got := strings.Join(append(statements, rest), "|"); got != want && "|"+got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestInterruptDiscardsAStatement types a statement without its end, Ctrl-C, another statement and
// Ctrl-D.
func TestInterruptDiscardsAStatement(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = terminal.Close(), tty.Close() }()
	p := newPrompt(&session.Env{Program: session.Program{In: tty, Out: tty, Err: tty}})
	var ran []string
	ended := make(chan error, 1)
	go func() {
		ended <- p.each(t.Context(), "orders", splitSQL, func(statement string) error {
			ran = append(ran, statement)
			return nil
		})
	}()
	screen := bufio.NewReader(terminal)
	for _, step := range []struct{ prompt, typed string }{
		{"orders> ", "DELETE FROM invoices\r"}, {"..> ", "\x03"}, {"orders> ", "SELECT 1;\r"}, {"orders> ", "\x04"},
	} {
		waitFor(t, screen, step.prompt)
		if _, err := terminal.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
	}
	if err := waittest.Receive(t, "the prompt to end", ended); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"SELECT 1;"}, ran); diff != "" {
		t.Error(diff)
	}
}

// waitFor reads a screen until it shows a text.
func waitFor(t *testing.T, screen *bufio.Reader, text string) {
	t.Helper()
	shown := ""
	for !strings.HasSuffix(shown, text) {
		b, err := screen.ReadByte()
		if err != nil {
			t.Fatalf("%v after %q", err, shown)
		}
		shown += string(b)
	}
}
