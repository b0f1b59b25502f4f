package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/mail"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// A mailed link proves its user's address, unless somebody else has seen the link. So we make its token
// only when we send the mail, and never return it in a response: an inviter gets a different link.

// mailInvitation mails an invitation's link, if the server can send mail.
func (s *Store) mailInvitation(tx *db.Tx, orgID, invitationID string) error {
	if s.Mail == nil {
		return nil
	}
	return s.Mail.AddInvitation(tx, orgID, invitationID)
}

// RequestReset mails the user with this address a link for setting a new password. It does the same
// whether or not there is such a user: we look that up when we send the mail.
func (s *Store) RequestReset(tx *db.Tx, email string) error {
	return s.Mail.Add(tx, mail.Request{Kind: mail.KindReset, To: email})
}

// Tell mails users a notice about their account, in the change's transaction, if the server can send mail.
func (s *Store) Tell(tx *db.Tx, userID string, n mail.Event) error {
	if s.Mail == nil {
		return nil
	}
	email, err := s.Email(tx, userID)
	if err != nil || email == "" {
		return err
	}
	return s.Mail.Add(tx, mail.Request{
		Kind: mail.KindNotice, To: email, Notice: n, At: s.now(), RemoteAddr: audit.RemoteAddr(tx.Context()),
	})
}

// Changed tells users about a change that they have made to their account, and records it.
func (s *Store) Changed(tx *db.Tx, userID, action string, n mail.Event) error {
	if err := s.Tell(tx, userID, n); err != nil {
		return err
	}
	return s.Audit.RecordUser(tx, action, userID, userID)
}

// MailedInvitation is an invitation with the mailed link's token.
type MailedInvitation struct {
	Invitation
	Token   string
	Expires stamp.Time
}

// NewMailedInvitation makes the link that we mail; an earlier mailed link becomes void. It returns
// NotFound if the invitation was answered or revoked, or is void.
func (s *Store) NewMailedInvitation(ctx context.Context, orgID, invitationID string) (MailedInvitation, error) {
	m := MailedInvitation{Token: id.Secret(43)}
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		err := tx.Row(`UPDATE invitations SET mailed_hash = $3
			WHERE org_id = $1 AND id = $2 AND token_hash IS NOT NULL AND expires_at > $4 RETURNING expires_at`,
			orgID, invitationID, seal.Hash(m.Token), s.now()).Scan(&m.Expires)
		if errors.Is(err, db.ErrNoRows) {
			return errNoInvitation
		}
		if err != nil {
			return fmt.Errorf("renew mailed link: %w", err)
		}
		return nil
	})
	if err != nil {
		return MailedInvitation{}, err
	}
	m.Invitation, err = s.InvitationByToken(ctx, m.Token)
	return m, err
}

// resetPause is the minimum time between two password links that we mail to a user.
const resetPause = 30 * time.Second

// NewMailedReset makes a password link for the user with this address, in lower case. The user has asked
// for it, so memberships in other organizations do not matter. It returns NotFound if nobody with the
// address can sign in, or if a link was made a moment ago.
func (s *Store) NewMailedReset(ctx context.Context, email string) (token string, expires stamp.Time, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		userID, err := s.lockResettable(tx, email)
		if err != nil {
			return err
		}
		if token, expires, err = s.NewReset(tx, userID); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE password_resets SET mailed = TRUE WHERE user_id = $1`, userID); err != nil {
			return fmt.Errorf("mark password reset: %w", err)
		}
		orgs, err := db.Collect(tx, db.Value[string], `SELECT org_id FROM active_members WHERE user_id = $1
			ORDER BY org_id`, userID)
		if err != nil {
			return fmt.Errorf("list memberships: %w", err)
		}
		return s.auditIn(tx, orgs, "member.reset_password", userID)
	})
	return token, expires, err
}

// lockResettable locks the user with an address. It returns the same errors as NewMailedReset.
func (s *Store) lockResettable(tx *db.Tx, email string) (userID string, err error) {
	err = tx.Row(`UPDATE users SET version = version WHERE email = $1
		AND EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND NOT m.disabled)
		AND NOT EXISTS (SELECT 1 FROM password_resets r WHERE r.user_id = users.id AND r.mailed AND r.created_at > $2)
		RETURNING id`, email, s.now().Add(-resetPause)).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.Missing("user", "with this address")
	}
	if err != nil {
		return "", fmt.Errorf("lock user: %w", err)
	}
	return userID, nil
}

// ProveEmail notes that a user has followed a mailed link and signed in, which proves the address.
func (s *Store) ProveEmail(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`UPDATE users SET email_verified = TRUE WHERE id = $1`, userID); err != nil {
		return fmt.Errorf("verify address: %w", err)
	}
	return nil
}

// claim removes every way in which others could act as a user whose address is not proved: whoever
// invited the address has seen the link, and may have opened the account with it. It does nothing once
// the address is proved.
func (s *Store) claim(tx *db.Tx, userID string) error {
	var proved bool
	if err := tx.Row(`SELECT email_verified FROM users WHERE id = $1`, userID).Scan(&proved); err != nil {
		return fmt.Errorf("find out whether the address is proved: %w", err)
	}
	if proved {
		return nil
	}
	return s.removeSignIns(tx, userID)
}

func (s *Store) removeSignIns(tx *db.Tx, userID string) error {
	for _, remove := range s.SignInsGone {
		if err := remove(tx, userID); err != nil {
			return err
		}
	}
	return nil
}

// releaseEmail takes an unproved address away from an account, so that the person who received a mailed
// link there can open another account with it. The old account keeps its memberships.
func (s *Store) releaseEmail(tx *db.Tx, email string) error {
	var userID string
	err := tx.Row(`UPDATE users SET email = NULL, version = version + 1, updated_at = $2
		WHERE email = $1 AND NOT email_verified AND (password_hash IS NOT NULL
			OR EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id)) RETURNING id`, email, s.now()).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release address: %w", err)
	}
	orgs, err := db.Collect(tx, db.Value[string], `SELECT org_id FROM members WHERE user_id = $1 ORDER BY org_id`, userID)
	if err != nil {
		return fmt.Errorf("list memberships: %w", err)
	}
	return s.auditIn(tx, orgs, "user.email_release", userID)
}

// Email returns a user's address, or "".
func (s *Store) Email(tx *db.Tx, userID string) (email string, err error) {
	err = tx.Row(`SELECT COALESCE(email, '') FROM users WHERE id = $1`, userID).Scan(&email)
	if err != nil {
		return "", fmt.Errorf("get address: %w", err)
	}
	return email, nil
}
