package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// soups are JSON, or nearly so.
var soups = rapid.OneOf(
	rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"`, `"a"`, `"\n"`, `\`, `"\u00eF"`, `"\u00g0"`, `"\u12"`, `"\x"`, "\"\x1f\"", "\"\x7f\xff\"",
		" ", "\n", "\t", "\r",
		"\x00", "true", "false", "null", "nul", "0", "-", "1", "01", "-0.5", ".", "1.", "e", "E", "+", "1e5", "1E+05", "2e-", "\f", "x",
	})), func(parts []string) []byte { return []byte(strings.Join(parts, "")) }),
	rapid.Map(bodies, func(b []byte) []byte { return []byte(`{"a": [` + string(b) + `, {"b":{}}], "c":[] }`) }),
	bodies,
)

func TestGlanceSaysTheSameAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := soups.Draw(t, "text")
		looksTheSame(t, text)
		if json.Valid(text) && len(text) > 0 { // a change somewhere
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			looksTheSame(t, append(bytes.Clone(text[:at]), text[at+1:]...))
			text = bytes.Clone(text)
			text[at] = rapid.Byte().Draw(t, "byte")
			looksTheSame(t, text)
		}
	})
	for _, depth := range []int{maxNesting - 1, maxNesting, maxNesting + 1} {
		looksTheSame(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		looksTheSame(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
	}
}

// TestEachByteAnywhere: wherever a byte stands in a string, and whatever stands around it.
func TestEachByteAnywhere(t *testing.T) {
	for _, around := range []byte(" !#[]a\x7f\x80\xa2\xdc\xff") {
		for at := range 20 {
			text := append(append([]byte{'"'}, bytes.Repeat([]byte{around}, 20)...), '"')
			for c := range 256 {
				text[1+at] = byte(c)
				looksTheSame(t, text)
			}
		}
	}
}

func looksTheSame(t rapid.TB, text []byte) {
	t.Helper()
	g := glance{text: text}
	ok := g.isJSON()
	if ok != json.Valid(text) {
		t.Fatalf("%.200q: %v, but encoding/json does not think so", text, ok)
	}
	var compact bytes.Buffer
	if ok && (json.Compact(&compact, text) != nil || (compact.Len() != len(text)) != g.spaced) {
		t.Fatalf("%.200q: white space: %v", text, g.spaced)
	}
}
