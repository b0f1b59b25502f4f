package oidc

import (
	"slices"

	"steward/internal/auth"
)

// requireScopes stops a caller restricted by scopes from getting or giving more than it has. It returns
// Forbidden if the change to a client adds scopes that the caller lacks, or gives access to a client
// that has such scopes. Creating a client counts as changing one without scopes.
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

// requireAccess returns Forbidden if a client has a scope that the caller lacks: the caller may then
// not change who gets the client's tokens or where they are valid.
func requireAccess(caller *auth.Caller, c Client) error {
	return caller.RequireGrantable(c.Scopes, "change the secret, the keys, the type, the redirect URIs, the grant types, "+
		"the audience, the allowed clients or the project of a client that has it")
}

// sameAccess reports whether two versions of a client give the same access to its tokens: type,
// authentication, redirect URIs, grant types, audience, allowed clients and project are equal.
func sameAccess(a, b Client) bool {
	return a.ClientType == b.ClientType && sameAuthentication(a, b) && sameSet(a.RedirectURIs, b.RedirectURIs) && sameSet(a.GrantTypes, b.GrantTypes) &&
		same(a.Audience, b.Audience) && sameSet(a.AllowedClients, b.AllowedClients) && same(a.ProjectID, b.ProjectID)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// sameAuthentication reports whether two client versions have the same authentication method and keys.
func sameAuthentication(a, b Client) bool {
	return a.AuthMethod == b.AuthMethod && same(a.encodeKeys(), b.encodeKeys()) && same(a.JWKSURI, b.JWKSURI)
}
