package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReferenceIsUpToDate compares docs/cli.md with the commands. `make docs` writes it again.
func TestReferenceIsUpToDate(t *testing.T) {
	_, want, _ := runProgram(nil, nil, "docs", "markdown")
	got, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/cli.md differs from the commands; run `make docs`")
	}
}

func TestManPagesAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, stderr := runProgram(nil, nil, "docs", "man", dir); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for page, want := range map[string]string{"steward-serve.1": "ingest-limit", "steward-webhook-list.1": "watch"} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v", page, err)
		}
	}
	if code, _, _ := runProgram(nil, nil, "docs", "man"); code != 2 {
		t.Errorf("without a directory: code %d", code)
	}
}

// TestHelpIsComplete checks what a reader of the help expects of every command.
func TestHelpIsComplete(t *testing.T) {
	for _, cmd := range (program{}).rootCommand().Commands() {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || cmd.GroupID == "" {
			t.Errorf("%s: short %q, group %q", cmd.CommandPath(), cmd.Short, cmd.GroupID)
		}
		for _, below := range cmd.Commands() {
			if below.Short == "" || strings.HasSuffix(below.Short, ".") {
				t.Errorf("%s: short %q", below.CommandPath(), below.Short)
			}
		}
	}
}
