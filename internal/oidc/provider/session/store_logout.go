package session

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/stamp"
)

// AddClient records that a client gets an ID token in a session, so that we tell it when the session
// ends. It returns false if the session has ended already. The session cannot end before the
// transaction does.
func AddClient(tx *db.Tx, c *oidc.Registered, sessionID string, now stamp.Time) (live bool, err error) {
	var userID string
	err = tx.Row(`UPDATE oidc_sessions SET user_id = user_id WHERE id = $1 AND expires_at > $2 RETURNING user_id`,
		sessionID, now).Scan(&userID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock session: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO oidc_logouts (session_id, client_id, org_id, user_id, attempts)
		VALUES ($1, $2, $3, $4, 0) ON CONFLICT (session_id, client_id) DO NOTHING`, sessionID, c.ID, c.OrgID, userID); err != nil {
		return false, fmt.Errorf("insert logout: %w", err)
	}
	return true, nil
}

// Clients returns up to limit clients with a logout URI that got an ID token in a session.
func (m *Manager) Clients(ctx context.Context, sessionID string, limit int) ([]string, error) {
	ids, err := db.Collect(m.DB.Read(ctx), db.Value[string], `SELECT client_id FROM oidc_logouts WHERE session_id = $1
		ORDER BY client_id LIMIT $2`, sessionID, limit)
	if err != nil {
		return nil, fmt.Errorf("read clients of session: %w", err)
	}
	return ids, nil
}

// purgeBatch caps the rows deleted in one transaction, so that other writes can pass.
const purgeBatch = 1000

// PurgeLogouts deletes the logouts for expired sessions, because we do not tell clients about those. Call it
// before deleting the sessions.
func PurgeLogouts(ctx context.Context, d *db.DB, now stamp.Time) error {
	for n := int64(purgeBatch); n == purgeBatch; {
		var err error
		n, err = d.Exec(ctx, `DELETE FROM oidc_logouts WHERE due_at IS NULL AND (session_id, client_id) IN (
			SELECT l.session_id, l.client_id FROM oidc_sessions s JOIN oidc_logouts l ON l.session_id = s.id
			WHERE s.expires_at < $1 AND l.due_at IS NULL LIMIT $2)`, now, purgeBatch)
		if err != nil {
			return fmt.Errorf("purge oidc_logouts: %w", err)
		}
	}
	return nil
}

type target struct{ orgID, clientID string }

// logout is a logout that this process has leased.
type logout struct {
	sessionID, userID string
	// attempts counts the failed attempts.
	attempts int64
}

// lease takes a client's due logouts until a time. It skips those that another process is taking.
func lease(tx *db.Tx, clientID string, now, until stamp.Time) ([]logout, error) {
	scan := func(row db.Row) (l logout, err error) { return l, row.Scan(&l.sessionID, &l.userID, &l.attempts) }
	leased, err := db.Collect(tx, scan, `UPDATE oidc_logouts SET due_at = $3
		WHERE client_id = $1 AND due_at <= $2 AND session_id IN (SELECT session_id FROM oidc_logouts
			WHERE client_id = $1 AND due_at <= $2 ORDER BY due_at, session_id LIMIT $4`+db.SkipLocked(tx.Dialect())+`)
		RETURNING session_id, user_id, attempts`, clientID, now, until, batchSize)
	if err != nil {
		return nil, fmt.Errorf("lease logouts: %w", err)
	}
	return leased, nil
}

// release makes a leased logout due again at the given time.
func release(tx *db.Tx, clientID, sessionID string, due stamp.Time) error {
	if _, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3 WHERE session_id = $1 AND client_id = $2`,
		sessionID, clientID, due); err != nil {
		return fmt.Errorf("release logout: %w", err)
	}
	return nil
}

// postponement says when to retry a client's logouts, and when to give up.
type postponement struct {
	clientID    string
	now         stamp.Time
	due, giveUp stamp.Time
}

// all postpones all of the client's due logouts, because we could not reach it.
func (p postponement) all(tx *db.Tx) error {
	if _, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3, give_up_at = COALESCE(give_up_at, $4)
		WHERE client_id = $1 AND due_at <= $2`, p.clientID, p.now, p.due, p.giveUp); err != nil {
		return fmt.Errorf("postpone logouts: %w", err)
	}
	return nil
}
