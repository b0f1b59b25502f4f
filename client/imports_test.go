package client_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImportsTheStandardLibraryOnly keeps the package usable by other modules.
func TestImportsTheStandardLibraryOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "steward/client").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || got[0] != "steward/client" {
		t.Errorf("the package depends on %v", got)
	}
}
