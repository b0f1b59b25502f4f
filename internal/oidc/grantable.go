package oidc

import (
	"slices"

	"steward/internal/auth"
)

// requireScopes returns Forbidden if a caller that is restricted by scopes would get or give more than it has
// with a change of a client: scopes that it does not have, or access to a client that has them. A client that
// is created has changed from one without scopes.
func requireScopes(caller *auth.Caller, before, after Client) error {
	added := slices.DeleteFunc(slices.Clone(after.Scopes), func(s string) bool { return slices.Contains(before.Scopes, s) })
	if err := caller.RequireGrantable(added, "grant it to a client"); err != nil {
		return err
	}
	if sameAccess(before, after) {
		return nil
	}
	return requireAccess(caller, before)
}

// requireAccess returns Forbidden if a client has a scope that the caller does not have, so that the caller
// may not change who gets its tokens or what they are for.
func requireAccess(caller *auth.Caller, c Client) error {
	return caller.RequireGrantable(c.Scopes, "change the secret, the keys, the type, the redirect URIs, the grant types, "+
		"the audience, the allowed clients or the project of a client that has it")
}

// sameAccess reports whether two versions of a client give the same access to its tokens: they have the same
// type, authentication, redirect URIs, grant types, audience, allowed clients and project.
func sameAccess(a, b Client) bool {
	return a.ClientType == b.ClientType && sameAuthentication(a, b) && sameSet(a.RedirectURIs, b.RedirectURIs) && sameSet(a.GrantTypes, b.GrantTypes) &&
		same(a.Audience, b.Audience) && sameSet(a.AllowedClients, b.AllowedClients) && same(a.ProjectID, b.ProjectID)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// sameAuthentication reports whether two versions of a client have the same authentication method and keys.
func sameAuthentication(a, b Client) bool {
	return a.AuthMethod == b.AuthMethod && same(a.encodeKeys(), b.encodeKeys()) && same(a.JWKSURI, b.JWKSURI)
}
