package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// resetLifetime is how long a link to set a new password is valid.
const resetLifetime = time.Hour

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
