package resource

import (
	"strings"
	"testing"

	"steward/internal/errs"
)

func TestValidName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct {
		kind Type
		name string
		want bool
	}{
		{S3, "abc", true},
		{S3, "a.b-c.1", true},
		{S3, long, true},
		{S3, "127.0.0.1.nip", true},
		{S3, "ab", false},
		{S3, long + "a", false},
		{S3, "Abc", false},
		{S3, "a_b", false},
		{S3, "-abc", false},
		{S3, "abc.", false},
		{S3, "a..b", false},
		{S3, "192.168.0.1", false},
		{S3, "xn--abc", false},
		{S3, "abc-s3alias", false},
		{S3, "a/b", false},
		{S3, "abc\n", false},
		{DB, "_a-b_1", true},
		{DB, long, true},
		{DB, "", false},
		{DB, "1a", false},
		{DB, "pg_a", false},
		{DB, `a"b`, false},
		{KV, "cache", true},
		{KV, "Cache", false},
	} {
		if got := ValidName(test.kind, test.name); got != test.want {
			t.Errorf("%s %q: %v", test.kind, test.name, got)
		}
	}
}

func TestNewResourcesReportAllFaults(t *testing.T) {
	n := NewResources{Resources: []NewResource{
		{Type: S3, Name: new("one")}, {Type: S3, Name: new("one")}, {Type: S3, Name: new("No")}, {Type: DB}, {Type: S3},
	}}
	err := n.check("local")
	for _, want := range []string{"resources[1].name", "resources[2].name", "resources[3].type: no engine for db in region local"} {
		if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err := (NewResources{Resources: []NewResource{{Type: S3}, {Type: S3}}}).check("local"); err != nil {
		t.Errorf("two buckets without names: %v", err)
	}
}

func TestDeletionNamesEachOnce(t *testing.T) {
	twice := Deletion{Resources: []Named{{Type: S3, Name: "one"}, {Type: S3, Name: "one", IfEmpty: true}}}
	if errs.KindOf(twice.check("local")) != errs.Invalid {
		t.Error("a bucket can be deleted twice in a request")
	}
}
