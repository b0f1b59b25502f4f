package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReferencesAreUpToDate compares the generated documents with the program. `make docs` writes them again.
func TestReferencesAreUpToDate(t *testing.T) {
	for format, document := range map[string]string{"markdown": "docs/cli.md", "settings": "docs/settings.md"} {
		_, want, _ := runProgram(nil, "docs", format)
		got, err := os.ReadFile("../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from the program; run `make docs`", document)
		}
	}
}

func TestManPagesAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, stderr := runProgram(nil, "docs", "man", dir); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for page, want := range map[string]string{"steward-serve.1": "ingest-limit", "steward-webhook-list.1": "watch"} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v", page, err)
		}
	}
	if code, _, _ := runProgram(nil, "docs", "man"); code != 2 {
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

// TestDocsLinkToExistingSections checks the relative links of all documents, and the headings that they lead to.
func TestDocsLinkToExistingSections(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
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
				target := document
				if m[1] != "" {
					target = filepath.Join(filepath.Dir(document), m[1])
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s links to %s, which does not exist", document, m[1])
				}
				if m[2] != "" && filepath.Ext(target) == ".md" && !headings(t, target)[m[2]] {
					t.Errorf("%s links to %s#%s, which has no such heading", document, m[1], m[2])
				}
			}
		}
	}
}

// headings returns the anchors of a document's headings.
func headings(t *testing.T, document string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		words := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(words, " ", "-")] = true
	}
	return anchors
}

// TestOperatorsPagesAreShort keeps each page to one task.
func TestOperatorsPagesAreShort(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := regexp.MustCompile(`\]\((\w[\w-]*\.md)\)`).FindAllStringSubmatch(string(text), -1)
	if len(pages) < 10 {
		t.Errorf("docs/operations.md leads to %d pages", len(pages))
	}
	for _, m := range pages {
		if info, err := os.Stat("../../docs/" + m[1]); err != nil || m[1] != "settings.md" && info.Size() > 12<<10 {
			t.Errorf("docs/%s is too long, or missing: %v", m[1], err)
		}
	}
}
