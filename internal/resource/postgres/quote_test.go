package postgres

import (
	"encoding/base64"
	"testing"
)

// TestVerifierIsThatOfTheRFC computes the example of RFC 7677, whose keys are known.
func TestVerifierIsThatOfTheRFC(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	got, err := verifier("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	const want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLiteralCannotBeEscaped(t *testing.T) {
	for text, want := range map[string]string{
		`a`: ` E'a'`, `'`: ` E''''`, `\`: ` E'\\'`, `\'`: ` E'\\'''`, "a\x00b\xff": " E'a\ufffdb\ufffd'",
	} {
		if got := literal(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
