package account

import (
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
)

func orgNoun() noun.Noun {
	return noun.Noun{
		Name: "org", Thing: "organization", Short: "Manage your organizations",
		Columns: []output.Column{
			output.Name("NAME", "name"), noun.Column("ROLE", "role"), noun.TimeColumn("DELETED", "deleted_at"),
			noun.TimeColumn("REMOVED", "removed_at"), output.ID("ID", "id"),
		},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List your organizations; an API key acts in one", Route: "GET /cli/organization", List: true},
			{
				Name: "get", Short: "Show an organization", Route: "GET /cli/organization/{organization}",
				Run: noun.FromList("organization"),
			},
			{
				Name: "create", Short: "Create an organization, whose owner you are", Route: "POST /cli/organization",
				Args: []noun.Field{{Name: "NAME", Path: "name"}},
				Note: "It is in the console; create an API key there to use it here.",
			},
			{
				Name: "update", Short: "Change the organization of your API key, and what its members must sign in with",
				Route: "PUT /cli/organization/{organization}", Wrap: requireMFA,
				Fields: []noun.Field{
					{Name: "name", Path: "name", Usage: "`name` of the organization"},
					{
						Name: "require-mfa", Path: "require_mfa.factor", Values: []string{"any", "passkey", "none"},
						Usage: "`factor` beside the password: any (an authenticator app or a passkey), passkey or none",
					},
					{
						Name: "require-mfa-from", Path: "require_mfa.from", Values: roles(),
						Usage: "least powerful `role` of which it is required (default: viewer, which is everybody)",
					},
				},
			},
			{
				Name: "delete", Short: "Delete the organization of your API key; it can be restored for 7 days",
				Route: "DELETE /cli/organization/{organization}", With: " with everything in it",
				Note: "It can be restored with `steward org restore` until the time in removed_at.",
			},
			{
				Name: "restore", Short: "Restore a deleted organization", Route: "POST /cli/organization/{organization}/restore",
			},
		},
	}
}

// requireMFA completes the second factor in an update's body.
func requireMFA(body map[string]any) any {
	required, sent := body["require_mfa"].(map[string]any)
	switch {
	case sent && required["factor"] == "none":
		body["require_mfa"] = nil
	case sent && required["from"] == nil:
		required["from"] = "viewer"
	}
	return body
}
