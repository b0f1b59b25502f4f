package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Login is a user as sign-in needs them. Fields that are not set are empty, also the hash of a user
// without a password.
type Login struct {
	ID, Email, FirstName, LastName, PhotoURL, PasswordHash string
	UpdatedAt                                              stamp.Time
}

// selectLogin selects users who can sign in: those with an enabled membership.
const selectLogin = `SELECT id, COALESCE(email, ''), COALESCE(first_name, ''), COALESCE(last_name, ''),
	COALESCE(photo_url, ''), COALESCE(password_hash, ''), updated_at FROM users
	WHERE EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND NOT m.disabled) AND `

func scanLogin(row db.Row, name string) (Login, error) {
	var l Login
	err := row.Scan(&l.ID, &l.Email, &l.FirstName, &l.LastName, &l.PhotoURL, &l.PasswordHash, &l.UpdatedAt)
	if errors.Is(err, db.ErrNoRows) {
		return Login{}, errs.Missing("user", name)
	}
	if err != nil {
		return Login{}, fmt.Errorf("get user: %w", err)
	}
	return l, nil
}

// LoginByEmail returns the user with an address in lower case. It returns NotFound if there is none,
// or if the user is not an enabled member of any organization.
func (s *Store) LoginByEmail(ctx context.Context, email string) (Login, error) {
	return scanLogin(s.DB.Read(ctx).Row(selectLogin+`email = $1`, email), "with this address")
}

// LoginByID returns a user. It returns NotFound as LoginByEmail does.
func (s *Store) LoginByID(ctx context.Context, userID string) (Login, error) {
	return scanLogin(s.DB.Read(ctx).Row(selectLogin+`id = $1`, userID), userID)
}

// Role returns the role of a user in an organization. It returns NotFound if the user is not a
// member, or a disabled one.
func (s *Store) Role(ctx context.Context, orgID, userID string) (role auth.Role, err error) {
	err = s.DB.Read(ctx).Row(`SELECT role FROM members WHERE org_id = $1 AND user_id = $2 AND NOT disabled`,
		orgID, userID).Scan(&role)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.Missing("member", userID)
	}
	if err != nil {
		return "", fmt.Errorf("get role: %w", err)
	}
	return role, nil
}

// SetPassword replaces the password of a user, given its hash, and voids the links to reset it.
func (s *Store) SetPassword(tx *db.Tx, userID, hash string) error {
	if _, err := tx.Exec(`UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3 WHERE id = $1`,
		userID, hash, s.now()); err != nil {
		return fmt.Errorf("update password: %w", err)
	}
	if err := voidResets(tx, userID); err != nil {
		return err
	}
	return tx.Invalidate(auth.Callers)
}

// Invitation is what the page of an invitation link shows.
type Invitation struct {
	UserID, Email, OrgName string
	// HasPassword is true for a user who could sign in before the invitation.
	HasPassword bool
}

// InvitationOf returns the invitation with a token. It returns NotFound if there is none, or if it
// has been used or has expired.
func (s *Store) InvitationOf(ctx context.Context, token string) (Invitation, error) {
	return s.invitation(s.DB.Read(ctx), token)
}

func (s *Store) invitation(q db.Querier, token string) (Invitation, error) {
	var i Invitation
	var hash string
	err := q.Row(`SELECT u.id, COALESCE(u.email, ''), COALESCE(u.password_hash, ''), o.name FROM invitations i
		JOIN users u ON u.id = i.user_id JOIN orgs o ON o.id = i.org_id
		WHERE i.token_hash = $1 AND i.used_at IS NULL AND i.expires_at > $2`, seal.Hash(token), s.now()).
		Scan(&i.UserID, &i.Email, &hash, &i.OrgName)
	if errors.Is(err, db.ErrNoRows) {
		return Invitation{}, errs.New(errs.NotFound, "invitation not found")
	}
	if err != nil {
		return Invitation{}, fmt.Errorf("get invitation: %w", err)
	}
	i.HasPassword = hash != ""
	return i, nil
}

// Accept uses up an invitation and sets the first password of its user. It never replaces a
// password: whoever invites a user knows the link, and must not take over an existing account. It
// returns NotFound as InvitationOf does, and Conflict if the user has a password.
func (s *Store) Accept(tx *db.Tx, token, hash string) (userID string, err error) {
	i, err := s.invitation(tx, token)
	if err != nil {
		return "", err
	}
	used, err := tx.Exec(`DELETE FROM invitations WHERE token_hash = $1`, seal.Hash(token))
	if err != nil {
		return "", fmt.Errorf("use invitation: %w", err)
	}
	set, err := tx.Exec(`UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3
		WHERE id = $1 AND password_hash IS NULL`, i.UserID, hash, s.now())
	if err != nil {
		return "", fmt.Errorf("set password: %w", err)
	}
	if used == 0 || set == 0 {
		return "", errs.New(errs.Conflict, "this user already has a password")
	}
	return i.UserID, voidResets(tx, i.UserID)
}
