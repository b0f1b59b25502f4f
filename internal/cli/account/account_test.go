package account

import (
	"testing"

	"steward/internal/cli/noun"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{apikeyNoun(), memberNoun(), orgNoun(), projectNoun(), clientNoun(), consentNoun(), registrationNoun(), upstreamNoun(), auditNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}
