package resource

import (
	"strings"
	"testing"

	"steward/internal/errs"
)

func TestNewResourcesReportAllFaults(t *testing.T) {
	n := NewResources{Resources: []NewResource{
		{Type: S3, Name: new("one")}, {Type: S3, Name: new("one")}, {Type: S3, Name: new("No")}, {Type: DB}, {Type: S3},
	}}
	h := &Handler{Buckets: Buckets{ValidName: func(name string) bool { return name == "one" }, ExpectedName: "one"}}
	err := h.checkNew("local", n)
	for _, want := range []string{"resources[1].name", "resources[2].name", "resources[3].type: no engine for db in region local"} {
		if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err := h.checkNew("local", NewResources{Resources: []NewResource{{Type: S3}, {Type: S3}}}); err != nil {
		t.Errorf("two buckets without names: %v", err)
	}
}

func TestDeletionNamesEachOnce(t *testing.T) {
	twice := Deletion{Resources: []Named{{Type: S3, Name: "one"}, {Type: S3, Name: "one", IfEmpty: true}}}
	if errs.KindOf(twice.check("local")) != errs.Invalid {
		t.Error("a bucket can be deleted twice in a request")
	}
}
