// Package operations does what operators do with real installations: it opens data directories of earlier
// releases, fills disks, rotates secrets and certificates, and has resources on other servers.
package operations

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
