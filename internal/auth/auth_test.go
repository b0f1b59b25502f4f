package auth_test

import (
	"context"
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
		"token where none is needed":     {auth.Caller{Role: auth.Viewer, ClientID: "oac_1"}, auth.Self, true},
	} {
		if got := test.caller.May(test.permission); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
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
