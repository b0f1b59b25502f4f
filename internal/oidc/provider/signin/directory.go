package signin

import (
	"context"
	"strings"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
)

// Invitation is what the link in an invitation stands for.
type Invitation struct {
	Email, OrgName string
	OrgID          string
	Role           auth.Role
	// Inviter is the name or the email address of who made the invitation, or "".
	Inviter string
	// UserID is the account that the address has: that user must be signed in to accept. It is empty
	// for a new person, who sets a password.
	UserID string
	// Unproved says that the link was mailed, and that the user has not proved the address: it may be
	// somebody else who has opened the account. Then the link opens a new one, too.
	Unproved bool
}

// Membership is an organization of a user, with the user's role there.
type Membership struct {
	OrgID, OrgName string
	Role           auth.Role
}

// Directory gives access to user accounts. They belong to another part of Steward, whose methods fill it.
type Directory struct {
	// ByEmail and ByID return a user, or NotFound. Email addresses are in lower case.
	ByEmail func(ctx context.Context, email string) (oidc.User, error)
	ByID    func(ctx context.Context, userID string) (oidc.User, error)
	// Role returns the current role of a user in an organization, or NotFound.
	Role func(ctx context.Context, orgID, userID string) (auth.Role, error)
	// Memberships returns the organizations of a user, at most a page of them.
	Memberships func(ctx context.Context, userID string) ([]Membership, error)
	// RequiredLevel returns the value of the claim acr that a user's sign-ins must have at least, or "".
	RequiredLevel func(q db.Querier, userID string) (level string, err error)
	// Audit records what happened to a user's account in the log of each organization of the user. by is
	// who did it, or "" if that is not known.
	Audit func(tx *db.Tx, action, userID, by string) error
	// ProveEmail notes that a user has used a link that was mailed to the address, and has signed in.
	ProveEmail func(tx *db.Tx, userID string) error
	// Notify tells a user what happened to their account. It is nil if users cannot be told.
	Notify func(tx *db.Tx, userID string, n Notice) error
	// PasswordHash returns the hash of a user's password, or "", and locks the user.
	PasswordHash func(tx *db.Tx, userID string) (string, error)
	// Invitation returns the invitation of a link. It returns NotFound if the link was used or replaced,
	// has expired or never existed.
	Invitation func(ctx context.Context, token string) (Invitation, error)
	// Invited returns the user with an email address whom the invitation of a link is for, also if the
	// user is a member of no organization. It returns NotFound if there is none.
	Invited func(ctx context.Context, token, email string) (oidc.User, error)
}

// invitationToken returns the token of the invitation that a flow leads to.
func invitationToken(f *flow.Flow) (token string, ok bool) {
	return strings.CutPrefix(f.Next, oauth.PathInvitation)
}
