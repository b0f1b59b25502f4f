// Package e2e runs the real binary on free ports, on both databases, and uses it through real
// clients.
//
// Package installation starts the installations and has their clients, package process runs the
// binary. Waits end by success, or when nothing has moved for three minutes (package waittest).
//
// `make test` runs this package, which has the specification over HTTP and one client of each protocol.
// Tests that take longer are in packages below the folder long, which `make test-all` runs.
package e2e

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
