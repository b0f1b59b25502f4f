package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	mailqueue "steward/internal/mail"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// emailLifetime is how long a user can confirm a new address.
const emailLifetime = 24 * time.Hour

// EmailProblem explains in a sentence why an address is invalid, or returns "".
func EmailProblem(email string) string {
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email || len(email) > maxEmail {
		return "This is not an email address."
	}
	return ""
}

// errNoChange does not distinguish links that were used, replaced or voided, have expired, or never
// existed, or addresses that belong to somebody else.
var errNoChange = errs.New(errs.NotFound, "link not found")

// RequestEmail notes that a user wants another address, and mails a link there. The address must be
// valid. RequestEmail does not reveal whether it has an account. An earlier request becomes void.
func (s *Store) RequestEmail(tx *db.Tx, userID, email string) error {
	state, err := userState(tx, userID)
	if err != nil {
		return err
	}
	now := s.now()
	if _, err := tx.Exec(`INSERT INTO email_changes (user_id, email, made_for, created_at, expires_at)
		VALUES (@user_id, @email, @made_for, @now, @expires_at)
		ON CONFLICT (user_id) DO UPDATE SET email = excluded.email, token_hash = NULL, made_for = excluded.made_for,
			created_at = excluded.created_at, expires_at = excluded.expires_at`,
		db.Args{
			"user_id": userID, "email": strings.ToLower(email), "made_for": state, "now": now,
			"expires_at": now.Add(emailLifetime),
		}); err != nil {
		return fmt.Errorf("insert change of address: %w", err)
	}
	if s.Mail == nil {
		return nil
	}
	return s.Mail.Add(tx, mailqueue.Request{Kind: mailqueue.KindEmail, UserID: userID})
}

// EmailChange is the change that a link confirms.
type EmailChange struct {
	UserID, Email string
	Expires       stamp.Time
}

// NewMailedEmail makes the link that proves a user's new address; an earlier link becomes void. It
// returns NotFound if the user no longer wants the change, or another user has the address.
func (s *Store) NewMailedEmail(ctx context.Context, userID string) (c EmailChange, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE email_changes SET token_hash = $2 WHERE user_id = $1`, userID, seal.Hash(token))
		if err != nil {
			return fmt.Errorf("renew link of address: %w", err)
		}
		c, err = s.emailChange(tx, token)
		return err
	})
	return c, token, err
}

// EmailChangeOf returns the change for a token. It returns NotFound if the token was used or replaced, has
// expired or never existed, if the facts it was made for have changed, or if another user has the address.
func (s *Store) EmailChangeOf(ctx context.Context, token string) (EmailChange, error) {
	return s.emailChange(s.DB.Read(ctx), token)
}

func (s *Store) emailChange(q db.Querier, token string) (c EmailChange, err error) {
	var madeFor []byte
	err = q.Row(`SELECT user_id, email, made_for, expires_at FROM email_changes c WHERE token_hash = $1 AND expires_at > $2
		AND NOT EXISTS (SELECT 1 FROM users u WHERE u.email = c.email)`, seal.Hash(token), s.now()).
		Scan(&c.UserID, &c.Email, &madeFor, &c.Expires)
	if errors.Is(err, db.ErrNoRows) {
		return EmailChange{}, errNoChange
	}
	if err != nil {
		return EmailChange{}, fmt.Errorf("get change of address: %w", err)
	}
	state, err := userState(q, c.UserID)
	if err != nil {
		return EmailChange{}, err
	}
	if !bytes.Equal(state, madeFor) {
		return EmailChange{}, errNoChange
	}
	return c, nil
}

// UseEmailChange gives a user the address that received the link, and marks it as proved. It returns the
// same errors as EmailChangeOf, and NotFound if the link is for another user.
func (s *Store) UseEmailChange(tx *db.Tx, token, userID string) error {
	if err := LockUser(tx, userID); err != nil {
		return err
	}
	c, err := s.emailChange(tx, token)
	if err != nil {
		return err
	}
	if c.UserID != userID {
		return errNoChange
	}
	if _, err := tx.Exec(`DELETE FROM email_changes WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("use change of address: %w", err)
	}
	_, err = tx.Exec(`UPDATE users SET email = $2, email_verified = TRUE, version = version + 1, updated_at = $3
		WHERE id = $1`, userID, c.Email, s.now())
	if db.IsUnique(err) {
		return errNoChange // somebody else has taken the address in the meantime
	}
	if err != nil {
		return fmt.Errorf("update address: %w", err)
	}
	return tx.Invalidate(auth.Callers)
}
