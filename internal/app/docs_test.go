package app

import (
	"os"
	"path/filepath"
	"regexp"
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

// TestDocsNameExistingFiles checks the paths of the repository that the documents for contributors name
// in backticks.
func TestDocsNameExistingFiles(t *testing.T) {
	const root = "../.."
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]bool{}
	for _, e := range entries {
		top[e.Name()] = true
	}
	documents := []string{"CONTRIBUTING.md", "docs/architecture.md"}
	decisions, err := filepath.Glob(root + "/docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range decisions {
		documents = append(documents, "docs/decisions/"+filepath.Base(path))
	}
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range quotedPaths(string(text), top) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which does not exist", document, path)
			}
		}
	}
}

// quotedPath matches a path in backticks, such as `internal/db`, also before arguments of a command.
var quotedPath = regexp.MustCompile("`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*)[` ]")

// quotedPaths returns the paths in backticks that begin with an entry of the repository.
func quotedPaths(text string, top map[string]bool) []string {
	var paths []string
	for _, m := range quotedPath.FindAllStringSubmatch(text, -1) {
		if first, _, _ := strings.Cut(m[1], "/"); top[first] {
			paths = append(paths, m[1])
		}
	}
	return paths
}

// TestDocsLinkToExistingFiles checks the relative links of all documents.
func TestDocsLinkToExistingFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md"} {
		documents, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
					t.Errorf("%s links to %s, which does not exist", document, m[1])
				}
			}
		}
	}
}
