package cli

import "steward/internal/cli/output"

// keepSecret is said after a secret was printed.
const keepSecret = "Store it now: it is not shown again."

func apikeyNoun() noun {
	return noun{
		name: "apikey", aliases: []string{"key"}, thing: "API key", group: groupAccount, short: "Manage API keys",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("NAME", "name"), column("TYPE", "type"), column("PROJECT", "project.name"),
			timeColumn("LAST USED", "lastUsedAt"), timeColumn("EXPIRES", "expiresAt"),
		}, wide(column("SCOPES", "scopes"), timeColumn("CREATED", "createdAt"))...),
		verbs: []verb{
			{
				name: "list", short: "List API keys", route: "GET /cli/apikey", list: true,
				fields: []field{{name: "project", path: "projectId", noun: "project", usage: "only keys of this `project`"}},
			},
			{name: "get", short: "Show an API key, without its value", route: "GET /cli/apikey/{apikey}"},
			{
				name: "create", short: "Create an API key and print its value", route: "POST /cli/apikey", note: keepSecret,
				args: []field{{name: "NAME", path: "name"}},
				fields: []field{
					{name: "project", path: "projectId", noun: "project", usage: "confine the key to this `project`"},
					{name: "expires", path: "expiresAt", kind: future, usage: "`time`, or duration from now such as 30d, when the key expires (default: never)"},
					{name: "scope", path: "scopes", kind: list, usage: "`scopes` of the key (default: all that your role allows)"},
				},
			},
			{name: "delete", short: "Delete an API key", route: "DELETE /cli/apikey/{apikey}", with: ", which programs may use,"},
		},
	}
}

func roles() []string { return []string{"owner", "admin", "member", "viewer"} }

func memberNoun() noun {
	names := []field{
		{name: "first-name", path: "first_name", usage: "first `name`"},
		{name: "last-name", path: "last_name", usage: "last `name`"},
	}
	return noun{
		name: "member", thing: "member", group: groupAccount, short: "Manage the members of the organization",
		columns: []output.Column{
			output.ID("ID", "id"), column("EMAIL", "email"), column("ROLE", "role"), column("FIRST NAME", "first_name"),
			column("LAST NAME", "last_name"), column("DISABLED", "disabled"),
		},
		verbs: []verb{
			{name: "list", short: "List members", route: "GET /oidc/org/members", list: true},
			{name: "get", short: "Show a member", route: "GET /oidc/org/members/{member}", run: fromList("member")},
			{
				name: "create", aliases: []string{"invite"}, short: "Invite a member and print the invitation link",
				route: "POST /oidc/org/members", args: []field{{name: "EMAIL", path: "email"}},
				note: "Send the link to the member; it can be used once.",
				fields: append([]field{
					{name: "role", path: "role", values: roles(), usage: "`role`: owner, admin, member or viewer"},
				}, names...),
			},
			{
				name: "update", short: "Change a member", route: "PUT /oidc/org/members/{member}",
				fields: append([]field{
					{name: "role", path: "role", values: roles(), usage: "`role`: owner, admin, member or viewer"},
					{name: "disabled", path: "disabled", kind: boolean, usage: "whether the member has no access"},
				}, names...),
			},
			{
				name: "reinvite", short: "Print a new invitation link for a member without a password",
				route: "POST /oidc/org/members/{member}/invite", note: "Send the link to the member; it can be used once.",
			},
			{
				name: "reset-password", short: "Print a link with which a member sets a new password",
				route: "POST /oidc/org/members/{member}/reset-password", note: "Send the link to the member; it can be used once.",
			},
			{
				name: "delete", short: "Remove a member", route: "DELETE /oidc/org/members/{member}",
				with: " with the member's API keys, tokens and consents",
			},
		},
	}
}

func projectNoun() noun {
	return noun{
		name: "project", thing: "project", group: groupAccount, short: "Manage projects",
		columns: []output.Column{output.ID("ID", "id"), column("NAME", "name")},
		verbs: []verb{
			{name: "list", short: "List projects", route: "GET /cli/project", list: true},
			{name: "get", short: "Show a project", route: "GET /cli/project/{project}", run: fromList("project")},
			{name: "create", short: "Create a project", route: "POST /cli/project", args: []field{{name: "NAME", path: "name"}}},
			{
				name: "delete", short: "Delete a project and everything in it", route: "DELETE /cli/project/{project}",
				with: " with its API keys, threads, sessions and evaluations",
			},
		},
	}
}

func clientFields() []field {
	return []field{
		{name: "description", path: "description", usage: "`text` for the consent page"},
		{name: "homepage", path: "homepage_url", usage: "`URL` of the application; a new client needs one"},
		{name: "icon", path: "icon", usage: "`URL` of an icon"},
		{name: "type", path: "client_type", values: []string{"confidential", "public"}, usage: "`type`: confidential or public"},
		{name: "redirect-uri", path: "redirect_uris", kind: list, usage: "`URI` for authorization responses"},
		{name: "logout-uri", path: "post_logout_redirect_uris", kind: list, usage: "`URI` after sign-out"},
		{name: "grant", path: "grant_types", kind: list, usage: "grant `types`"},
		{name: "scope", path: "scopes", kind: list, usage: "`scopes` that the client may request"},
		{name: "project", path: "project_id", noun: "project", usage: "`project` of the client"},
		{name: "audience", path: "audience", usage: "`URI` of the API that the client serves"},
		{name: "allow-user", path: "allowed_user_ids", kind: list, usage: "`ids` of the users who may use the client (default: all)"},
		{name: "public", path: "is_public", kind: boolean, usage: "whether users outside the organization may use it"},
		{name: "access-lifetime", path: "access_token_lifetime_seconds", kind: seconds, usage: "`duration` of access tokens"},
		{name: "id-lifetime", path: "id_token_lifetime_seconds", kind: seconds, usage: "`duration` of ID tokens"},
		{name: "refresh-lifetime", path: "refresh_token_lifetime_seconds", kind: seconds, usage: "`duration` of refresh tokens"},
	}
}

func clientNoun() noun {
	return noun{
		name: "client", thing: "OAuth client", group: groupAccount, short: "Manage OAuth clients",
		columns: append([]output.Column{
			output.ID("ID", "id"), column("NAME", "name"), column("TYPE", "client_type"), column("USERS", "user_count"),
			timeColumn("LAST ACTIVITY", "last_activity"), timeColumn("CREATED", "created_at"),
		}, wide(column("GRANTS", "grant_types"), column("SCOPES", "scopes"), column("REDIRECT URIS", "redirect_uris"))...),
		verbs: []verb{
			{name: "list", short: "List OAuth clients, newest first", route: "GET /oidc/clients", list: true},
			{name: "get", short: "Show an OAuth client", route: "GET /oidc/clients/{client}"},
			{
				name: "create", short: "Create an OAuth client and print its secret", route: "POST /oidc/clients",
				args: []field{{name: "NAME", path: "name"}}, fields: clientFields(), note: "Store the client_secret now: it is not shown again.",
				fixed: map[string]any{"description": ""},
			},
			{
				name: "update", short: "Change an OAuth client", route: "PUT /oidc/clients/{client}",
				fields: append([]field{{name: "name", path: "name", usage: "new `name`"}}, clientFields()...),
			},
			{
				name: "delete", short: "Delete an OAuth client", route: "DELETE /oidc/clients/{client}",
				with: " with its tokens and consents, which signs its users out,",
			},
			{
				name: "rotate-secret", short: "Replace the secret of an OAuth client", route: "POST /oidc/clients/{client}/rotate-secret",
				note: "The old secret is refused from now on. " + keepSecret,
			},
			{
				name: "users", short: "List the users of an OAuth client", route: "GET /oidc/clients/{client}/users", list: true,
				columns: []output.Column{
					output.ID("USER", "user_id"), column("SCOPES", "scopes"), timeColumn("CREATED", "created_at"), timeColumn("UPDATED", "updated_at"),
				},
			},
			{
				name: "revoke", short: "Revoke the access of a user to an OAuth client",
				route: "DELETE /oidc/clients/{client}/users/{user}", with: "'s consent, which signs the user out there,",
			},
			{
				name: "activity", short: "List the daily activity of an OAuth client", route: "GET /oidc/clients/{client}/activity", list: true,
				fields: []field{{name: "days", path: "days", kind: number, usage: "`number` of days"}},
				columns: []output.Column{
					column("DAY", "activity_date"), column("ACCESSES", "total_access"), column("USERS", "unique_users"),
				},
			},
		},
	}
}

func consentNoun() noun {
	return noun{
		name: "consent", thing: "consent to", group: groupAccount, short: "Manage the applications that you have allowed to act for you",
		columns: []output.Column{
			output.ID("CLIENT", "client_id"), column("NAME", "client_name"), column("SCOPES", "scopes"),
			timeColumn("SINCE", "created_at"),
		},
		verbs: []verb{
			{name: "list", short: "List your consents", route: "GET /oidc/user/consent", list: true},
			{name: "get", short: "Show a consent", route: "GET /oidc/user/consent/{consent}", run: fromList("consent")},
			{
				name: "delete", aliases: []string{"revoke"}, short: "Revoke a consent", route: "DELETE /oidc/user/consent/{consent}",
				with: ", which signs you out there,",
			},
		},
	}
}
