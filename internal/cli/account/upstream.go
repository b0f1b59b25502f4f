package account

import (
	"maps"
	"slices"

	"steward/internal/cli/noun"
	"steward/internal/cli/output"
)

func upstreamFields() []noun.Field {
	return []noun.Field{
		{Name: "issuer", Path: "issuer", Usage: "issuer `URL`, whose discovery document is read"},
		{Name: "client-id", Path: "client_id", Usage: "`id` of Steward at the provider"},
		{Name: "client-secret", Path: "client_secret", Kind: noun.Secret, Usage: "`secret` of Steward at the provider; - reads it from standard input"},
		{Name: "scope", Path: "scopes", Kind: noun.List, Usage: "`scopes` to request (default: openid, profile and email)"},
		{Name: "domain", Path: "domains", Kind: noun.List, Usage: "`domains` of e-mail addresses that lead to the provider"},
		{Name: "default-role", Path: "default_role", Usage: "`role` of users who sign in for the first time: admin, member or viewer (default: only invited members may)"},
		{Name: "groups-claim", Path: "groups_claim", Usage: "`claim` with the groups of a user"},
		{Name: "group-role", Path: "group_roles", Kind: noun.Pairs, Usage: "`group=role` of the members of a group"},
		{Name: "only", Path: "only", Kind: noun.Boolean, Usage: "whether members with an address of the domains have no password"},
		{Name: "enabled", Path: "enabled", Kind: noun.Boolean, Usage: "whether users can sign in (default: true)"},
	}
}

func upstreamNoun() noun.Noun {
	return noun.Noun{
		Name: "upstream", Thing: "sign-in provider", Short: "Manage the OpenID Connect providers that members sign in with",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("ISSUER", "issuer"), noun.Column("DEFAULT ROLE", "default_role"),
			noun.Column("ENABLED", "enabled"), output.ID("ID", "id"),
		}, noun.Wide(noun.Column("DOMAINS", "domains"), noun.Column("ONLY", "only"), noun.Column("SIGN-IN URL", "sign_in_url"))...),
		Verbs: []noun.Verb{
			{Name: "list", Short: "List sign-in providers", Route: "GET /oidc/upstream", List: true},
			{Name: "get", Short: "Show a sign-in provider", Route: "GET /oidc/upstream/{upstream}"},
			{
				Name: "create", Short: "Add a sign-in provider", Route: "POST /oidc/upstream", Wrap: groupRoles,
				Args: []noun.Field{{Name: "NAME", Path: "name"}}, Fields: upstreamFields(),
				Note: "Register the redirect_uri at the provider.",
			},
			{
				Name: "update", Short: "Change a sign-in provider", Route: "PUT /oidc/upstream/{upstream}", Wrap: groupRoles,
				Fields: append([]noun.Field{{Name: "name", Path: "name", Usage: "`name` on the sign-in page"}}, upstreamFields()...),
			},
			{
				Name: "delete", Short: "Delete a sign-in provider", Route: "DELETE /oidc/upstream/{upstream}",
				With: ", with which nobody can sign in then,",
			},
		},
	}
}

// groupRoles replaces the pairs of groups and roles in a body by the list that the API takes.
func groupRoles(body map[string]any) any {
	pairs, sent := body["group_roles"].(map[string]any)
	if !sent {
		return body
	}
	list := make([]map[string]any, 0, len(pairs))
	for _, group := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, map[string]any{"group": group, "role": pairs[group]})
	}
	body["group_roles"] = list
	return body
}
