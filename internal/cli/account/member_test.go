package account

import (
	"testing"
	"time"
)

func TestStateOfAMember(t *testing.T) {
	past, future := time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339)
	for want, member := range map[string]map[string]any{
		"active":   {"pending": false, "disabled": false},
		"disabled": {"pending": false, "disabled": true},
		"pending":  {"pending": true, "expires_at": future},
		"expired":  {"pending": true, "expires_at": past},
	} {
		if got := memberState(member); got != want {
			t.Errorf("%v is %v, want %s", member, got, want)
		}
	}
}
