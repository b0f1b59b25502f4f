package account

import (
	"bytes"
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

// resetLifetime is how long a link for a new password is valid.
const resetLifetime = time.Hour

// ResetPassword makes a link with which a member of the caller's organization can set a new password. It
// returns the link's token and expiry. It returns NotFound if there is no such member, Conflict if the
// member is pending or disabled, and Forbidden if the member is an owner and the caller is not. It also
// returns Forbidden if the user belongs to another organization, because the new password would give
// access to that one.
func (s *Store) ResetPassword(
	ctx context.Context, caller *auth.Caller, memberID string,
) (token string, expires stamp.Time, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if isInvitation(memberID) {
			if _, err := lockInvitation(tx, caller, memberID); err != nil {
				return err
			}
			return errs.New(errs.Conflict, "this member has not accepted the invitation; "+
				"POST /oidc/org/members/{id}/invite renews it")
		}
		m, err := lockMember(tx, caller.OrgID, memberID)
		switch {
		case err != nil:
			return err
		case m.Role == auth.Owner && caller.Role != auth.Owner:
			return errOwners
		case m.Disabled:
			return errs.New(errs.Conflict, "this member is disabled")
		case m.Email == nil:
			return errs.New(errs.Conflict, "this member has no e-mail address to sign in with")
		}
		elsewhere, err := belongsElsewhere(tx, caller.OrgID, memberID)
		if err != nil {
			return err
		}
		if elsewhere {
			return errs.New(errs.Forbidden, "this user belongs to another organization as well; "+
				"the operator of the server can reset the password with steward reset-password")
		}
		if token, expires, err = s.NewReset(tx, memberID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "member.reset_password", memberID)
	})
	return token, expires, err
}

// ResetByEmail is ResetPassword for the server's operator: it finds the user by e-mail address, in any
// organization. With clearFactors it also removes the user's second factors. It returns NotFound if no
// user has the address, and Conflict if the user is not an enabled member anywhere.
func (s *Store) ResetByEmail(
	ctx context.Context, email string, clearFactors bool,
) (token string, expires stamp.Time, err error) {
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
		orgs, err := db.Collect(tx, db.Value[string], `SELECT org_id FROM members WHERE user_id = $1 AND NOT disabled
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
		if clearFactors {
			if err := s.clearFactors(tx, userID); err != nil {
				return err
			}
			if err := s.auditIn(tx, orgs, "member.clear_factors", userID); err != nil {
				return err
			}
		}
		return s.auditIn(tx, orgs, "member.reset_password", userID)
	})
	return token, expires, err
}

// auditIn records the operator's action in the logs of several organizations.
func (s *Store) auditIn(tx *db.Tx, orgs []string, action, target string) error {
	for _, orgID := range orgs {
		if err := s.auditAs(tx, &auth.Caller{OrgID: orgID}, action, target); err != nil {
			return err
		}
	}
	return nil
}

// NewReset makes a link with which a user can set a new password once. It returns the link's token and
// expiry. The user's earlier links become void.
func (s *Store) NewReset(tx *db.Tx, userID string) (token string, expires stamp.Time, err error) {
	token = id.Secret(43)
	now := s.now()
	expires = now.Add(resetLifetime)
	state, err := userState(tx, userID)
	if err != nil {
		return "", 0, err
	}
	if _, err := tx.Exec(`INSERT INTO password_resets (user_id, token_hash, made_for, created_at, expires_at)
		VALUES (@user_id, @token_hash, @made_for, @created_at,
		@expires_at) ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash,
		made_for = excluded.made_for, created_at = excluded.created_at, expires_at = excluded.expires_at,
		mailed = FALSE`,
		db.Args{
			"user_id": userID, "token_hash": seal.Hash(token), "made_for": state, "created_at": now,
			"expires_at": expires,
		}); err != nil {
		return "", 0, fmt.Errorf("insert password reset: %w", err)
	}
	return token, expires, nil
}

// userState hashes the facts that a password link was made for: the user's address, password and
// memberships. Any change to these voids the link, whoever makes it. So nobody can keep a viewer's link
// until the viewer has become an owner, or a member of another organization.
func userState(q db.Querier, userID string) ([]byte, error) {
	var email, hash string
	err := q.Row(`SELECT COALESCE(email, ''), COALESCE(password_hash, '') FROM users WHERE id = $1`, userID).
		Scan(&email, &hash)
	if err != nil {
		return nil, fmt.Errorf("get user: %w", err)
	}
	describe := func(row db.Row) (string, error) {
		var m struct {
			orgID, role string
			disabled    bool
			version     int64
			joined      stamp.Time
		}
		err := row.Scan(&m.orgID, &m.role, &m.disabled, &m.version, &m.joined)
		return fmt.Sprintf("%s %s %t %d %d", m.orgID, m.role, m.disabled, m.version, m.joined), err
	}
	memberships, err := db.Collect(q, describe, `SELECT org_id, role, disabled, version, created_at FROM members
		WHERE user_id = $1 ORDER BY org_id`, userID)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return seal.Hash(strings.Join(append(memberships, email, hash), "\n")), nil
}

// errNoReset does not distinguish links that were used, replaced or voided, have expired, or never existed.
var errNoReset = errs.New(errs.NotFound, "link not found")

// ResetOf returns the user who may set a new password with a token. It returns NotFound if the token was
// used or replaced, has expired, or never existed, or if the facts it was made for have changed.
func (s *Store) ResetOf(ctx context.Context, token string) (User, error) {
	q := s.DB.Read(ctx)
	userID, err := s.resetUser(q, token)
	if err != nil {
		return User{}, err
	}
	return scanUser(q.Row(selectLogin+`id = $1`, userID), "with this link")
}

// resetUser returns a token's user. It returns the same errors as ResetOf.
func (s *Store) resetUser(q db.Querier, token string) (userID string, err error) {
	var madeFor []byte
	err = q.Row(`SELECT user_id, made_for FROM password_resets WHERE token_hash = $1 AND expires_at > $2`,
		seal.Hash(token), s.now()).Scan(&userID, &madeFor)
	if errors.Is(err, db.ErrNoRows) {
		return "", errNoReset
	}
	if err != nil {
		return "", fmt.Errorf("get password reset: %w", err)
	}
	state, err := userState(q, userID)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(state, madeFor) {
		return "", errNoReset
	}
	return userID, nil
}

// UseReset replaces the password of the token's user, given the new one's hash, and uses up the token. It
// reports whether the token was mailed. If it was, the user has read mail at the address; call ProveEmail
// once the user has signed in, perhaps with a second factor. If it was not, somebody else has seen the
// token, and the address no longer counts as proved. UseReset returns NotFound as ResetOf does.
func (s *Store) UseReset(tx *db.Tx, token, hash string) (userID string, mailed bool, err error) {
	if userID, err = s.resetUser(tx, token); err != nil {
		return "", false, err
	}
	if err := LockUser(tx, userID); err != nil {
		return "", false, err
	}
	if _, err := s.resetUser(tx, token); err != nil { // again, now that the user is locked
		return "", false, err
	}
	if err := tx.Row(`DELETE FROM password_resets WHERE user_id = $1 RETURNING mailed`, userID).Scan(&mailed); err != nil {
		return "", false, fmt.Errorf("use password reset: %w", err)
	}
	if mailed {
		err = s.claim(tx, userID)
	} else {
		err = unproveEmail(tx, userID)
	}
	if err != nil {
		return "", false, err
	}
	return userID, mailed, s.SetPassword(tx, userID, hash)
}

// unproveEmail notes that somebody who does not read the user's mail may be able to sign in as the user.
func unproveEmail(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`UPDATE users SET email_verified = FALSE WHERE id = $1`, userID); err != nil {
		return fmt.Errorf("unprove address: %w", err)
	}
	return nil
}
