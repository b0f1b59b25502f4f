package rediskv

import "testing"

// TestDisconnectedReplicasAreUsed has the flags that sentinels report for replicas.
func TestDisconnectedReplicasAreUsed(t *testing.T) {
	for flags, want := range map[string]bool{
		"slave":                     false,
		"slave,disconnected":        false, // for a moment, after sentinels made a former master a replica
		"s_down,slave":              true,
		"s_down,slave,disconnected": true,
		"o_down,slave":              true,
	} {
		if got := isDown(flags); got != want {
			t.Errorf("%s: %v", flags, got)
		}
	}
}
