// Package e2e runs the real binary on free ports, on both databases, and uses it through real
// clients.
//
// Package installation starts the installations and has their clients, package process runs the
// binary. The tests of the console are in the folder console. Waits end by success, or when nothing
// has moved for a minute (package waittest).
package e2e

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
