package provider

import (
	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const sessionColumns = `id, user_id, auth_time, user_agent, remote_addr, created_at, last_seen_at, expires_at`

func scanSession(row db.Row) (*session, error) {
	var s session
	err := row.Scan(&s.ID, &s.UserID, &s.AuthTime, &s.UserAgent, &s.RemoteAddr, &s.CreatedAt, &s.LastSeenAt, &s.ExpiresAt)
	return &s, err
}

func insertSession(tx *db.Tx, s *session, token string) error {
	_, err := tx.Exec(`INSERT INTO oidc_sessions (token_hash, `+sessionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		seal.Hash(token), s.ID, s.UserID, s.AuthTime, s.UserAgent, s.RemoteAddr, s.CreatedAt, s.LastSeenAt, s.ExpiresAt)
	return err
}

// renewSession gives a session that signs in again a new token and a new time of authentication. False when it has ended meanwhile.
func renewSession(tx *db.Tx, s *session, token string) (bool, error) {
	n, err := tx.Exec(`UPDATE oidc_sessions SET token_hash = $2, auth_time = $3, user_agent = $4, remote_addr = $5,
		last_seen_at = $6, expires_at = $7 WHERE id = $1`,
		s.ID, seal.Hash(token), s.AuthTime, s.UserAgent, s.RemoteAddr, s.LastSeenAt, s.ExpiresAt)
	return n == 1, err
}

// sessionByToken gives ErrNoRows for a session that ended or was never there.
func sessionByToken(q db.Querier, token string, now stamp.Time) (*session, error) {
	return scanSession(q.Row(`SELECT `+sessionColumns+` FROM oidc_sessions WHERE token_hash = $1 AND expires_at > $2`, seal.Hash(token), now))
}

func sessionLives(q db.Querier, sessionID string, now stamp.Time) (bool, error) {
	var n int
	err := q.Row(`SELECT count(*) FROM oidc_sessions WHERE id = $1 AND expires_at > $2`, sessionID, now).Scan(&n)
	return n > 0, err
}

func sessionsOf(q db.Querier, userID string, now stamp.Time) ([]*session, error) {
	return db.Collect(q, scanSession, `SELECT `+sessionColumns+` FROM oidc_sessions WHERE user_id = $1 AND expires_at > $2
		ORDER BY last_seen_at DESC, id DESC LIMIT 100`, userID, now)
}

func touchSession(tx *db.Tx, s *session) error {
	_, err := tx.Exec(`UPDATE oidc_sessions SET last_seen_at = $2, expires_at = $3 WHERE id = $1`, s.ID, s.LastSeenAt, s.ExpiresAt)
	return err
}

// endSession ends a session of that user.
func endSession(tx *db.Tx, userID, sessionID string) error {
	_, err := tx.Exec(`DELETE FROM oidc_sessions WHERE id = $1 AND user_id = $2`, sessionID, userID)
	return err
}

// endSessions ends all sessions of a user but one.
func endSessions(tx *db.Tx, userID, but string) error {
	_, err := tx.Exec(`DELETE FROM oidc_sessions WHERE user_id = $1 AND id <> $2`, userID, but)
	return err
}
