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
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	// invitationLifetime is how long an invitation's link is valid.
	invitationLifetime = 7 * 24 * time.Hour
	// invitationRetention is how long we list an invitation after its link has expired.
	invitationRetention = 30 * 24 * time.Hour
)

// isInvitation reports whether a member's id belongs to an invitation.
func isInvitation(memberID string) bool { return strings.HasPrefix(memberID, id.Invitation+"_") }

const pendingColumns = `id, first_name, last_name, email, role, expires_at, token_hash IS NOT NULL, version`

func scanPending(row db.Row) (Member, error) {
	m := Member{Pending: true}
	var expires stamp.Time
	var hasLink bool
	err := row.Scan(&m.ID, &m.FirstName, &m.LastName, &m.Email, &m.Role, &expires, &hasLink, &m.version)
	if hasLink {
		m.ExpiresAt = &expires
	}
	return m, err
}

// Invite invites an address to an organization. It returns the pending member and the link's token. It
// returns Conflict if the address is already invited or belongs to a member. It does not look at users in
// other organizations, so that nothing reveals whether the address has an account.
func (s *Store) Invite(ctx context.Context, orgID, by string, n NewMember) (m Member, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		m, err = s.insertInvitation(tx, newInvitation{NewMember: n, orgID: orgID, by: by, token: token})
		if err != nil {
			return err
		}
		// We check after the insert, because the insert waits for a transaction that is accepting an
		// earlier invitation.
		var belongs bool
		if err := tx.Row(`SELECT EXISTS (SELECT 1 FROM members m JOIN users u ON u.id = m.user_id
			WHERE m.org_id = $1 AND u.email = $2)`, orgID, n.Email).Scan(&belongs); err != nil {
			return fmt.Errorf("find member: %w", err)
		}
		if belongs {
			return errs.New(errs.Conflict, "this e-mail address already belongs to a member")
		}
		if err := s.mailInvitation(tx, orgID, m.ID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "member.create", m.ID)
	})
	return m, token, err
}

// newInvitation is a user's invitation with its link's token.
type newInvitation struct {
	NewMember
	orgID, by, token string
}

func (s *Store) insertInvitation(tx *db.Tx, n newInvitation) (Member, error) {
	now := s.now()
	m, err := scanPending(tx.Row(`INSERT INTO invitations (org_id, id, email, first_name, last_name, role, token_hash,
		created_by, created_at, expires_at, version) VALUES (@org_id, @id, @email, @first_name, @last_name,
		@role, @token_hash, @created_by, @created_at, @expires_at, 1)
		ON CONFLICT (org_id, email) DO NOTHING RETURNING `+pendingColumns,
		db.Args{
			"org_id": n.orgID, "id": id.New(id.Invitation), "email": n.Email, "first_name": n.FirstName,
			"last_name": n.LastName, "role": n.Role, "token_hash": seal.Hash(n.token), "created_by": n.by,
			"created_at": now, "expires_at": now.Add(invitationLifetime),
		}))
	if errors.Is(err, db.ErrNoRows) {
		return Member{}, errs.New(errs.Conflict, "this e-mail address is already invited; "+
			"POST /oidc/org/members/{id}/invite renews the invitation")
	}
	if err != nil {
		return Member{}, fmt.Errorf("insert invitation: %w", err)
	}
	return m, nil
}

// lockInvitation locks an invitation to the caller's organization. It returns NotFound if there is none,
// and Forbidden if it invites an owner and the caller is not one.
func lockInvitation(tx *db.Tx, caller *auth.Caller, invitationID string) (Member, error) {
	m, err := scanPending(tx.Row(`UPDATE invitations SET version = version WHERE org_id = $1 AND id = $2
		RETURNING `+pendingColumns, caller.OrgID, invitationID))
	switch {
	case errors.Is(err, db.ErrNoRows):
		return Member{}, errs.Missing("member", invitationID)
	case err != nil:
		return Member{}, fmt.Errorf("lock invitation: %w", err)
	case m.Role == auth.Owner && caller.Role != auth.Owner:
		return Member{}, errOwners
	}
	return m, nil
}

// Reinvite returns the token for a pending member's new link; the earlier link becomes void. It returns
// the same errors as lockInvitation, and Conflict if the member has accepted.
func (s *Store) Reinvite(ctx context.Context, caller *auth.Caller, memberID string) (m Member, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) (err error) {
		if !isInvitation(memberID) {
			m, err := member(tx, caller.OrgID, memberID)
			switch {
			case err != nil:
				return err
			case m.Role == auth.Owner && caller.Role != auth.Owner:
				return errOwners
			}
			return errs.New(errs.Conflict, "this member has accepted the invitation; "+
				"POST /oidc/org/members/{id}/reset-password makes a link to set a new password")
		}
		if m, err = lockInvitation(tx, caller, memberID); err != nil {
			return err
		}
		m.version++
		m.ExpiresAt = new(s.now().Add(invitationLifetime))
		if _, err := tx.Exec(`UPDATE invitations SET token_hash = @token_hash, mailed_hash = NULL, expires_at = @expires_at,
			version = @version WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": caller.OrgID, "id": m.ID, "token_hash": seal.Hash(token), "expires_at": *m.ExpiresAt,
				"version": m.version,
			}); err != nil {
			return fmt.Errorf("renew invitation: %w", err)
		}
		if err := s.mailInvitation(tx, caller.OrgID, m.ID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "member.invite", m.ID)
	})
	return m, token, err
}

// changeInvitation updates a pending member's role and names. A new role voids the link.
func (s *Store) changeInvitation(
	ctx context.Context, caller *auth.Caller, invitationID string, match page.IfMatch, p MemberPatch,
) (Member, error) {
	var after Member
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lockInvitation(tx, caller, invitationID)
		if err != nil {
			return err
		}
		if err := match.Check(before); err != nil {
			return err
		}
		if after, err = p.apply(before); err != nil {
			return err
		}
		switch {
		case after.Disabled:
			return errs.New(errs.Conflict, "a member who has not accepted cannot be disabled; "+
				"DELETE /oidc/org/members/{id} revokes the invitation")
		case after.PhotoURL != nil:
			return errProfile
		case after.Role == auth.Owner && caller.Role != auth.Owner:
			return errOwners
		case after.Role != before.Role:
			after.ExpiresAt = nil
		}
		// Another role voids the link.
		if _, err := tx.Exec(`UPDATE invitations SET token_hash = CASE WHEN role = @role THEN token_hash END,
			mailed_hash = CASE WHEN role = @role THEN mailed_hash END, role = @role, first_name = @first_name, last_name = @last_name, version = @version WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": caller.OrgID, "id": after.ID, "role": after.Role, "first_name": after.FirstName, "last_name": after.LastName,
				"version": after.version,
			}); err != nil {
			return fmt.Errorf("update invitation: %w", err)
		}
		return s.Audit.Record(tx, "member.update", invitationID)
	})
	return after, err
}

// purgeBatch caps the rows that one transaction removes.
const purgeBatch = 500

// PurgeLinks removes, in batches, invitations whose links expired long ago, and expired links for
// passwords and addresses.
func (s *Store) PurgeLinks(ctx context.Context) error {
	now := s.now()
	if err := s.purge(ctx, `DELETE FROM invitations WHERE (org_id, id) IN (SELECT org_id, id FROM invitations
		WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, now.Add(-invitationRetention)); err != nil {
		return fmt.Errorf("delete old invitations: %w", err)
	}
	if err := s.purge(ctx, `DELETE FROM password_resets WHERE user_id IN (SELECT user_id FROM password_resets
		WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, now); err != nil {
		return fmt.Errorf("delete old password resets: %w", err)
	}
	if err := s.purge(ctx, `DELETE FROM email_changes WHERE user_id IN (SELECT user_id FROM email_changes
		WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, now); err != nil {
		return fmt.Errorf("delete old changes of addresses: %w", err)
	}
	return nil
}

// purge repeats a statement, which deletes one batch, until nothing is left.
func (s *Store) purge(ctx context.Context, statement string, before stamp.Time) error {
	for {
		n, err := s.DB.Exec(ctx, statement, before, purgeBatch)
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
