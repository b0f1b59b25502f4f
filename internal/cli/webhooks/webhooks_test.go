package webhooks

import (
	"testing"

	"steward/internal/cli/noun"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{webhookNoun(), replayNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}
