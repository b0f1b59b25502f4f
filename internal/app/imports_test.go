package app

import (
	"os/exec"
	"strings"
	"testing"
)

// level is the level of each package below internal, with those inside it. A package imports lower
// levels only; on the same level it imports leaves (level 0), and what sameLevel lists.
var level = map[string]int{
	"errs": 0, "id": 0, "stamp": 0, "auth": 0, "seal": 0, "encode": 0, "page": 0, "waittest": 0,
	"db": 1, "web": 1, "job": 1,
	"account": 2, "apikey": 2, "audit": 2, "oidc": 2, "resource": 2, "thread": 2, "eval": 2, "webhook": 2,
	"server": 3, "sdk": 3,
	"app": 4,
}

// sameLevel lists the imports within a level above 0.
var sameLevel = []string{"web>db", "job>db", "server>sdk"}

// onlyIn lists modules that only one package imports.
var onlyIn = map[string]string{
	"code.dny.dev/ssrf":                   "webhook",
	"github.com/coder/websocket":          "thread",
	"github.com/go-jose/go-jose":          "oidc",
	"github.com/jackc/pgx":                "db",
	"github.com/pressly/goose":            "db",
	"github.com/prometheus/client_golang": "app",
	"github.com/spf13/cobra":              "app",
	"modernc.org/sqlite":                  "db",
	"zombiezen.com/go/sqlite":             "db",
}

// TestImportsGoDown checks the imports of every package against the tables, and the tables for
// entries that are not needed.
func TestImportsGoDown(t *testing.T) {
	const format = `{{.ImportPath}} {{join .Imports " "}}`
	out, err := exec.Command("go", "list", "-f", format, "steward/internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		from, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[top(from)] = true
		for to := range strings.FieldsSeq(imports) {
			checkImport(t, from, to)
			seen[top(from)+">"+top(to)] = true
		}
	}
	for name := range level {
		if !seen[name] {
			t.Errorf("level lists %s, which does not exist", name)
		}
	}
	for _, pair := range sameLevel {
		if !seen[pair] {
			t.Errorf("sameLevel lists %s, which is not imported", pair)
		}
	}
}

func checkImport(t *testing.T, from, to string) {
	for module, only := range onlyIn {
		if strings.HasPrefix(to, module) && top(from) != only {
			t.Errorf("%s imports %s, which only %s may import", from, to, only)
		}
	}
	if !strings.HasPrefix(to, "steward/internal/") || top(to) == top(from) {
		return
	}
	higher, ok := level[top(from)]
	if !ok {
		t.Errorf("level does not list %s", top(from))
	}
	lower, ok := level[top(to)]
	if !ok {
		t.Errorf("level does not list %s", top(to))
	}
	if lower > higher || lower == higher && higher > 0 && !slices.Contains(sameLevel, top(from)+">"+top(to)) {
		t.Errorf("%s imports %s: imports go down only", from, to)
	}
}

// top returns the first element of a package's path below internal.
func top(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "steward/internal/"), "/")
	return name
}
