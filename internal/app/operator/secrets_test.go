package operator

import (
	"strings"
	"testing"

	"steward/internal/rotation"
)

// TestRotationOfNothingSaysHowToReplaceTheKey prints the result of a rotation without a new key.
func TestRotationOfNothingSaysHowToReplaceTheKey(t *testing.T) {
	for resealed, want := range map[int64]bool{0: true, 7: false} {
		var out strings.Builder
		err := printRotated(&out, rotation.Progress{KeyID: "k1", Tables: []rotation.Table{{Resealed: resealed}}})
		if err != nil || strings.Contains(out.String(), "set a new STEWARD_MASTER_KEY") != want {
			t.Errorf("%d: %v: %s", resealed, err, &out)
		}
	}
}
