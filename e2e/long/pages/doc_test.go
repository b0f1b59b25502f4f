// Package pages uses the pages of the provider and of accounts with Chromium, and checks that everybody
// can read them.
package pages

import (
	"os"
	"testing"

	"steward/e2e/chromium"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }

type object = map[string]any
