package console

import (
	"os/exec"
	"testing"
)

// TestUnits runs the unit tests of the console (console/src/**/*.test.ts).
func TestUnits(t *testing.T) {
	cmd := exec.Command("../../../tools/console-npm", "test")
	cmd.Env = append(cmd.Environ(), "NO_COLOR=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tools/console-npm test: %v\n%s", err, out)
	}
}
