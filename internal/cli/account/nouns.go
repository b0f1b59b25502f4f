package account

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// sendLink is printed after a link.
const sendLink = "Send the link to the member; it can be used once."

// keepSecret is printed after a secret.
const keepSecret = "Store it now: it is not shown again."

func apikeyNoun() noun.Noun {
	return noun.Noun{
		Name: "apikey", Aliases: []string{"key"}, Thing: "API key", Short: "Manage API keys",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("TYPE", "type"), noun.Column("PROJECT", "project.name"),
			noun.TimeColumn("LAST USED", "lastUsedAt"), noun.TimeColumn("EXPIRES", "expiresAt"), output.ID("ID", "id"),
		}, noun.Wide(noun.Column("SCOPES", "scopes"), noun.TimeColumn("CREATED", "createdAt"))...),
		Verbs: []noun.Verb{
			{
				Name: "list", Short: "List API keys", Route: "GET /cli/apikey", List: true,
				Fields: []noun.Field{{Name: "project", Path: "projectId", Noun: "project", Usage: "only keys of this `project`"}},
			},
			{Name: "get", Short: "Show an API key, without its value", Route: "GET /cli/apikey/{apikey}"},
			{
				Name: "create", Short: "Create an API key and print its value", Route: "POST /cli/apikey", Note: keepSecret,
				Args: []noun.Field{{Name: "NAME", Path: "name"}},
				Fields: []noun.Field{
					{Name: "project", Path: "projectId", Noun: "project", Usage: "confine the key to this `project`"},
					{Name: "expires", Path: "expiresAt", Kind: noun.Future, Usage: "`time`, or duration from now such as 30d, when the key expires (default: never)"},
					{Name: "scope", Path: "scopes", Kind: noun.List, Usage: "`scopes` of the key (default: all that your role allows)"},
				},
			},
			{Name: "delete", Short: "Delete an API key", Route: "DELETE /cli/apikey/{apikey}", With: ", which programs may use,"},
		},
	}
}

func roles() []string { return []string{"owner", "admin", "member", "viewer"} }

func memberNoun() noun.Noun {
	names := []noun.Field{
		{Name: "first-name", Path: "first_name", Usage: "first `name`"},
		{Name: "last-name", Path: "last_name", Usage: "last `name`"},
	}
	return noun.Noun{
		Name: "member", Thing: "member", Short: "Manage the members of the organization",
		Columns: append([]output.Column{
			output.Name("EMAIL", "email"),
			{Title: "NAME", Value: fullName},
			noun.Column("ROLE", "role"),
			{Title: "STATE", Value: memberState, Kind: output.Status},
			noun.TimeColumn("LAST SEEN", "last_seen_at"), output.ID("ID", "id"),
		}, noun.Wide(noun.TimeColumn("JOINED", "joined_at"), noun.TimeColumn("INVITATION EXPIRES", "expires_at"))...),
		Verbs: []noun.Verb{
			{Name: "list", Short: "List members", Route: "GET /oidc/org/members", List: true},
			{Name: "get", Short: "Show a member", Route: "GET /oidc/org/members/{member}", Run: noun.FromList("member")},
			{
				Name: "create", Aliases: []string{"invite"}, Short: "Invite a member and print the invitation link",
				Route: "POST /oidc/org/members", Args: []noun.Field{{Name: "EMAIL", Path: "email"}},
				Note: sendLink,
				Fields: append([]noun.Field{
					{Name: "role", Path: "role", Values: roles(), Usage: "`role`: owner, admin, member or viewer"},
				}, names...),
			},
			{
				Name: "update", Short: "Change a member", Route: "PUT /oidc/org/members/{member}",
				Fields: append([]noun.Field{
					{Name: "role", Path: "role", Values: roles(), Usage: "`role`: owner, admin, member or viewer"},
					{Name: "disabled", Path: "disabled", Kind: noun.Boolean, Usage: "whether the member has no access"},
				}, names...),
			},
			{
				Name: "reinvite", Aliases: []string{"renew"}, Short: "Print a new invitation link for a member who has not joined yet",
				Route: "POST /oidc/org/members/{member}/invite", Note: sendLink + " Earlier links are void.",
			},
			{
				Name: "revoke", Short: "Revoke the invitation of a member who has not joined yet",
				Route: "DELETE /oidc/org/members/{member}", Run: revokeInvitation,
			},
			{
				Name: "reset-password", Short: "Print a link with which a member sets a new password",
				Route: "POST /oidc/org/members/{member}/reset-password", Note: sendLink,
			},
			{
				Name: "delete", Short: "Remove a member, or revoke an invitation", Route: "DELETE /oidc/org/members/{member}",
				With: " with the member's API keys, tokens and consents",
			},
		},
	}
}

func projectNoun() noun.Noun {
	return noun.Noun{
		Name: "project", Thing: "project", Short: "Manage projects",
		Columns: []output.Column{output.Name("NAME", "name"), output.ID("ID", "id")},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List projects", Route: "GET /cli/project", List: true},
			{Name: "get", Short: "Show a project", Route: "GET /cli/project/{project}", Run: noun.FromList("project")},
			{Name: "create", Short: "Create a project", Route: "POST /cli/project", Args: []noun.Field{{Name: "NAME", Path: "name"}}},
			{
				Name: "delete", Short: "Delete a project and everything in it", Route: "DELETE /cli/project/{project}",
				With: " with its API keys, threads, sessions and evaluations",
			},
		},
	}
}

func clientFields() []noun.Field {
	return []noun.Field{
		{Name: "description", Path: "description", Usage: "`text` for the consent page"},
		{Name: "homepage", Path: "homepage_url", Usage: "`URL` of the application; a new client needs one"},
		{Name: "icon", Path: "icon", Usage: "`URL` of an icon"},
		{Name: "type", Path: "client_type", Values: []string{"confidential", "public"}, Usage: "`type`: confidential or public"},
		{Name: "auth-method", Path: "token_endpoint_auth_method", Values: []string{"client_secret_basic", "client_secret_post", "private_key_jwt", "none"}, Usage: "`method` of authentication: client_secret_basic, client_secret_post, private_key_jwt or none"},
		{Name: "jwks", Path: "jwks", Kind: noun.Object, Usage: "`JSON` Web Key Set with the public keys for private_key_jwt"},
		{Name: "jwks-uri", Path: "jwks_uri", Usage: "`URI` of the public keys for private_key_jwt"},
		{Name: "redirect-uri", Path: "redirect_uris", Kind: noun.List, Usage: "`URI` for authorization responses"},
		{Name: "logout-uri", Path: "post_logout_redirect_uris", Kind: noun.List, Usage: "`URI` after sign-out"},
		{Name: "backchannel-logout-uri", Path: "backchannel_logout_uri", Usage: "`URI` that gets a logout token when a session ends"},
		{Name: "frontchannel-logout-uri", Path: "frontchannel_logout_uri", Usage: "`URI` that the browser loads at a sign-out"},
		{Name: "grant", Path: "grant_types", Kind: noun.List, Usage: "grant `types`"},
		{Name: "scope", Path: "scopes", Kind: noun.List, Usage: "`scopes` that the client may request"},
		{Name: "project", Path: "project_id", Noun: "project", Usage: "`project` of the client"},
		{Name: "audience", Path: "audience", Usage: "`URI` of the API that the client serves"},
		{Name: "allow-client", Path: "allowed_clients", Kind: noun.List, Usage: "`ids` of clients of other organizations that may get tokens for the audience without a user's consent"},
		{Name: "allow-user", Path: "allowed_user_ids", Kind: noun.List, Noun: "member", Usage: "`ids` or e-mail addresses of the users who may use the client (default: all)"},
		{Name: "public", Path: "is_public", Kind: noun.Boolean, Usage: "whether users outside the organization may use it"},
		{Name: "access-lifetime", Path: "access_token_lifetime_seconds", Kind: noun.Seconds, Usage: "`duration` of access tokens"},
		{Name: "id-lifetime", Path: "id_token_lifetime_seconds", Kind: noun.Seconds, Usage: "`duration` of ID tokens"},
		{Name: "refresh-lifetime", Path: "refresh_token_lifetime_seconds", Kind: noun.Seconds, Usage: "`duration` of refresh tokens"},
	}
}

func clientNoun() noun.Noun {
	return noun.Noun{
		Name: "client", Thing: "OAuth client", Short: "Manage OAuth clients",
		Columns: append([]output.Column{
			output.Name("NAME", "name"), noun.Column("TYPE", "client_type"), noun.CountColumn("USERS", "user_count"),
			noun.TimeColumn("LAST ACTIVITY", "last_activity"), noun.TimeColumn("CREATED", "created_at"), output.ID("ID", "id"),
		}, noun.Wide(noun.Column("GRANTS", "grant_types"), noun.Column("SCOPES", "scopes"), noun.Column("REDIRECT URIS", "redirect_uris"))...),
		Verbs: []noun.Verb{
			{Name: "list", Short: "List OAuth clients, newest first", Route: "GET /oidc/clients", List: true},
			{Name: "get", Short: "Show an OAuth client", Route: "GET /oidc/clients/{client}"},
			{
				Name: "create", Short: "Create an OAuth client and print its secret", Route: "POST /oidc/clients",
				Args: []noun.Field{{Name: "NAME", Path: "name"}}, Fields: clientFields(), Note: "Store the client_secret now: it is not shown again.",
				Fixed: map[string]any{"description": ""},
			},
			{
				Name: "update", Short: "Change an OAuth client", Route: "PUT /oidc/clients/{client}",
				Fields: append([]noun.Field{{Name: "name", Path: "name", Usage: "new `name`"}}, clientFields()...),
			},
			{
				Name: "delete", Short: "Delete an OAuth client", Route: "DELETE /oidc/clients/{client}",
				With: " with its tokens and consents, which signs its users out,",
			},
			{
				Name: "rotate-secret", Short: "Replace the secret of an OAuth client", Route: "POST /oidc/clients/{client}/rotate-secret",
				Ask: "Replacing the secret of", With: ", with which it signs users in,",
				Note: "The old secret is refused from now on. " + keepSecret,
			},
			{
				Name: "users", Short: "List the users of an OAuth client", Route: "GET /oidc/clients/{client}/users", List: true,
				Columns: []output.Column{
					output.Handle("USER", "user_id"), noun.Column("SCOPES", "scopes"), noun.TimeColumn("CREATED", "created_at"), noun.TimeColumn("UPDATED", "updated_at"),
				},
			},
			{
				Name: "revoke", Short: "Revoke the access of a user to an OAuth client",
				Route: "DELETE /oidc/clients/{client}/users/{user}", With: "'s consent, which signs the user out there,",
			},
			{
				Name: "activity", Short: "List the daily activity of an OAuth client", Route: "GET /oidc/clients/{client}/activity", List: true,
				Fields: []noun.Field{{Name: "days", Path: "days", Kind: noun.Number, Usage: "`number` of days"}},
				Columns: []output.Column{
					noun.Column("DAY", "activity_date"), noun.CountColumn("ACCESSES", "total_access"), noun.CountColumn("USERS", "unique_users"),
				},
			},
		},
	}
}

func consentNoun() noun.Noun {
	return noun.Noun{
		Name: "consent", Thing: "consent to", Short: "Manage the applications that you have allowed to act for you",
		Columns: []output.Column{
			output.Name("NAME", "client_name"), noun.Column("SCOPES", "scopes"), noun.TimeColumn("SINCE", "created_at"),
			output.ID("CLIENT", "client_id"),
		},
		Verbs: []noun.Verb{
			{Name: "list", Short: "List your consents", Route: "GET /oidc/user/consent", List: true},
			{Name: "get", Short: "Show a consent", Route: "GET /oidc/user/consent/{consent}", Run: noun.FromList("consent")},
			{
				Name: "delete", Aliases: []string{"revoke"}, Short: "Revoke a consent", Route: "DELETE /oidc/user/consent/{consent}",
				With: ", which signs you out there,",
			},
		},
	}
}

func auditNoun() noun.Noun {
	return noun.Noun{
		Name: "audit", Thing: "audit log", Short: "Show who did what",
		Columns: append([]output.Column{
			noun.TimeColumn("WHEN", "at"), noun.Column("ACTION", "action"), output.Handle("TARGET", "target"), output.ID("USER", "user_id"),
			noun.Column("FROM", "remote_addr"),
		}, noun.Wide(noun.Column("KEY", "key_id"), noun.Column("CLIENT", "client_id"), noun.Column("REQUEST", "request_id"))...),
		Verbs: []noun.Verb{{
			Name: "list", Short: "List the audit log, newest first", Route: "GET /audit", List: true,
			Fields: []noun.Field{
				{Name: "action", Path: "action", Usage: "only this `action`, such as apikey.create; apikey. for all on API keys"},
				{Name: "actor", Path: "actor", Usage: "only by the user, API key or OAuth app with this `id`"},
				{Name: "target", Path: "target", Usage: "only what was done to the thing with this `id`"},
				{Name: "since", Path: "start", Kind: noun.Past, Usage: "only from this `time`, or duration before now such as 1h, on"},
				{Name: "until", Path: "end", Kind: noun.Past, Usage: "only before this `time`, or duration before now"},
			},
		}},
	}
}

func fullName(member map[string]any) any {
	first, _ := member["first_name"].(string)
	last, _ := member["last_name"].(string)
	return strings.TrimSpace(first + " " + last)
}

// memberState tells whether a member has joined and has access.
func memberState(member map[string]any) any {
	switch {
	case member["pending"] == true && isPast(member["expires_at"]):
		return "expired"
	case member["pending"] == true:
		return "pending"
	case member["disabled"] == true:
		return "disabled"
	}
	return "active"
}

func isPast(value any) bool {
	text, _ := value.(string)
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && at.Before(time.Now())
}

// invitationPrefix begins the ids of members who have not joined yet.
const invitationPrefix = "inv_"

// revokeInvitation deletes an invitation. It refuses a member who has joined, who would lose API
// keys and consents.
func revokeInvitation(ctx context.Context, s *session.Session, in noun.Input) error {
	id, label := in.Path["member"], in.Labels["member"]
	if !strings.HasPrefix(id, invitationPrefix) {
		return &exit.Error{
			Code: exit.Conflict, Message: label + " is not invited: the member has joined already",
			Advice: fmt.Sprintf("Remove the member with `steward member delete %s`.", label),
		}
	}
	if err := s.Confirm(ctx, "Revoking the invitation of "+label); err != nil {
		return err
	}
	_, err := s.API.Send(ctx, session.Request{Method: http.MethodDelete, Path: in.Expand("/oidc/org/members/{member}")})
	if err != nil {
		return err
	}
	return s.Printer.Text("Revoked the invitation of %s. Its link is void.", label)
}

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
