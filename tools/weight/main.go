// Command weight measures how much code there is to read: lines, packages, functions, function fields and
// the English in comments. docs/decisions/0017-weight.md has the table for earlier commits.
//
//	go run ./tools/weight            # this tree
//	go run ./tools/weight ../other   # another one, to compare
//	go run ./tools/weight -fields    # only a list of the function fields
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	list := flag.Bool("fields", false, "list the function fields")
	flag.Parse()
	root := cmp.Or(flag.Arg(0), ".")
	w := weight{root: root, packages: map[string]int{}, imports: map[string][]string{}, calls: map[string]int{}}
	if err := filepath.WalkDir(root, w.visit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *list {
		fmt.Println(strings.Join(w.fieldNames, "\n"))
		return
	}
	w.print()
}

// weight sums up the code without tests and generated files.
type weight struct {
	root             string
	lines, testLines int
	packages         map[string]int      // the lines of each
	imports          map[string][]string // by package
	functions        int
	functionLines    int
	clocks           int            // function fields in structs that are named Now or now
	fieldNames       []string       // the other function fields, each with its place
	short            []string       // names of functions with at most six lines
	calls            map[string]int // how often each name occurs
	comments         strings.Builder
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (w *weight) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name := entry.Name()
	if entry.IsDir() {
		if name == "node_modules" || name == "testdata" || name == "dist" || len(name) > 1 && name[0] == '.' && name != ".." {
			return filepath.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(name, ".go") {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil || generated.Match(text) {
		return err
	}
	if strings.HasSuffix(name, "_test.go") {
		w.testLines += strings.Count(string(text), "\n")
		return nil
	}
	lines := strings.Count(string(text), "\n")
	w.lines += lines
	w.packages[filepath.Dir(path)] += lines
	return w.parse(path, text)
}

func (w *weight) parse(path string, text []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, i := range file.Imports {
		if name, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "steward/"); ok {
			w.imports[filepath.Dir(path)] = append(w.imports[filepath.Dir(path)], name)
		}
	}
	for _, group := range file.Comments {
		w.comments.WriteString(group.Text() + "\n")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
			w.functions++
			w.functionLines += lines
			if lines <= 6 && !n.Name.IsExported() {
				w.short = append(w.short, n.Name.Name)
			}
		case *ast.Ident:
			w.calls[n.Name]++
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if _, ok := field.Type.(*ast.FuncType); !ok {
					continue
				}
				for _, name := range field.Names {
					if strings.EqualFold(name.Name, "now") {
						w.clocks++
					} else {
						w.fieldNames = append(w.fieldNames, fmt.Sprintf("%v %s", files.Position(name.Pos()), name.Name))
					}
				}
			}
		}
		return true
	})
	return nil
}

// habits are patterns in English that make comments hard to read, and two words that help.
var habits = []struct{ name, pattern string }{
	{`"of"`, `\bof\b`},
	{`"what"`, `\bwhat\b`},
	{`"that of", "those of"`, `\b(?:that|those) of\b`},
	{`"is how/what/when/whether"`, `\b(?:is|are) (?:how|when|where|whether|what|who)\b`},
	{`"we", "you"`, `\b(?:we|you|our|your)\b`},
}

// used returns the lines of a package and of those that it imports, except the ones seen before.
func (w *weight) used(name string, seen map[string]bool) int {
	if seen[name] {
		return 0
	}
	seen[name] = true
	lines := w.packages[filepath.Join(w.root, name)]
	for _, imported := range w.imports[filepath.Join(w.root, name)] {
		lines += w.used(imported, seen)
	}
	return lines
}

func (w *weight) print() {
	once := 0
	for _, name := range w.short {
		if w.calls[name] == 2 { // its declaration and one call
			once++
		}
	}
	row := func(name string, value any) { fmt.Printf("| %s | %v |\n", name, value) }
	row("lines without tests and generated code", w.lines)
	seen := map[string]bool{}
	row("of these, in packages that neither the program nor the client uses", w.lines-w.used("cmd/steward", seen)-w.used("client", seen))
	row("lines of tests", w.testLines)
	row("packages", len(w.packages))
	row("mean function, lines", fmt.Sprintf("%.1f", float64(w.functionLines)/float64(w.functions)))
	row("functions of at most six lines that are used once", once)
	row("function fields in structs", len(w.fieldNames))
	row("clocks", w.clocks)
	words := len(strings.Fields(w.comments.String()))
	row("words of comments", words)
	for _, h := range habits {
		found := regexp.MustCompile("(?i)"+h.pattern).FindAllStringIndex(w.comments.String(), -1)
		row("for each 1,000 words: "+h.name, fmt.Sprintf("%.2f", 1000*float64(len(found))/float64(words)))
	}
}
