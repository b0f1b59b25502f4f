package provider_test

import (
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

// TestPackageCommentsNameTheirImports checks that the comment of each package says what it imports of the
// others.
func TestPackageCommentsNameTheirImports(t *testing.T) {
	entries, err := os.ReadDir(".")
	providertest.Must(t, err)
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), "test") {
			continue
		}
		p, err := build.ImportDir(e.Name(), 0)
		providertest.Must(t, err)
		if want := importSentence(p.Imports); !strings.Contains(comment(t, p), want) {
			t.Errorf("the comment of package %s does not say %q", p.Name, want)
		}
	}
}

// comment returns the comment of a package in one line.
func comment(t *testing.T, p *build.Package) string {
	t.Helper()
	var all strings.Builder
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.ParseComments|parser.PackageClauseOnly)
		providertest.Must(t, err)
		all.WriteString(file.Doc.Text())
	}
	return strings.Join(strings.Fields(all.String()), " ")
}

// importSentence returns what a package with these imports says about them.
func importSentence(imports []string) string {
	var names []string
	for _, path := range imports {
		if name, ok := strings.CutPrefix(path, "steward/internal/oidc/provider/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch last := len(names) - 1; last {
	case -1:
		return "It imports no other package of the provider."
	case 0:
		return fmt.Sprintf("Of the provider it imports %s.", names[0])
	default:
		return fmt.Sprintf("Of the provider it imports %s and %s.", strings.Join(names[:last], ", "), names[last])
	}
}
