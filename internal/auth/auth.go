// Package auth owns who calls and what they may do: the Caller that authentication puts into a request's context, roles, and the table of
// permissions that the route table refers to.
//
// A request's key or token becomes a Caller once, in package server; everything below asks From(ctx) and never looks at a header again.
package auth

import (
	"context"
	"slices"
)

// Role is what a user is in an organization.
type Role string

// The roles, from most to least.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Member Role = "member"
	Viewer Role = "viewer"
)

// Roles lists all roles.
var Roles = []Role{Owner, Admin, Member, Viewer}

// Caller is who makes a request, with the rights of this moment.
type Caller struct {
	UserID string
	OrgID  string
	Role   Role
	// ProjectID confines the caller to one project when it is not empty.
	ProjectID string
	// KeyID is the API key in use; empty for an access token.
	KeyID string
	// ClientID is the OAuth client whose access token is in use; empty for an API key.
	ClientID string
	// Scopes are the rights that an access token carries. An API key carries all of its user's.
	Scopes []string
}

// Permission is one line of the table of who may do what.
type Permission struct {
	// Name is what a refusal says.
	Name string
	// Roles may do it.
	Roles []Role
	// Project says whether a key that is confined to a project may do it, within that project.
	Project bool
	// Scope is what an access token needs for it; empty when any token of the user will do.
	Scope string
}

var (
	everybody = Roles
	writers   = []Role{Owner, Admin, Member}
	managers  = []Role{Owner, Admin}
)

// The permissions.
var (
	Self = Permission{Name: "see oneself", Roles: everybody, Project: true}

	OwnConsents  = Permission{Name: "manage one's own consents", Roles: everybody, Project: true}
	ReadClients  = Permission{Name: "read OAuth clients", Roles: everybody, Scope: "oauth:read"}
	WriteClients = Permission{Name: "manage OAuth clients", Roles: managers, Scope: "oauth:write"}
	ListMembers  = Permission{Name: "list members", Roles: managers, Scope: "oauth:read"}
	WriteMembers = Permission{Name: "manage members", Roles: managers, Scope: "oauth:write"}
	RotateKeys   = Permission{Name: "rotate signing keys", Roles: managers, Scope: "oauth:write"}

	ReadKeys  = Permission{Name: "read API keys", Roles: everybody, Scope: "apikey:read"}
	WriteKeys = Permission{Name: "manage API keys", Roles: writers, Scope: "apikey:write"}

	ReadProjects  = Permission{Name: "read projects", Roles: everybody, Project: true}
	WriteProjects = Permission{Name: "manage projects", Roles: writers, Scope: "resource:write"}

	ReadStorage    = Permission{Name: "read object storage", Roles: everybody, Scope: "storage:read"}
	WriteStorage   = Permission{Name: "change object storage", Roles: writers, Scope: "storage:write"}
	ReadResources  = Permission{Name: "read resources", Roles: everybody, Scope: "resource:read"}
	WriteResources = Permission{Name: "manage resources", Roles: writers, Scope: "resource:write"}

	ReadThreads  = Permission{Name: "read threads", Roles: everybody, Project: true, Scope: "thread:read"}
	WriteThreads = Permission{Name: "write threads", Roles: writers, Project: true, Scope: "thread:write"}
	ReadEvals    = Permission{Name: "read evaluations", Roles: everybody, Project: true, Scope: "eval:read"}
	WriteEvals   = Permission{Name: "write evaluations", Roles: writers, Project: true, Scope: "eval:write"}

	ReadWebhooks  = Permission{Name: "read webhooks", Roles: everybody, Scope: "webhook:read"}
	WriteWebhooks = Permission{Name: "manage webhooks", Roles: writers, Scope: "webhook:write"}

	ReadAudit = Permission{Name: "read the audit log", Roles: managers, Scope: "oauth:read"}
)

// May tells whether the caller has the permission.
func (c *Caller) May(p Permission) bool {
	if c.ProjectID != "" && !p.Project {
		return false
	}
	if c.ClientID != "" && p.Scope != "" && !slices.Contains(c.Scopes, p.Scope) {
		return false
	}
	return slices.Contains(p.Roles, c.Role)
}

// Manages tells whether the caller is an owner or an admin of the organization, and not confined to a project.
func (c *Caller) Manages() bool { return c.ProjectID == "" && slices.Contains(managers, c.Role) }

// Sees tells whether the caller may know about things of that project.
func (c *Caller) Sees(projectID string) bool { return c.ProjectID == "" || c.ProjectID == projectID }

// ContextKey is where a context keeps its *Caller.
type ContextKey struct{}

// With gives a context in which From finds the caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, ContextKey{}, c)
}

// From gives the caller of the request. It panics where there is none, since every route that asks stands behind authentication.
func From(ctx context.Context) *Caller { return ctx.Value(ContextKey{}).(*Caller) }

// Lookup gives the caller of the request, or nil where nobody has been authenticated.
func Lookup(ctx context.Context) *Caller {
	c, _ := ctx.Value(ContextKey{}).(*Caller)
	return c
}

// Callers names the cache of authenticated callers: whoever changes a key, a role or a membership bumps it in the same transaction.
const Callers = "callers"
