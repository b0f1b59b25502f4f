package storage

import (
	"testing"

	"steward/internal/cli/noun"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{bucketNoun(), resourceNoun(), databaseNoun(), storeNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}
