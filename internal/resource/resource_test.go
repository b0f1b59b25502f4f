package resource

import (
	"strings"
	"testing"

	"steward/internal/errs"
)

func TestNewResourcesReportAllFaults(t *testing.T) {
	n := NewResources{Resources: []NewResource{
		{Type: S3, Name: new("one")},
		{Type: S3, Name: new("one")},
		{Type: S3, Name: new("No")},
		{Type: DB},
		{Type: S3},
		{Type: KV, Name: new("pg_one")},
		{Type: KV, Name: new("one")},
	}}
	region := &Region{Region: "local", S3: true, KV: &fileEngine{}}
	err := n.checkIn(region)
	for _, want := range []string{
		"resources[1].name", "resources[2].name", "resources[3].type: expected another type: no engine for db in region local", "resources[5].name",
	} {
		if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "resources[6]") {
		t.Errorf("a store cannot have the name of a bucket: %v", err)
	}
	for _, fine := range [][]NewResource{{{Type: S3}, {Type: S3}}, {{Type: KV}, {Type: KV}}} {
		if err := (NewResources{Resources: fine}).checkIn(region); err != nil {
			t.Errorf("two resources without names: %v", err)
		}
	}
}

func TestNamesOfDatabasesAndStores(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "_": true, "_a-b_1": true, "pg": true, "pgx_1": true, "drop": true, strings.Repeat("a", 63): true,
		"": false, "1a": false, "-a": false, "A": false, "a.b": false, "a b": false, `a"b`: false, "a'b": false, "ä": false,
		"a\n": false, "a;b": false, "a\x00b": false, "pg_": false, "pg_a": false, strings.Repeat("a", 64): false,
	} {
		if validName(name) != want {
			t.Errorf("%q: valid %v, want %v", name, !want, want)
		}
	}
	for _, kind := range []Type{DB, KV} {
		if name := kind.newName(); !validName(name) || name == kind.newName() {
			t.Errorf("the generated name %s is not valid or not unique", name)
		}
	}
}

func TestDeletionNamesEachOnce(t *testing.T) {
	twice := Deletion{Resources: []Named{{Type: S3, Name: "one"}, {Type: S3, Name: "one", IfEmpty: true}}}
	if errs.KindOf(twice.check()) != errs.Invalid {
		t.Error("a bucket can be deleted twice in a request")
	}
	two := Deletion{Resources: []Named{{Type: DB, Name: "one"}, {Type: KV, Name: "one"}}}
	if err := two.check(); err != nil {
		t.Errorf("a database and a store of one name: %v", err)
	}
}

func TestRowsAreBoundedAndValidJSON(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	rows := Rows{Columns: []string{"a"}, Rows: [][]any{{long}, {long}, {"c"}}}.bounded()
	if len(rows.Rows) != 1 || !rows.Truncated {
		t.Errorf("%d rows of 5 MiB, truncated: %v", len(rows.Rows), rows.Truncated)
	}
	many := Rows{Rows: make([][]any, maxRows+1)}.bounded()
	if len(many.Rows) != maxRows || !many.Truncated || many.Columns == nil {
		t.Errorf("%d rows, truncated: %v, columns %v", len(many.Rows), many.Truncated, many.Columns)
	}
}
