package signin

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
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
}

// Profile is what users say about themselves. Fields may be empty.
type Profile struct {
	FirstName, LastName, PhotoURL string
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
	// Notify tells a user what happened to their account. It is nil if users cannot be told.
	Notify func(tx *db.Tx, userID string, n Notice) error
	// Mailed is nil if no mail can be sent.
	Mailed *MailedLinks
	// CheckPassword and HashPassword are expensive by design: about 20 ms of CPU and 19 MiB each.
	CheckPassword func(hash, password string) bool
	HashPassword  func(password string) string
	// PasswordProblem returns what is wrong with a new password of the user with an email address, as a
	// sentence, or "".
	PasswordProblem func(email, password string) string
	// MinPassword is the minimum length of a new password in characters.
	MinPassword int
	// SetPassword replaces the hash of a user's password, or removes the password if that is empty.
	SetPassword func(tx *db.Tx, userID, hash string) error
	// HasPassword reports whether a user has a password, and locks the user.
	HasPassword func(tx *db.Tx, userID string) (bool, error)
	// ProfileProblem returns what is wrong with a profile, as a sentence, or "".
	ProfileProblem func(Profile) string
	SetProfile     func(tx *db.Tx, userID string, p Profile) error
	// Invitation returns the invitation of a link. It returns NotFound if the link was used or replaced,
	// has expired or never existed.
	Invitation func(ctx context.Context, token string) (Invitation, error)
	// Invited returns the user with an email address whom the invitation of a link is for, also if the
	// user is a member of no organization. It returns NotFound if there is none.
	Invited func(ctx context.Context, token, email string) (oidc.User, error)
	// Register uses up an invitation, creates its user with the hash of a password, which is empty for one
	// who has a passkey instead, and adds the membership. It returns NotFound like Invitation, and Conflict if the address has an account.
	Register func(tx *db.Tx, token, hash string) (userID string, err error)
	// Join uses up an invitation and adds the membership of an existing user, and Decline deletes it. They
	// return NotFound like Invitation, and if the invitation is for another user, and Join returns
	// Conflict if the user is a member already.
	Join    func(tx *db.Tx, token, userID string) error
	Decline func(tx *db.Tx, token, userID string) error
	// Reset returns the user who may set a new password with the token of a link. It returns NotFound if
	// the link was used or replaced, has expired, or never existed.
	Reset func(ctx context.Context, token string) (oidc.User, error)
	// UseReset replaces the password of the user of a link, and voids the link. It returns NotFound like
	// Reset.
	UseReset func(tx *db.Tx, token, hash string) (userID string, err error)
}
