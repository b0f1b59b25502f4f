// Package webtest provides helpers for testing implementations of encode.Appender.
package webtest

import (
	"pgregory.net/rapid"

	"steward/internal/encode"
)

// Texts generates strings with all kinds of characters that JSON escapes.
var Texts = rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\\x00-\x1f\x7f\x{2028}\x{fffd}\x{1f600}ä]*`),
	rapid.StringMatching(`[a-z0-9_]+`), rapid.StringMatching(`[a-z{}:,"\\\n ]+`), rapid.Just(`\u003c`), rapid.Just("\xff"))

// SameJSON fails the test unless value appends the same JSON that encoding/json produces for fields.
func SameJSON(t *rapid.T, value encode.Appender, fields any) {
	t.Helper()
	got, err := value.AppendJSON([]byte("before "))
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
