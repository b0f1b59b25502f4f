package auth_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"steward/internal/auth"
)

func TestMayNeedsRoleProjectAndScope(t *testing.T) {
	for name, test := range map[string]struct {
		caller     auth.Caller
		permission auth.Permission
		want       bool
	}{
		"role":                           {auth.Caller{Role: auth.Member}, auth.WriteWebhooks, true},
		"other role":                     {auth.Caller{Role: auth.Viewer}, auth.WriteWebhooks, false},
		"project key in its project":     {auth.Caller{Role: auth.Member, ProjectID: "prj_1"}, auth.WriteThreads, true},
		"project key outside of it":      {auth.Caller{Role: auth.Owner, ProjectID: "prj_1"}, auth.ReadWebhooks, false},
		"token with the scope":           {auth.Caller{Role: auth.Admin, ClientID: "oac_1", Scopes: []string{"oauth:write"}}, auth.WriteClients, true},
		"token without the scope":        {auth.Caller{Role: auth.Owner, ClientID: "oac_1", Scopes: []string{"oauth:read"}}, auth.WriteClients, false},
		"token with the scope, not role": {auth.Caller{Role: auth.Member, ClientID: "oac_1", Scopes: []string{"oauth:write"}}, auth.WriteClients, false},
		"token without any scope":        {auth.Caller{Role: auth.Owner, UserID: "usr_1", ClientID: "oac_1"}, auth.Self, false},
		"key with the scope":             {auth.Caller{Role: auth.Admin, KeyID: "key_1", Scopes: []string{"oauth:write"}}, auth.WriteClients, true},
		"key without the scope":          {auth.Caller{Role: auth.Owner, KeyID: "key_1", Scopes: []string{"oauth:read"}}, auth.WriteClients, false},
		"key with an empty list":         {auth.Caller{Role: auth.Owner, KeyID: "key_1", Scopes: []string{}}, auth.ReadClients, false},
		"key with the scope, not role":   {auth.Caller{Role: auth.Viewer, KeyID: "key_1", Scopes: []string{"webhook:write"}}, auth.WriteWebhooks, false},
		"own account of a user":          {auth.Caller{Role: auth.Viewer, UserID: "usr_1"}, auth.Self, true},
		"own account of a client":        {auth.Caller{Role: auth.Member, ClientID: "oac_1", Scopes: []string{"account:read"}}, auth.Self, false},
		"organizations of a client":      {auth.Caller{Role: auth.Member, ClientID: "oac_1", Scopes: []string{"account:read"}}, auth.ReadOrgs, true},
		"regions of a project key":       {auth.Caller{Role: auth.Viewer, ProjectID: "prj_1"}, auth.ReadRegions, true},
		"resources of a project key":     {auth.Caller{Role: auth.Owner, ProjectID: "prj_1"}, auth.ReadResources, false},
	} {
		if got := test.caller.May(test.permission); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestRestrictedCallersGrantWhatTheyHold(t *testing.T) {
	for name, test := range map[string]struct {
		caller auth.Caller
		scopes []string
		want   string // a part of the error, or ""
	}{
		"unrestricted":             {auth.Caller{KeyID: "key_1"}, []string{"openid", "storage:write"}, ""},
		"scopes that it has":       {auth.Caller{Scopes: []string{"oauth:write", "member:read"}}, []string{"member:read"}, ""},
		"scopes of OpenID Connect": {auth.Caller{Scopes: []string{}}, []string{"openid", "profile", "email", "offline_access"}, ""},
		"more than it has": {
			auth.Caller{Scopes: []string{"oauth:write"}},
			[]string{"oauth:write", "storage:read"},
			"the scope storage:read is required to test",
		},
		"token without scopes": {auth.Caller{ClientID: "oac_1"}, []string{"oauth:read"}, "the scope oauth:read"},
	} {
		err := test.caller.RequireGrantable(test.scopes, "test")
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryPermissionHasAScope reads the source, so that it covers permissions that no route uses.
func TestEveryPermissionHasAScope(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "auth.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	permissions := 0
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if kind, ok := literal.Type.(*ast.Ident); !ok || kind.Name != "Permission" {
			return true
		}
		permissions++
		fields := map[string]string{}
		for _, e := range literal.Elts {
			pair := e.(*ast.KeyValueExpr)
			if value, ok := pair.Value.(*ast.BasicLit); ok {
				fields[pair.Key.(*ast.Ident).Name] = value.Value
			}
		}
		if !strings.Contains(fields["Scope"], ":") || fields["Name"] == "" {
			t.Errorf("the permission %s has no scope", fields["Name"])
		}
		return true
	})
	if permissions < 20 {
		t.Errorf("found %d permissions only", permissions)
	}
}

func TestActorIsTheUserOrElseTheClient(t *testing.T) {
	for want, c := range map[string]auth.Caller{
		"usr_1": {UserID: "usr_1", ClientID: "oac_1"},
		"oac_1": {ClientID: "oac_1"},
		"":      {},
	} {
		if got := c.Actor(); got != want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestProjectKeyManagesNothingAndSeesItsProject(t *testing.T) {
	owner := &auth.Caller{Role: auth.Owner}
	confined := &auth.Caller{Role: auth.Owner, ProjectID: "prj_1"}
	if !owner.Manages() || confined.Manages() || (&auth.Caller{Role: auth.Member}).Manages() {
		t.Error("others than owners and admins of the whole organization manage it")
	}
	if !owner.Sees("prj_2") || !confined.Sees("prj_1") || confined.Sees("prj_2") {
		t.Error("a project key sees something other than its project")
	}
}

func TestRoleNames(t *testing.T) {
	for want, p := range map[string]auth.Permission{
		"owner":                          {Roles: []auth.Role{auth.Owner}},
		"owner or admin":                 auth.WriteClients,
		"owner, admin or member":         auth.WriteWebhooks,
		"owner, admin, member or viewer": auth.Self,
	} {
		if got := p.RoleNames(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestContextCarriesTheCaller(t *testing.T) {
	caller := &auth.Caller{UserID: "usr_1"}
	ctx := auth.With(context.Background(), caller)
	if auth.From(ctx) != caller || auth.Lookup(ctx) != caller || auth.Lookup(context.Background()) != nil {
		t.Error("the context has another caller")
	}
}
