package s3

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestOperationsAreDocumented compares the table in docs/s3.md with the operations. UPDATE=1 writes it.
func TestOperationsAreDocumented(t *testing.T) {
	const path = "../../../docs/s3.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- operations -->\n")
	_, after, ok := strings.Cut(rest, "<!-- end -->")
	if !ok {
		t.Fatal("docs/s3.md has no table of operations")
	}
	want := before + "<!-- operations -->\n" + operationTable() + "<!-- end -->" + after
	if want == string(text) {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatal("the table of operations in docs/s3.md is stale; write it with UPDATE=1 go test -run TestOperationsAreDocumented ./internal/object/s3")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func operationTable() string {
	var b strings.Builder
	b.WriteString("| operation | request | headers of S3 and query names of a write |\n|---|---|---|\n")
	paths := map[level]string{serviceLevel: "/", bucketLevel: "/BUCKET", objectLevel: "/BUCKET/KEY"}
	for _, o := range operations {
		request := o.method + " " + paths[o.level]
		if o.sub != "" {
			request += "?" + o.sub
		}
		request = "`" + request + "`"
		switch {
		case o.copies:
			request += " with `x-amz-copy-source`"
		case o.form:
			request += " with a form"
		case o.public:
			request += ", *public*"
		}
		var names []string
		if o.method != http.MethodGet && o.method != http.MethodHead {
			for _, name := range append(o.query[:len(o.query):len(o.query)], o.headers...) {
				if strings.HasSuffix(name, "-") {
					name += "*"
				}
				names = append(names, "`"+name+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", o.name, request, strings.Join(names, ", "))
	}
	return b.String()
}

// TestOperationsAreDistinct checks that no two operations answer the same request, and that each has a handler.
func TestOperationsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range operations {
		request := fmt.Sprint(o.method, o.level, o.sub, o.copies, o.form)
		if seen[request] || seen[o.name] || o.name == "" || (o.handle == nil) != o.form {
			t.Errorf("%s: its request or name is that of another operation, or nothing handles it", o.name)
		}
		seen[request] = true
		seen[o.name] = true
	}
}
