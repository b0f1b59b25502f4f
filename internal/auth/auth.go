// Package auth owns callers and their rights: each request's Caller, roles, and the permissions that the
// route table names.
//
// Package server turns a request's API key or access token into a Caller once, and puts it into the
// context. All other code calls From and never reads a header.
package auth

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Role is a user's role in an organization.
type Role string

// The roles, from most to least powerful.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Member Role = "member"
	Viewer Role = "viewer"
)

// Roles lists all roles, the one with the most rights first.
var Roles = []Role{Owner, Admin, Member, Viewer}

// Caller is the one who makes a request, with their current rights.
type Caller struct {
	// UserID is the user whose role the caller has. It is empty for an OAuth client that acts as itself.
	UserID string
	OrgID  string
	Role   Role
	// ProjectID, if not empty, confines the caller to one project.
	ProjectID string
	// KeyID is the request's API key; empty for an access token.
	KeyID string
	// KeyExpires is the API key's expiry; nil for never, and for an access token.
	KeyExpires *stamp.Time
	// ClientID is the OAuth client whose access token the caller uses, or whose access token created the
	// API key. It is empty for other API keys.
	ClientID string
	// Scopes belong to the access token or API key. An API key without scopes (nil) has all its user's
	// rights.
	Scopes []string
	// Stale reports whether the caller is a browser whose user signed in too long ago for routes that ask
	// for a recent sign-in. It is false for API keys and access tokens.
	Stale bool
	// Confined reports whether the caller is a browser whose user has signed in with the organization's
	// provider. Such a caller can see and do nothing in other organizations.
	Confined bool
}

// OnlyOrg returns the caller's organization if the caller is confined to it, else "".
func (c *Caller) OnlyOrg() string {
	if c.Confined {
		return c.OrgID
	}
	return ""
}

// RequireRecent returns Reauthentication for a browser whose user signed in too long ago.
func (c *Caller) RequireRecent() error {
	if c.Stale {
		return errs.New(errs.Reauthentication, "this needs a sign-in of the last ten minutes: sign in again")
	}
	return nil
}

// Actor returns the id of whoever is responsible for the caller's actions: the user, or the OAuth client
// that acts as itself.
func (c *Caller) Actor() string { return cmp.Or(c.UserID, c.ClientID) }

// Restricted reports whether the caller's rights are limited to its scopes. Callers that act for an OAuth
// client always are.
func (c *Caller) Restricted() bool { return c.Scopes != nil || c.ClientID != "" }

// Permission says who may use a route.
type Permission struct {
	// Name completes the sentence "the role admin is required to …".
	Name string
	// Roles are the roles that have the permission.
	Roles []Role
	// Project reports whether a caller that is confined to a project has the permission, within that project.
	Project bool
	// User reports whether the permission concerns the caller's own account. An OAuth client that acts as
	// itself has none.
	User bool
	// Scope is the scope that access tokens need, and API keys with scopes. Every permission has one.
	Scope string
	// Deleted reports whether members of a deleted organization have the permission too.
	Deleted bool
	// Installation reports whether the permission concerns all organizations. Only the first organization
	// has it.
	Installation bool
}

// RoleNames lists the roles that have the permission, as in "owner, admin or member".
func (p Permission) RoleNames() string {
	var names []string
	for _, role := range p.Roles {
		names = append(names, string(role))
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

var (
	everybody = Roles
	writers   = []Role{Owner, Admin, Member}
	managers  = []Role{Owner, Admin}
	owners    = []Role{Owner}
)

// The permissions.
var (
	Self         = Permission{Name: "read one's own account", Roles: everybody, Project: true, User: true, Scope: "account:read"}
	ReadOrgs     = Permission{Name: "read organizations", Roles: everybody, Project: true, Scope: "account:read", Deleted: true}
	ReadProjects = Permission{Name: "read projects", Roles: everybody, Project: true, Scope: "account:read"}

	CreateOrgs  = Permission{Name: "create organizations", Roles: everybody, User: true, Scope: "account:write"}
	DeleteOrgs  = Permission{Name: "delete the organization", Roles: owners, Scope: "member:write"}
	RestoreOrgs = Permission{Name: "restore the organization", Roles: owners, Scope: "member:write", Deleted: true}

	ReadConsents  = Permission{Name: "read one's own consents", Roles: everybody, Project: true, User: true, Scope: "account:read"}
	WriteConsents = Permission{Name: "revoke one's own consents", Roles: everybody, Project: true, User: true, Scope: "account:write"}

	ReadClients  = Permission{Name: "read OAuth clients", Roles: everybody, Scope: "oauth:read"}
	WriteClients = Permission{Name: "manage OAuth clients", Roles: managers, Scope: "oauth:write"}
	ListMembers  = Permission{Name: "list members", Roles: managers, Scope: "member:read"}
	WriteMembers = Permission{Name: "manage members", Roles: managers, Scope: "member:write"}
	ClearFactors = Permission{Name: "remove second factors of members", Roles: owners, Scope: "member:write"}
	WriteOrg     = Permission{Name: "change the organization", Roles: owners, Scope: "member:write"}
	ReadSigning  = Permission{Name: "read signing keys", Roles: managers, Scope: "oauth:read", Installation: true}
	RotateKeys   = Permission{Name: "rotate signing keys", Roles: managers, Scope: "oauth:write", Installation: true}

	ReadUpstreams  = Permission{Name: "read sign-in providers", Roles: managers, Scope: "oauth:read"}
	WriteUpstreams = Permission{Name: "manage sign-in providers", Roles: managers, Scope: "oauth:write"}

	ReadRegistrations  = Permission{Name: "read registration tokens", Roles: managers, Scope: "oauth:read"}
	WriteRegistrations = Permission{Name: "manage registration tokens", Roles: managers, Scope: "oauth:write"}

	ReadKeys  = Permission{Name: "read API keys", Roles: everybody, User: true, Scope: "apikey:read"}
	WriteKeys = Permission{Name: "manage API keys", Roles: writers, User: true, Scope: "apikey:write"}

	WriteProjects  = Permission{Name: "manage projects", Roles: writers, Scope: "resource:write"}
	ReadRegions    = Permission{Name: "read regions", Roles: everybody, Project: true, Scope: "resource:read"}
	ReadResources  = Permission{Name: "read resources", Roles: everybody, Scope: "resource:read"}
	WriteResources = Permission{Name: "manage resources", Roles: writers, Scope: "resource:write"}

	ReadObjects  = Permission{Name: "read objects", Roles: everybody, Scope: "storage:read"}
	WriteObjects = Permission{Name: "write objects", Roles: writers, Scope: "storage:write"}

	ReadThreads  = Permission{Name: "read threads", Roles: everybody, Project: true, Scope: "thread:read"}
	WriteThreads = Permission{Name: "write threads", Roles: writers, Project: true, Scope: "thread:write"}
	ReadEvals    = Permission{Name: "read evaluations", Roles: everybody, Project: true, Scope: "eval:read"}
	WriteEvals   = Permission{Name: "write evaluations", Roles: writers, Project: true, Scope: "eval:write"}

	ReadWebhooks  = Permission{Name: "read webhooks", Roles: everybody, Scope: "webhook:read"}
	WriteWebhooks = Permission{Name: "manage webhooks", Roles: writers, Scope: "webhook:write"}

	ReadAlerts  = Permission{Name: "read alerts", Roles: managers, Scope: "webhook:read"}
	WriteAlerts = Permission{Name: "manage alerts", Roles: managers, Scope: "webhook:write"}

	Search     = Permission{Name: "search", Roles: everybody, Project: true, Scope: "account:read"}
	ReadStatus = Permission{Name: "read the status", Roles: everybody, Scope: "account:read"}

	ReadAudit = Permission{Name: "read the audit log", Roles: managers, Scope: "member:read"}
)

// May reports whether the caller has a permission.
func (c *Caller) May(p Permission) bool {
	return c.within(p) && slices.Contains(p.Roles, c.Role) && c.Holds(p.Scope)
}

// within reports whether this kind of caller can have a permission.
func (c *Caller) within(p Permission) bool {
	return (p.Project || c.ProjectID == "") && (!p.User || c.UserID != "")
}

// Require returns Forbidden if the caller lacks a permission, and says why.
func (c *Caller) Require(p Permission) error {
	switch {
	case c.May(p):
		return nil
	case p.User && c.UserID == "":
		return errs.New(errs.Forbidden, "a user is required to %s: an OAuth client that acts as itself has no account", p.Name)
	case c.ProjectID != "" && !p.Project:
		return errs.New(errs.Forbidden, "a %s of a project cannot be used to %s", c.kind(), p.Name)
	case !slices.Contains(p.Roles, c.Role):
		return errs.New(errs.Forbidden, "the role %s is required to %s", p.RoleNames(), p.Name)
	}
	return errs.New(errs.Forbidden, "the scope %s is required to %s", p.Scope, p.Name)
}

// kind names the caller's credentials in messages.
func (c *Caller) kind() string {
	if c.KeyID == "" {
		return "client"
	}
	return "key"
}

// Holds reports whether the caller's scopes include a scope.
func (c *Caller) Holds(scope string) bool { return !c.Restricted() || slices.Contains(c.Scopes, scope) }

// RequireGrantable returns Forbidden with the first scope that the caller does not hold: a caller
// restricted by scopes can only pass on its own. purpose completes the message. Everybody can pass on
// scopes that are not the API's, such as openid.
func (c *Caller) RequireGrantable(scopes []string, purpose string) error {
	for _, s := range scopes {
		if IsScope(s) && !c.Holds(s) {
			return errs.New(errs.Forbidden, "the scope %s is required to %s", s, purpose)
		}
	}
	return nil
}

// Manages reports whether the caller is an owner or admin who is not confined to a project.
func (c *Caller) Manages() bool { return c.ProjectID == "" && slices.Contains(managers, c.Role) }

// Sees reports whether the caller has access to a project.
func (c *Caller) Sees(projectID string) bool { return c.ProjectID == "" || c.ProjectID == projectID }

// ContextKey is the context key for the *Caller.
type ContextKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, ContextKey{}, c)
}

// From returns the request's caller. It panics if there is none: all routes that use it require
// authentication.
func From(ctx context.Context) *Caller { return ctx.Value(ContextKey{}).(*Caller) }

// Lookup returns the request's caller, or nil if the request is not authenticated.
func Lookup(ctx context.Context) *Caller {
	c, _ := ctx.Value(ContextKey{}).(*Caller)
	return c
}

// Callers names the cache of authenticated callers. A transaction that changes a key, a role or a
// membership must invalidate it.
const Callers = "callers"

// areas lists the API's areas. Each has a scope for reading and one for writing.
var areas = []string{"account", "member", "oauth", "apikey", "storage", "resource", "thread", "eval", "webhook"}

// IsScope reports whether a name is one of the API's scopes, such as webhook:read.
func IsScope(name string) bool {
	area, level, _ := strings.Cut(name, ":")
	return slices.Contains(areas, area) && (level == "read" || level == "write")
}
