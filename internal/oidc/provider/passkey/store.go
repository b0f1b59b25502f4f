package passkey

import (
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	prefix  = "psk"
	columns = `user_id, id, credential_id, handle, public_key, backup_eligible, sign_count, name, created_at, last_used_at`
)

func scan(row db.Row) (p Passkey, err error) {
	err = row.Scan(&p.UserID, &p.ID, &p.credentialID, &p.handle, &p.publicKey, &p.backupEligible, &p.signCount,
		&p.Name, &p.CreatedAt, &p.LastUsedAt)
	if err != nil {
		return Passkey{}, fmt.Errorf("read passkey: %w", err)
	}
	return p, nil
}

func (m *Manager) list(q db.Querier, userID string) ([]Passkey, error) {
	return db.Collect(q, scan, `SELECT `+columns+` FROM oidc_passkeys WHERE user_id = $1 AND rp_id = $2 ORDER BY id`,
		userID, m.rpID)
}

// byCredential returns the passkey with a credential's id, or db.ErrNoRows.
func (m *Manager) byCredential(q db.Querier, credentialID []byte) (Passkey, error) {
	return scan(q.Row(`SELECT `+columns+` FROM oidc_passkeys WHERE credential_id = $1 AND rp_id = $2`,
		credentialID, m.rpID))
}

func (m *Manager) count(q db.Querier, userID string) (n int, err error) {
	err = q.Row(`SELECT count(*) FROM oidc_passkeys WHERE user_id = $1 AND rp_id = $2`, userID, m.rpID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count passkeys: %w", err)
	}
	return n, nil
}

// Count returns how many passkeys a user can sign in with. If the caller has locked the user, the count
// stays true until the transaction ends.
func (m *Manager) Count(q db.Querier, userID string) (int, error) { return m.count(q, userID) }

// New is a passkey that a person has created and we have not stored yet.
type New struct {
	challenge string
	key       Passkey
}

// Add stores a new passkey for a user, whom the caller has locked. It returns ErrTooMany, ErrExists, or
// ErrUsed if the same answer was sent before.
func (m *Manager) Add(tx *db.Tx, userID string, n *New) error {
	if err := m.useUp(tx, n.challenge); err != nil {
		return err
	}
	count, err := m.count(tx, userID)
	if err != nil {
		return err
	}
	if count >= Max {
		return ErrTooMany
	}
	now := m.Now()
	added, err := tx.Exec(`INSERT INTO oidc_passkeys (user_id, id, credential_id, rp_id, handle, public_key,
		backup_eligible, sign_count, name, created_at) VALUES (@user_id, @id, @credential_id, @rp_id, @handle,
		@public_key, @backup_eligible, @sign_count, @name, @created_at) ON CONFLICT (credential_id) DO NOTHING`,
		db.Args{
			"user_id": userID, "id": id.At(prefix, now), "credential_id": n.key.credentialID, "rp_id": m.rpID,
			"handle": n.key.handle, "public_key": n.key.publicKey, "backup_eligible": n.key.backupEligible,
			"sign_count": n.key.signCount, "name": n.key.Name, "created_at": stamp.Of(now),
		})
	if err != nil {
		return fmt.Errorf("insert passkey: %w", err)
	}
	if added == 0 {
		return ErrExists
	}
	return nil
}

// useUp records that a challenge was answered. It returns ErrUsed if any replica has recorded it before.
func (m *Manager) useUp(tx *db.Tx, challenge string) error {
	expires := stamp.Of(m.Now()).Add(2 * challengeLifetime) // replicas' clocks differ
	inserted, err := tx.Exec(`INSERT INTO oidc_challenges (challenge_hash, expires_at) VALUES ($1, $2)
		ON CONFLICT (challenge_hash) DO NOTHING`, seal.Hash(challenge), expires)
	if err != nil {
		return fmt.Errorf("store challenge of a passkey: %w", err)
	}
	if inserted == 0 {
		return ErrUsed
	}
	return nil
}

// Use records that a user used a passkey. It returns ErrUsed if the same answer was sent before, and
// ErrRefused if the passkey was removed. It returns ErrCounter if the authenticator's counter has not
// grown since the last use, which suggests that somebody uses a copy.
func (m *Manager) Use(tx *db.Tx, a *Assertion) error {
	if err := m.useUp(tx, a.challenge); err != nil {
		return err
	}
	var before int64
	err := tx.Row(`UPDATE oidc_passkeys SET sign_count = sign_count WHERE user_id = $1 AND id = $2 RETURNING sign_count`,
		a.UserID, a.key.ID).Scan(&before)
	if errors.Is(err, db.ErrNoRows) {
		return ErrRefused
	}
	if err != nil {
		return fmt.Errorf("lock passkey: %w", err)
	}
	if a.count <= before && (a.count != 0 || before != 0) {
		return ErrCounter
	}
	if _, err := tx.Exec(`UPDATE oidc_passkeys SET sign_count = $3, last_used_at = $4 WHERE user_id = $1 AND id = $2`,
		a.UserID, a.key.ID, a.count, stamp.Of(m.Now())); err != nil {
		return fmt.Errorf("update passkey: %w", err)
	}
	return nil
}

// Rename changes a passkey's name. It returns NotFound if the user has no such passkey.
func (m *Manager) Rename(tx *db.Tx, userID, passkeyID, name string) error {
	n, err := tx.Exec(`UPDATE oidc_passkeys SET name = $3 WHERE user_id = $1 AND id = $2`, userID, passkeyID, name)
	return changed(n, err, passkeyID)
}

// Remove removes a passkey. It returns NotFound if the user has no such passkey.
func (m *Manager) Remove(tx *db.Tx, userID, passkeyID string) error {
	n, err := tx.Exec(`DELETE FROM oidc_passkeys WHERE user_id = $1 AND id = $2`, userID, passkeyID)
	return changed(n, err, passkeyID)
}

// RemoveAll removes all of a user's passkeys.
func RemoveAll(tx *db.Tx, userID string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_passkeys WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("delete passkeys: %w", err)
	}
	return nil
}

// changed returns the error for a statement that changed n rows for a passkey.
func changed(n int64, err error, passkeyID string) error {
	if err != nil {
		return fmt.Errorf("change passkey: %w", err)
	}
	if n == 0 {
		return errs.Missing("passkey", passkeyID)
	}
	return nil
}
