// Package migration moves installations: rows to PostgreSQL, objects to a cluster, resources to other
// engines, and everything to a backup and back. Moves are disturbed, and go on.
package migration

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
