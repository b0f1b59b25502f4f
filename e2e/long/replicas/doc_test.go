// Package replicas has several processes serve one installation, and checks that each of them knows what
// the others have done.
package replicas

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
