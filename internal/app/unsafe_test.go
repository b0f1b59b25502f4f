package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lookups maps packages to the calls of reflect by which they look up fields by their names, or get the
// address of a value. No other package may have such a call. redis/lua reads private fields of another module.
var lookups = map[string][]string{
	"db":        {"FieldByNameFunc"},                         // of rows, whose columns are named like their fields
	"web":       {"FieldByName"},                             // Body, of the inputs of routes
	"sqlite":    {"Pointer"},                                 // of its own functions, which SQLite calls
	"redis/lua": {"FieldByName", "Pointer", "UnsafePointer"}, // of the interpreter's values, to measure what scripts have
}

// TestNothingIsUnsafe fails if a package imports unsafe, or looks into values as only those of lookups
// may.
func TestNothingIsUnsafe(t *testing.T) {
	const format = `{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}{{range .IgnoredGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}`
	out, err := exec.Command("go", "list", "-f", format, "steward/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(out)) {
		from, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasSuffix(path, "_test.go") {
			continue
		}
		files++
		checkSafe(t, strings.TrimPrefix(from, internal), path)
	}
	if files < 100 {
		t.Errorf("only %d files were found", files)
	}
}

func checkSafe(t *testing.T, from, path string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if i.Path.Value == `"unsafe"` {
			t.Errorf("%s imports unsafe", set.Position(i.Pos()))
		}
	}
	for _, name := range lookupsOf(file) {
		if !slices.Contains(lookups[from], name) {
			t.Errorf("%s/%s calls %s, which lookups does not list", from, filepath.Base(path), name)
		}
	}
}

// lookupsOf returns the names of the calls in a file that need to be in lookups.
func lookupsOf(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch method.Sel.Name {
		case "FieldByName", "FieldByNameFunc", "NewAt", "UnsafeAddr", "UnsafePointer":
			found = append(found, method.Sel.Name)
		case "Pointer":
			if len(call.Args) == 0 {
				found = append(found, method.Sel.Name)
			}
		}
		return true
	})
	return found
}
