package page_test

import (
	"encoding/json"
	"testing"

	"steward/internal/page"
)

func TestOptDistinguishesAbsentNullAndValue(t *testing.T) {
	var patch struct {
		Value, Null, Absent page.Opt[string]
	}
	if err := json.Unmarshal([]byte(`{"Value":"x","Null":null}`), &patch); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		opt  page.Opt[string]
		set  string
		ptr  *string
	}{
		{"value", patch.Value, "x", new("x")},
		{"null", patch.Null, "", nil},
		{"absent", patch.Absent, "before", new("before")},
	} {
		text := "before"
		test.opt.Set(&text)
		if text != test.set {
			t.Errorf("%s sets %q, want %q", test.name, text, test.set)
		}
		ptr := new("before")
		test.opt.SetPtr(&ptr)
		if (ptr == nil) != (test.ptr == nil) || ptr != nil && *ptr != *test.ptr {
			t.Errorf("%s sets the pointer %v, want %v", test.name, ptr, test.ptr)
		}
	}
}
