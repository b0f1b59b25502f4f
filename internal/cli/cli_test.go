package cli

import (
	"testing"

	"steward/internal/cli/noun"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{threadNoun(), sessionNoun(), evalNoun(), runNoun(), regionNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}
