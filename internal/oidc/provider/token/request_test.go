package token

import (
	"maps"
	"slices"
	"testing"

	"steward/internal/oidc"
)

// TestEachGrantTypeIsServed checks that the endpoint has a function for each grant type that clients may
// have and the discovery document lists, and for no other.
func TestEachGrantTypeIsServed(t *testing.T) {
	served := slices.Sorted(maps.Keys(grantTypes))
	if known := slices.Sorted(slices.Values(oidc.GrantTypes())); !slices.Equal(served, known) {
		t.Errorf("the endpoint serves %q, clients may have %q", served, known)
	}
	for name, g := range grantTypes {
		if g.exchange == nil {
			t.Errorf("%s has no function", name)
		}
	}
}
