package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxParams is the number of parameters with which a call can still be read, besides contexts and what every
// HTTP handler has: the response and the request.
const maxParams = 4

// longCalls has the functions with more parameters, and why.
var longCalls = map[string]string{
	"web.On": "it is the entry of a route in the route table, which is read as a table",
}

// TestParams requires that functions have few parameters: what belongs together is a struct.
func TestParams(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || paramCount(f.Type) <= maxParams {
				continue
			}
			name := folder + "." + f.Name.Name
			seen[name] = true
			if longCalls[name] == "" {
				t.Errorf("%s has %d parameters; the most is %d", name, paramCount(f.Type), maxParams)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range longCalls {
		if !seen[name] {
			t.Errorf("%s is an exception that is not needed", name)
		}
	}
}

// paramCount returns the number of parameters that are neither contexts nor a handler's.
func paramCount(f *ast.FuncType) int {
	n := 0
	for _, field := range f.Params.List {
		switch types.ExprString(field.Type) {
		case "context.Context", "http.ResponseWriter", "*http.Request":
		default:
			n += max(len(field.Names), 1)
		}
	}
	return n
}
