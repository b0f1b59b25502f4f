package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// resetLifetime is how long a link to set a new password is valid.
const resetLifetime = time.Hour

// ResetPassword returns the token of a link with which a member of the caller's organization can set
// a new password, and when it expires. It returns NotFound if the user is not a member, Conflict if
// the member is disabled, and Forbidden if the member is an owner and the caller is not. It also
// returns Forbidden if the user belongs to another organization, because the new password would give
// access to that one.
func (s *Store) ResetPassword(
	ctx context.Context, caller *auth.Caller, userID string,
) (token string, expires stamp.Time, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := lockReachable(tx, caller, userID); err != nil {
			return err
		}
		var elsewhere bool
		if err := tx.Row(`SELECT EXISTS (SELECT 1 FROM members WHERE user_id = $1 AND org_id <> $2)`,
			userID, caller.OrgID).Scan(&elsewhere); err != nil {
			return fmt.Errorf("find other memberships: %w", err)
		}
		if elsewhere {
			return errs.New(errs.Forbidden, "this user belongs to another organization as well; "+
				"the operator of the server can reset the password with steward reset-password")
		}
		if token, expires, err = s.NewReset(tx, userID); err != nil {
			return err
		}
		return s.Audit(tx, "member.reset_password", userID)
	})
	return token, expires, err
}

// ResetByEmail is ResetPassword for the operator of the server: it finds the user by e-mail address,
// and the organizations do not matter. It returns NotFound if there is no user with the address, and
// Conflict if the user is not an enabled member of any organization.
func (s *Store) ResetByEmail(ctx context.Context, email string) (token string, expires stamp.Time, err error) {
	email = strings.ToLower(strings.TrimSpace(email))
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		var userID string
		err := tx.Row(`UPDATE users SET version = version WHERE email = $1 RETURNING id`, email).Scan(&userID)
		if errors.Is(err, db.ErrNoRows) {
			return errs.New(errs.NotFound, "no user has the e-mail address %s", email)
		}
		if err != nil {
			return fmt.Errorf("lock user: %w", err)
		}
		orgs, err := db.Collect(tx, scanID, `SELECT org_id FROM members WHERE user_id = $1 AND NOT disabled
			ORDER BY org_id`, userID)
		if err != nil {
			return fmt.Errorf("list memberships: %w", err)
		}
		if len(orgs) == 0 {
			return errs.New(errs.Conflict, "%s is not an enabled member of any organization and cannot sign in", email)
		}
		if token, expires, err = s.NewReset(tx, userID); err != nil {
			return err
		}
		return s.auditIn(tx, orgs, "member.reset_password", userID)
	})
	return token, expires, err
}

func scanID(row db.Row) (id string, err error) {
	err = row.Scan(&id)
	return id, err
}

// auditIn records an action of the operator in the audit logs of organizations.
func (s *Store) auditIn(tx *db.Tx, orgs []string, action, target string) error {
	for _, orgID := range orgs {
		operator := auth.With(tx.Context(), &auth.Caller{OrgID: orgID})
		err := s.DB.Write(operator, func(tx *db.Tx) error { return s.Audit(tx, action, target) })
		if err != nil {
			return err
		}
	}
	return nil
}

// NewReset returns the token of a link with which a user can set a new password once, and when it
// expires. Earlier links of the user are void.
func (s *Store) NewReset(tx *db.Tx, userID string) (token string, expires stamp.Time, err error) {
	token = id.Secret(43)
	now := s.now()
	expires = now.Add(resetLifetime)
	if _, err := tx.Exec(`INSERT INTO password_resets (user_id, token_hash, created_at, expires_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash,
		created_at = excluded.created_at, expires_at = excluded.expires_at`,
		userID, seal.Hash(token), now, expires); err != nil {
		return "", 0, fmt.Errorf("insert password reset: %w", err)
	}
	return token, expires, nil
}

// ResetOf returns the user who may set a new password with a token. It returns NotFound if the
// token was used or replaced, has expired, or never existed.
func (s *Store) ResetOf(ctx context.Context, token string) (Login, error) {
	return s.resetOf(s.DB.Read(ctx), token)
}

func (s *Store) resetOf(q db.Querier, token string) (Login, error) {
	return scanLogin(q.Row(selectLogin+`id = (SELECT user_id FROM password_resets WHERE token_hash = $1 AND expires_at > $2)`,
		seal.Hash(token), s.now()), "with this link")
}

// UseReset replaces the password of the user of a token, given the hash of the new one, and voids
// the token. It returns NotFound as ResetOf does.
func (s *Store) UseReset(tx *db.Tx, token, hash string) (userID string, err error) {
	err = tx.Row(`DELETE FROM password_resets WHERE token_hash = $1 AND expires_at > $2 RETURNING user_id`,
		seal.Hash(token), s.now()).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.New(errs.NotFound, "link not found")
	}
	if err != nil {
		return "", fmt.Errorf("use password reset: %w", err)
	}
	return userID, s.SetPassword(tx, userID, hash)
}

// voidResets voids the link to reset the password of a user, if there is one.
func voidResets(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`DELETE FROM password_resets WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("delete password resets: %w", err)
	}
	return nil
}
