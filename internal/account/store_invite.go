package account

import (
	"context"
	"fmt"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
)

// invitationLifetime is how long an invitation link is valid.
const invitationLifetime = 7 * 24 * time.Hour

// Invite adds a member and returns the token of an invitation. It returns Conflict if the address
// belongs to a member.
func (s *Store) Invite(ctx context.Context, orgID, by string, n NewMember) (m Member, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		userID, err := s.userByEmail(tx, n)
		if err != nil {
			return err
		}
		// Whoever has a link of the user's other organization must not get access to this one.
		if err := voidResets(tx, userID); err != nil {
			return err
		}
		added, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (org_id, user_id) DO NOTHING`, orgID, userID, n.Role, s.now())
		if err != nil {
			return fmt.Errorf("insert member: %w", err)
		}
		if added == 0 {
			return errs.New(errs.Conflict, "this e-mail address already belongs to a member; "+
				"POST /oidc/org/members/{id}/invite renews an invitation")
		}
		if err := s.insertInvitation(tx, orgID, userID, by, token); err != nil {
			return err
		}
		if m, err = member(tx, orgID, userID); err != nil {
			return err
		}
		return s.Audit(tx, "member.create", userID)
	})
	return m, token, err
}

// Reinvite returns the token of a new invitation for a member of the caller's organization who has
// not set a password; earlier ones are void. It returns NotFound if the user is not a member,
// Forbidden if the member is an owner and the caller is not, and Conflict if the member is disabled
// or has a password.
func (s *Store) Reinvite(ctx context.Context, caller *auth.Caller, userID string) (m Member, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) (err error) {
		if m, err = lockReachable(tx, caller, userID); err != nil {
			return err
		}
		var hasPassword bool
		if err := tx.Row(`SELECT password_hash IS NOT NULL FROM users WHERE id = $1`, userID).Scan(&hasPassword); err != nil {
			return fmt.Errorf("get user: %w", err)
		}
		if hasPassword {
			return errs.New(errs.Conflict, "this member already has a password")
		}
		if err := voidInvitations(tx, caller.OrgID, userID); err != nil {
			return err
		}
		if err := s.insertInvitation(tx, caller.OrgID, userID, caller.UserID, token); err != nil {
			return err
		}
		return s.Audit(tx, "member.invite", userID)
	})
	return m, token, err
}

// lockReachable locks a member to whom the caller may give a link. Errors are those of Reinvite.
func lockReachable(tx *db.Tx, caller *auth.Caller, userID string) (Member, error) {
	m, err := lockMember(tx, caller.OrgID, userID)
	switch {
	case err != nil:
		return Member{}, err
	case m.Role == auth.Owner && caller.Role != auth.Owner:
		return Member{}, errOwners
	case m.Disabled:
		return Member{}, errs.New(errs.Conflict, "this member is disabled")
	case m.Email == nil:
		return Member{}, errs.New(errs.Conflict, "this member has no e-mail address to sign in with")
	}
	return m, nil
}

// userByEmail locks the user with an address and returns the id. It creates the user if there is
// none; a user of another organization keeps their name.
func (s *Store) userByEmail(tx *db.Tx, n NewMember) (userID string, err error) {
	if _, err := tx.Exec(`INSERT INTO users (id, email, first_name, last_name, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 1, $5, $5) ON CONFLICT (email) DO NOTHING`,
		id.New(id.User), n.Email, n.FirstName, n.LastName, s.now()); err != nil {
		return "", fmt.Errorf("insert user: %w", err)
	}
	if err := tx.Row(`UPDATE users SET version = version WHERE email = $1 RETURNING id`, n.Email).
		Scan(&userID); err != nil {
		return "", fmt.Errorf("lock user: %w", err)
	}
	return userID, nil
}

func (s *Store) insertInvitation(tx *db.Tx, orgID, userID, by, token string) error {
	now := s.now()
	if _, err := tx.Exec(`INSERT INTO invitations (token_hash, org_id, user_id, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		seal.Hash(token), orgID, userID, by, now, now.Add(invitationLifetime)); err != nil {
		return fmt.Errorf("insert invitation: %w", err)
	}
	return nil
}

// purgeBatch is how many invitations one transaction removes.
const purgeBatch = 500

// PurgeInvitations removes the invitations that have expired, in batches, and those that were used in
// earlier versions; a used one is deleted at once.
func (s *Store) PurgeInvitations(ctx context.Context) error {
	for {
		var n int64
		err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM invitations WHERE token_hash IN (SELECT token_hash FROM invitations
				WHERE expires_at < $1 OR used_at IS NOT NULL LIMIT $2)`, s.now(), purgeBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old invitations: %w", err)
		}
		if n < purgeBatch {
			return nil
		}
	}
}

// voidInvitations deletes the invitations of a user to an organization.
func voidInvitations(tx *db.Tx, orgID, userID string) error {
	if _, err := tx.Exec(`DELETE FROM invitations WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
		return fmt.Errorf("delete invitations: %w", err)
	}
	return nil
}
