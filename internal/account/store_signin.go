package account

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Login is a user as signing in needs them. Texts that are not set are empty; so is the hash of a user who never set a password.
type Login struct {
	ID, Email, FirstName, LastName, PhotoURL, PasswordHash string
	UpdatedAt                                              stamp.Time
}

const loginColumns = `SELECT id, COALESCE(email, ''), COALESCE(first_name, ''), COALESCE(last_name, ''), COALESCE(photo_url, ''),
	COALESCE(password_hash, ''), updated_at FROM users WHERE `

func scanLogin(row db.Row, name string) (l Login, err error) {
	err = row.Scan(&l.ID, &l.Email, &l.FirstName, &l.LastName, &l.PhotoURL, &l.PasswordHash, &l.UpdatedAt)
	if errors.Is(err, db.ErrNoRows) {
		err = errs.Missing("user", name)
	}
	return l, err
}

// LoginByEmail gives the user of an address, which is in lower case, or NotFound.
func (s *Store) LoginByEmail(ctx context.Context, email string) (Login, error) {
	return scanLogin(s.DB.Read(ctx).Row(loginColumns+`email = $1`, email), "with this address")
}

// LoginByID gives a user, or NotFound.
func (s *Store) LoginByID(ctx context.Context, userID string) (Login, error) {
	return scanLogin(s.DB.Read(ctx).Row(loginColumns+`id = $1`, userID), userID)
}

// Role gives what a user is in an organization, or NotFound.
func (s *Store) Role(ctx context.Context, orgID, userID string) (role auth.Role, err error) {
	err = s.DB.Read(ctx).Row(`SELECT role FROM members WHERE org_id = $1 AND user_id = $2`, orgID, userID).Scan(&role)
	if errors.Is(err, db.ErrNoRows) {
		err = errs.Missing("member", userID)
	}
	return role, err
}

// SetPassword replaces a user's password by the one that was hashed.
func (s *Store) SetPassword(tx *db.Tx, userID, hash string) error {
	_, err := tx.Exec(`UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3 WHERE id = $1`, userID, hash, s.now())
	return errors.Join(err, tx.Bump(auth.Callers))
}

// Invitation is what a link says to whoever follows it.
type Invitation struct {
	UserID, Email, OrgName string
	// HasPassword is true for a user who could sign in before they were invited.
	HasPassword bool
}

// InvitationOf gives what a link says; one that was used, has expired or never was is NotFound.
func (s *Store) InvitationOf(ctx context.Context, token string) (Invitation, error) {
	return s.invitation(s.DB.Read(ctx), token)
}

func (s *Store) invitation(q db.Querier, token string) (i Invitation, err error) {
	var hash string
	err = q.Row(`SELECT u.id, COALESCE(u.email, ''), COALESCE(u.password_hash, ''), o.name FROM invitations i
		JOIN users u ON u.id = i.user_id JOIN orgs o ON o.id = i.org_id
		WHERE i.token_hash = $1 AND i.used_at IS NULL AND i.expires_at > $2`, seal.Hash(token), s.now()).
		Scan(&i.UserID, &i.Email, &hash, &i.OrgName)
	i.HasPassword = hash != ""
	if errors.Is(err, db.ErrNoRows) {
		err = errs.New(errs.NotFound, "there is no such invitation")
	}
	return i, err
}

// Accept uses up an invitation and sets the first password. It never replaces one: whoever invites somebody has the link, and must not gain
// an account that exists. NotFound is as in InvitationOf, Conflict means that there is a password.
func (s *Store) Accept(tx *db.Tx, token, hash string) (userID string, err error) {
	i, err := s.invitation(tx, token)
	if err != nil {
		return "", err
	}
	used, err := tx.Exec(`UPDATE invitations SET used_at = $2 WHERE token_hash = $1 AND used_at IS NULL`, seal.Hash(token), s.now())
	if err != nil {
		return "", err
	}
	set, err := tx.Exec(`UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3 WHERE id = $1 AND password_hash IS NULL`,
		i.UserID, hash, s.now())
	if err == nil && (used == 0 || set == 0) {
		err = errs.New(errs.Conflict, "this user has a password already")
	}
	return i.UserID, err
}
