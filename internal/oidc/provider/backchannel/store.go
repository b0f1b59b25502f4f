package backchannel

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Add notes that a client must hear when a session ends.
func Add(tx *db.Tx, c Client) error {
	_, err := tx.Exec(`INSERT INTO oidc_logouts (session_id, client_id, org_id, user_id, attempts)
		VALUES ($1, $2, $3, $4, 0) ON CONFLICT (session_id, client_id) DO NOTHING`,
		c.SessionID, c.ClientID, c.OrgID, c.UserID)
	if err != nil {
		return fmt.Errorf("insert logout: %w", err)
	}
	return nil
}

// Clients returns at most limit clients that got an ID token in a session.
func Clients(q db.Querier, sessionID string, limit int) ([]string, error) {
	ids, err := db.Collect(q, db.Value[string], `SELECT client_id FROM oidc_logouts WHERE session_id = $1
		ORDER BY client_id LIMIT $2`, sessionID, limit)
	if err != nil {
		return nil, fmt.Errorf("read clients of session: %w", err)
	}
	return ids, nil
}

// EndSession makes a session's logouts due. Call it in the transaction that ends the session.
func EndSession(tx *db.Tx, userID, sessionID string) error {
	_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = 0 WHERE session_id = $1 AND user_id = $2 AND due_at IS NULL`,
		sessionID, userID)
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// EndOthers makes the logouts due for all of a user's sessions but keep, or for all of them if keep is
// "".
func EndOthers(tx *db.Tx, userID, keep string) error {
	_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = 0 WHERE user_id = $1 AND session_id <> $2 AND due_at IS NULL`,
		userID, keep)
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	return nil
}

// purgeBatch bounds how many rows one transaction deletes, so that other writes can pass.
const purgeBatch = 1000

// Purge deletes the logouts of expired sessions, since clients do not hear about those. Call it before
// you delete the sessions.
func Purge(ctx context.Context, d *db.DB, now stamp.Time) error {
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

// target is a client with logouts that are due.
type target struct{ orgID, clientID string }

// dueClients returns at most limit clients with due logouts, the longest wait first.
func dueClients(q db.Querier, now stamp.Time, limit int) ([]target, error) {
	scan := func(row db.Row) (t target, err error) { return t, row.Scan(&t.orgID, &t.clientID) }
	due, err := db.Collect(q, scan, `SELECT org_id, client_id FROM oidc_logouts WHERE due_at <= $1
		GROUP BY org_id, client_id ORDER BY min(due_at), client_id LIMIT $2`, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read due logouts: %w", err)
	}
	return due, nil
}

// logout is a client's logout that this process has leased.
type logout struct {
	sessionID, userID string
	// attempts counts the failed attempts.
	attempts int64
}

// lease takes a client's due logouts for this process until the given time. It skips the ones that
// another process is taking.
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

// remove deletes a logout that needs no further attempt.
func remove(tx *db.Tx, clientID, sessionID string) error {
	_, err := tx.Exec(`DELETE FROM oidc_logouts WHERE session_id = $1 AND client_id = $2`, sessionID, clientID)
	if err != nil {
		return fmt.Errorf("delete logout: %w", err)
	}
	return nil
}

// release makes a leased logout due again at the given time.
func release(tx *db.Tx, clientID, sessionID string, due stamp.Time) error {
	_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3 WHERE session_id = $1 AND client_id = $2`,
		sessionID, clientID, due)
	if err != nil {
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

// one stores a failed attempt.
func (p postponement) one(tx *db.Tx, l logout) error {
	_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3, attempts = attempts + 1, give_up_at = COALESCE(give_up_at, $4)
		WHERE session_id = $1 AND client_id = $2`, l.sessionID, p.clientID, p.due, p.giveUp)
	if err != nil {
		return fmt.Errorf("update logout: %w", err)
	}
	return nil
}

// all postpones all of the client's due logouts, because we could not reach it.
func (p postponement) all(tx *db.Tx) error {
	_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3, give_up_at = COALESCE(give_up_at, $4)
		WHERE client_id = $1 AND due_at <= $2`, p.clientID, p.now, p.due, p.giveUp)
	if err != nil {
		return fmt.Errorf("postpone logouts: %w", err)
	}
	return nil
}

// drop deletes a client's logouts that we have tried for long enough. If more than most remain, it also
// deletes the ones from the oldest sessions. It returns how many it deleted.
func drop(tx *db.Tx, clientID string, most int) (dropped int64, err error) {
	late, err := tx.Exec(`DELETE FROM oidc_logouts WHERE client_id = $1 AND due_at >= give_up_at`, clientID)
	if err != nil {
		return 0, fmt.Errorf("delete old logouts: %w", err)
	}
	surplus, err := tx.Exec(`DELETE FROM oidc_logouts WHERE client_id = $1 AND due_at IS NOT NULL AND session_id <= (
		SELECT session_id FROM oidc_logouts WHERE client_id = $1 AND due_at IS NOT NULL
		ORDER BY session_id DESC LIMIT 1 OFFSET $2)`, clientID, most)
	if err != nil {
		return 0, fmt.Errorf("delete surplus logouts: %w", err)
	}
	return late + surplus, nil
}
