package server

import (
	"regexp"
	"testing"
)

// TestEveryRouteHasAnOperationID also checks that no two routes have the same.
func TestEveryRouteHasAnOperationID(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+([A-Z][A-Za-z]*)?$`)
	routes := map[string]string{}
	for _, r := range (&Server{}).Routes() {
		if !form.MatchString(r.ID) {
			t.Errorf("%s has the operation id %q; add one to operationIDs", r.Pattern(), r.ID)
		}
		if other, taken := routes[r.ID]; taken {
			t.Errorf("%s and %s have the operation id %s", r.Pattern(), other, r.ID)
		}
		routes[r.ID] = r.Pattern()
	}
}
