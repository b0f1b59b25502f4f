package account

import (
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
)

func registrationNoun() noun.Noun {
	return noun.Noun{
		Name: "registration-token", Thing: "registration token", Short: "Manage tokens with which OAuth clients register themselves",
		Columns: []output.Column{
			output.Name("NAME", "name"), noun.Column("USED", "used"), noun.Column("USES", "uses"),
			noun.TimeColumn("EXPIRES", "expires_at"), noun.TimeColumn("CREATED", "created_at"), output.ID("ID", "id"),
		},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List registration tokens", Route: "GET /oidc/registration-token", List: true},
			{
				Name: "create", Short: "Create a registration token and print it", Route: "POST /oidc/registration-token",
				Note: keepSecret, Args: []noun.Field{{Name: "NAME", Path: "name"}},
				Fields: []noun.Field{
					{Name: "expires-in", Path: "expires_in", Kind: noun.Seconds, Usage: "`duration` after which it expires, such as 30d (default: never)"},
					{Name: "uses", Path: "uses", Kind: noun.Number, Usage: "`number` of clients that can be registered with it (default: no limit)"},
				},
			},
			{
				Name: "delete", Short: "Delete a registration token; clients that were registered with it stay",
				Route: "DELETE /oidc/registration-token/{registration}",
			},
		},
	}
}
