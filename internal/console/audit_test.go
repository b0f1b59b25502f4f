package console

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recorded matches an action of the audit log where Go code records or names it.
var recorded = regexp.MustCompile(`(?:(?:[Aa]udit(?:As)?|\.Record)\([^"\n]*|\baction\w*\s*:?=\s*)"([a-z]+)\.([a-z_-]+)"`)

// TestEveryAuditActionHasWords looks for the actions that the code records, and fails if the console
// has no words for one: its audit log would show the name of the action.
func TestEveryAuditActionHasWords(t *testing.T) {
	source, err := os.ReadFile("../../console/src/lib/audit.ts")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, action := range recorded.FindAllStringSubmatch(string(code), -1) {
			found++
			if !hasWords(string(source), action[1], action[2]) {
				t.Errorf("%s records %s.%s, which console/src/lib/audit.ts has no words for", path, action[1], action[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 40 {
		t.Errorf("found %d actions only", found)
	}
}

// hasWords reports whether the entry of a kind in the table of audit.ts has a verb.
func hasWords(source, kind, verb string) bool {
	entry := regexp.MustCompile(`(?s)\n  ` + kind + `: \{ *\n?.*?\n  (?:\w|\})`).FindString(source)
	return regexp.MustCompile(`\b'?` + regexp.QuoteMeta(verb) + `'?: '`).MatchString(entry)
}
