package account

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
)

// Invitation has the facts for the page behind an invitation link.
type Invitation struct {
	Email, OrgName string
	OrgID          string
	Role           auth.Role
	// Inviter is the inviting user's name or e-mail address, or "".
	Inviter string
	// UserID is the account with this address: that user must sign in to accept. It is empty for a new
	// person, who sets a password. A user who has neither a password nor a membership has never been
	// here, and counts as new.
	UserID string
	// Unproved reports whether the link was mailed to a user who has not proved the address. Somebody
	// else may have opened that account, so the link can also open a new one.
	Unproved bool
}

// errNoInvitation does not distinguish links that were used, replaced or revoked, have expired, or never
// existed.
var errNoInvitation = errs.New(errs.NotFound, "invitation not found")

// InvitationByToken returns the invitation for a token. It returns NotFound if there is none, if it has
// expired, or if the organization was deleted.
func (s *Store) InvitationByToken(ctx context.Context, token string) (Invitation, error) {
	var i Invitation
	var first, last, address string
	err := s.DB.Read(ctx).Row(`SELECT i.email, o.name, i.org_id, i.role, COALESCE(b.first_name, ''), COALESCE(b.last_name, ''),
		COALESCE(b.email, ''), CASE WHEN u.password_hash IS NOT NULL OR EXISTS (SELECT 1 FROM members m
			WHERE m.user_id = u.id) THEN u.id ELSE '' END,
		COALESCE(i.mailed_hash = $1, FALSE) AND NOT COALESCE(u.email_verified, TRUE)
		FROM invitations i JOIN orgs o ON o.id = i.org_id
		LEFT JOIN users u ON u.email = i.email LEFT JOIN users b ON b.id = i.created_by
		WHERE (i.token_hash = $1 OR i.mailed_hash = $1) AND i.expires_at > $2 AND o.deleted_at IS NULL`,
		seal.Hash(token), s.now()).
		Scan(&i.Email, &i.OrgName, &i.OrgID, &i.Role, &first, &last, &address, &i.UserID, &i.Unproved)
	if errors.Is(err, db.ErrNoRows) {
		return Invitation{}, errNoInvitation
	}
	if err != nil {
		return Invitation{}, fmt.Errorf("get invitation: %w", err)
	}
	if i.Inviter = strings.TrimSpace(first + " " + last); i.Inviter == "" {
		i.Inviter = address
	}
	return i, nil
}

// InvitedUser returns the user that an invitation is for. The email must be in lower case. The user need
// not be a member anywhere: someone who has left all organizations can still sign in to accept. It
// returns NotFound if there is no such invitation or user.
func (s *Store) InvitedUser(ctx context.Context, token, email string) (User, error) {
	i, err := s.InvitationByToken(ctx, token)
	if err != nil {
		return User{}, err
	}
	if i.UserID == "" || i.Email != email {
		return User{}, errs.Missing("user", "with this address")
	}
	return scanUser(s.DB.Read(ctx).Row(selectUser+`id = $1`, i.UserID), "with this address")
}

// Register uses up a new person's invitation: it creates the user with a password's hash, which is empty
// for someone who signs in without a password, and adds the membership. With a mailed link, the new user
// takes over the address if the account that has it has not proved it. Register returns NotFound as
// InvitationByToken does. It returns Conflict, and keeps the invitation, if the address has another
// account, whose user must sign in to accept.
func (s *Store) Register(tx *db.Tx, token, hash string) (userID string, err error) {
	i, err := s.takeInvitation(tx, token)
	if err != nil {
		return "", err
	}
	if i.mailed {
		if err := s.releaseEmail(tx, i.email); err != nil {
			return "", err
		}
	}
	// We change an existing user only if nobody can sign in as that user yet.
	err = tx.Row(`INSERT INTO users (id, email, email_verified, first_name, last_name, password_hash, version, created_at,
		updated_at) VALUES (@id, @email, @mailed, @first_name, @last_name, @hash, 1, @now, @now)
		ON CONFLICT (email) DO UPDATE SET password_hash = excluded.password_hash,
			first_name = COALESCE(users.first_name, excluded.first_name),
			last_name = COALESCE(users.last_name, excluded.last_name),
			email_verified = users.email_verified OR excluded.email_verified,
			version = users.version + 1, updated_at = excluded.updated_at
		WHERE users.password_hash IS NULL AND NOT EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id)
		RETURNING id`,
		db.Args{
			"id": id.New(id.User), "email": i.email, "first_name": i.firstName, "last_name": i.lastName,
			"mailed": i.mailed, "hash": hash, "now": s.now(),
		}).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.New(errs.Conflict, "this e-mail address has an account: sign in to accept the invitation")
	}
	if err != nil {
		return "", fmt.Errorf("insert user: %w", err)
	}
	if i.mailed {
		if err := s.removeSignIns(tx, userID); err != nil { // for a user who has been here before and left
			return "", err
		}
	}
	return userID, s.join(tx, i, userID)
}

// Join uses up an invitation and makes a signed-in user a member. It returns NotFound as
// InvitationByToken does, and if the invitation is for another address. It returns Conflict if the user
// is already a member, or has to Claim the account.
func (s *Store) Join(tx *db.Tx, token, userID string) error {
	i, err := s.takeInvitation(tx, token)
	if err != nil {
		return err
	}
	proved, err := lockAddressee(tx, i, userID)
	if err != nil {
		return err
	}
	if i.mailed && !proved {
		return errs.New(errs.Conflict, "this user has to set a new password to accept")
	}
	return s.join(tx, i, userID)
}

// Claim is Join for a user who came with a mailed link and has not proved the address before. Somebody
// else may have opened the account, so Claim removes every way in which others could act as the user, and
// sets a new password, given its hash.
func (s *Store) Claim(tx *db.Tx, token, userID, hash string) error {
	i, err := s.takeInvitation(tx, token)
	if err != nil {
		return err
	}
	if _, err := lockAddressee(tx, i, userID); err != nil {
		return err
	}
	if !i.mailed {
		return errNoInvitation
	}
	if err := s.claim(tx, userID); err != nil {
		return err
	}
	if err := s.ProveEmail(tx, userID); err != nil {
		return err
	}
	if err := s.SetPassword(tx, userID, hash); err != nil {
		return err
	}
	return s.join(tx, i, userID)
}

// Decline deletes a signed-in user's invitation. It returns the same errors as Join. The organization
// does not learn which user has declined.
func (s *Store) Decline(tx *db.Tx, token, userID string) error {
	i, err := s.takeInvitation(tx, token)
	if err != nil {
		return err
	}
	if _, err := lockAddressee(tx, i, userID); err != nil {
		return err
	}
	return s.auditAs(tx, &auth.Caller{OrgID: i.orgID}, "member.decline", i.id)
}

// takenInvitation is an invitation that was just used up.
type takenInvitation struct {
	id, orgID, email    string
	firstName, lastName *string
	role                auth.Role
	mailed              bool // the mailed link was used
}

// takeInvitation deletes the invitation for a token, so that the link works once.
func (s *Store) takeInvitation(tx *db.Tx, token string) (i takenInvitation, err error) {
	err = tx.Row(`DELETE FROM invitations WHERE (token_hash = $1 OR mailed_hash = $1) AND expires_at > $2
		AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = invitations.org_id)
		RETURNING id, org_id, email, first_name, last_name, role, COALESCE(mailed_hash = $1, FALSE)`,
		seal.Hash(token), s.now()).
		Scan(&i.id, &i.orgID, &i.email, &i.firstName, &i.lastName, &i.role, &i.mailed)
	if errors.Is(err, db.ErrNoRows) {
		return i, errNoInvitation
	}
	if err != nil {
		return i, fmt.Errorf("use invitation: %w", err)
	}
	return i, nil
}

// lockAddressee locks the user that an invitation is for, and reports whether the user has proved the
// address. It returns NotFound if the invitation is for somebody else.
func lockAddressee(tx *db.Tx, i takenInvitation, userID string) (proved bool, err error) {
	err = tx.Row(`UPDATE users SET version = version WHERE id = $1 AND email = $2 RETURNING email_verified`,
		userID, i.email).Scan(&proved)
	if errors.Is(err, db.ErrNoRows) {
		return false, errNoInvitation
	}
	if err != nil {
		return false, fmt.Errorf("lock user: %w", err)
	}
	return proved, nil
}

func (s *Store) join(tx *db.Tx, i takenInvitation, userID string) error {
	added, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (org_id, user_id) DO NOTHING`, i.orgID, userID, i.role, s.now())
	if err != nil {
		return fmt.Errorf("insert member: %w", err)
	}
	if added == 0 {
		return errs.New(errs.Conflict, "this user is a member already")
	}
	if err := s.auditAs(tx, &auth.Caller{OrgID: i.orgID, UserID: userID}, "member.accept", i.id); err != nil {
		return err
	}
	return tx.Invalidate(auth.Callers)
}

// auditAs records an action by a caller other than the transaction's.
func (s *Store) auditAs(tx *db.Tx, caller *auth.Caller, action, target string) error {
	return s.DB.Write(auth.With(tx.Context(), caller), func(tx *db.Tx) error { return s.Audit.Record(tx, action, target) })
}
