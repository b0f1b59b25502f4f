package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// User is a user as sign-in and tokens need it. Anything the user has not set is empty, including the
// password's hash.
type User struct {
	ID, Email, FirstName, LastName, PhotoURL, PasswordHash string
	UpdatedAt                                              stamp.Time
	// EmailVerified reports whether the user has followed a link that was mailed to the address.
	EmailVerified bool
}

const (
	// selectUser selects users.
	selectUser = `SELECT id, COALESCE(email, ''), COALESCE(first_name, ''), COALESCE(last_name, ''),
		COALESCE(photo_url, ''), COALESCE(password_hash, ''), updated_at, email_verified FROM users WHERE `
	// selectLogin selects users who can sign in: they have an enabled membership.
	selectLogin = selectUser + `EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND NOT m.disabled) AND `
)

func scanUser(row db.Row, name string) (User, error) {
	var l User
	err := row.Scan(&l.ID, &l.Email, &l.FirstName, &l.LastName, &l.PhotoURL, &l.PasswordHash, &l.UpdatedAt,
		&l.EmailVerified)
	if errors.Is(err, db.ErrNoRows) {
		return User{}, errs.Missing("user", name)
	}
	if err != nil {
		return User{}, fmt.Errorf("get user: %w", err)
	}
	return l, nil
}

// UserByEmail returns the user with an address in lower case. It returns NotFound if there is none, or if
// the user is not an enabled member anywhere.
func (s *Store) UserByEmail(ctx context.Context, email string) (User, error) {
	return scanUser(s.DB.Read(ctx).Row(selectLogin+`email = $1`, email), "with this address")
}

// UserByID returns a user. It returns NotFound as UserByEmail does.
func (s *Store) UserByID(ctx context.Context, userID string) (User, error) {
	return scanUser(s.DB.Read(ctx).Row(selectLogin+`id = $1`, userID), userID)
}

// Role returns a user's role in an organization. It returns NotFound if the user is not a member, or is
// disabled.
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

// LockUser locks a user until the transaction ends. Every change to memberships or sign-in methods takes
// this lock.
func LockUser(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`UPDATE users SET version = version WHERE id = $1`, userID); err != nil {
		return fmt.Errorf("lock user: %w", err)
	}
	return nil
}

// PasswordHash returns a user's password hash, or "". It locks the user, so that no other transaction
// changes their sign-in. It returns NotFound if there is no such user.
func (s *Store) PasswordHash(tx *db.Tx, userID string) (hash string, err error) {
	err = tx.Row(`UPDATE users SET version = version WHERE id = $1 RETURNING COALESCE(password_hash, '')`, userID).Scan(&hash)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.Missing("user", userID)
	}
	if err != nil {
		return "", fmt.Errorf("lock user: %w", err)
	}
	return hash, nil
}

// SetPassword replaces a user's password, given its hash, which voids password links. An empty hash
// removes the password. We store it as empty rather than NULL: a user with NULL and no membership would
// count as never having been here.
func (s *Store) SetPassword(tx *db.Tx, userID, hash string) error {
	if _, err := tx.Exec(`UPDATE users SET password_hash = $2, version = version + 1, updated_at = $3 WHERE id = $1`,
		userID, hash, s.now()); err != nil {
		return fmt.Errorf("update password: %w", err)
	}
	return tx.Invalidate(auth.Callers)
}

// SetProfile replaces a user's profile, which must be valid.
func (s *Store) SetProfile(tx *db.Tx, userID string, p UserProfile) error {
	if _, err := tx.Exec(`UPDATE users SET first_name = NULLIF(@first_name, ''), last_name = NULLIF(@last_name, ''),
		photo_url = NULLIF(@photo_url, ''), version = version + 1, updated_at = @now WHERE id = @id`,
		db.Args{
			"id": userID, "first_name": p.FirstName, "last_name": p.LastName, "photo_url": p.PhotoURL,
			"now": s.now(),
		}); err != nil {
		return fmt.Errorf("update user: %w", err)
	}
	return tx.Invalidate(auth.Callers)
}
