package app

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dustin/go-humanize/english"
)

// TestPackageCommentsNameTheirImports checks that the first paragraph of each package's comment says what
// the package imports of Steward. Base packages are named by base packages only: all others may use them.
func TestPackageCommentsNameTheirImports(t *testing.T) {
	for _, p := range packages(t, "steward/internal/...", "steward/client", "steward/cmd/...") {
		first, _, _ := strings.Cut(p.comment(t), "\n\n")
		if want := p.importSentence(); !strings.Contains(strings.Join(strings.Fields(first), " "), want) {
			t.Errorf("the first paragraph of the comment of %s does not say %q", p.ImportPath, want)
		}
	}
}

// comment returns the comment of a package.
func (p goPackage) comment(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(file.Doc.Text())
	}
	return all.String()
}

// importSentence returns what the comment of a package says about its imports.
func (p goPackage) importSentence() string {
	if p.ImportPath == internal+"app" {
		return "It may import every other package of Steward."
	}
	var named []string
	unnamed := 0
	for _, imported := range p.Imports {
		switch {
		case !strings.HasPrefix(imported, steward):
		case isBase(imported) && !isBase(p.ImportPath):
			unnamed++
		default:
			named = append(named, p.nameOf(imported))
		}
	}
	slices.Sort(named)
	switch {
	case len(named) == 0 && unnamed == 0:
		return "It imports no other package of Steward."
	case len(named) == 0:
		return "It imports base packages only."
	case unnamed == 0:
		return fmt.Sprintf("Of Steward it imports %s.", english.WordSeries(named, "and"))
	}
	return fmt.Sprintf("Besides base packages it imports %s.", english.WordSeries(named, "and"))
}

// nameOf returns the path of an import below the folder that it shares with the package, or below
// internal.
func (p goPackage) nameOf(imported string) string {
	for _, folder := range []string{p.ImportPath, path.Dir(p.ImportPath), strings.TrimSuffix(internal, "/")} {
		if below, ok := strings.CutPrefix(imported, folder+"/"); ok {
			return below
		}
	}
	return strings.TrimPrefix(imported, steward)
}
