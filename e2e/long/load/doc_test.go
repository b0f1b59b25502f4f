// Package load has clients send more than they should, or read less, and checks that others are served
// meanwhile and that memory stays bounded.
package load

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
