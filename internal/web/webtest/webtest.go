// Package webtest helps to test values that write their own JSON (encode.Appender).
package webtest

import (
	"pgregory.net/rapid"

	"steward/internal/encode"
)

// Texts have all that JSON writes in a special way.
var Texts = rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\\x00-\x1f\x7f\x{2028}\x{fffd}\x{1f600}ä]*`),
	rapid.StringMatching(`[a-z0-9_]+`), rapid.StringMatching(`[a-z{}:,"\\\n ]+`), rapid.Just(`\u003c`), rapid.Just("\xff"))

// SameJSON compares what a value writes of itself with what encoding/json writes of its fields.
func SameJSON(t *rapid.T, own encode.Appender, fields any) {
	t.Helper()
	got, err := own.AppendJSON([]byte("before "))
	if err != nil {
		t.Fatal(err)
	}
	want, err := encode.Value([]byte("before "), fields)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}
