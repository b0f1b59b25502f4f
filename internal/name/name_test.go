package name_test

import (
	"testing"

	"steward/internal/name"
)

func TestValid(t *testing.T) {
	for s, want := range map[string]bool{
		"Invoices":          true,
		"Zoë's Büro 2":      true,
		"請求書":               true,
		"Team 🚀":            true,
		"":                  false,
		" \t":               false,
		"a\nb":              false,
		"a\x7f":             false,
		"a\u0085b":          false,
		"\u202egnp.exe":     false, // right-to-left override
		"a\u2066b\u2069":    false, // isolates
		"Goo\u200bgle":      false, // zero width space
		"Goo\u00adgle":      false, // soft hyphen
		"\u3164":            false, // Hangul filler
		"a\u2800":           false,
		"a\u2028b":          false, // line separator
		"a\U000e0041b":      false, // tag
		"a\ue000":           false, // private use
		string([]byte{255}): false,
	} {
		if got := name.Valid(s); got != want {
			t.Errorf("Valid(%q) = %v", s, got)
		}
	}
}
