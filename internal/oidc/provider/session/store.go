package session

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const columns = `id, user_id, auth_time, amr, user_agent, remote_addr, created_at, last_seen_at, expires_at, org_id`

func scan(row db.Row) (*Session, error) {
	var s Session
	var methods string
	err := row.Scan(&s.ID, &s.UserID, &s.AuthTime, &methods, &s.UserAgent, &s.RemoteAddr, &s.CreatedAt, &s.LastSeenAt, &s.ExpiresAt, &s.OrgID)
	if err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	s.Methods = oauth.ParseMethods(methods)
	return &s, nil
}

func insert(tx *db.Tx, s *Session, token string) error {
	_, err := tx.Exec(`INSERT INTO oidc_sessions (token_hash, `+columns+`) VALUES (@token_hash, @id, @user_id,
		@auth_time, @amr, @user_agent, @remote_addr, @created_at, @last_seen_at, @expires_at, @org_id)`,
		db.Args{
			"token_hash": seal.Hash(token), "id": s.ID, "user_id": s.UserID, "auth_time": s.AuthTime,
			"amr": s.Methods.String(), "user_agent": s.UserAgent, "remote_addr": s.RemoteAddr, "created_at": s.CreatedAt,
			"last_seen_at": s.LastSeenAt, "expires_at": s.ExpiresAt, "org_id": s.OrgID,
		})
	if err != nil {
		return fmt.Errorf("insert session: %w", err)
	}
	return nil
}

// Cache names the session cache. A transaction that ends or renews a session invalidates it.
const Cache = "oidc_sessions"

// renew stores a new token and authentication time. It returns false if the session has ended.
func renew(tx *db.Tx, s *Session, token string) (bool, error) {
	n, err := tx.Exec(`UPDATE oidc_sessions SET token_hash = @token_hash, auth_time = @auth_time, amr = @amr,
		user_agent = @user_agent, remote_addr = @remote_addr, last_seen_at = @last_seen_at,
		expires_at = @expires_at, org_id = @org_id WHERE id = @id`,
		db.Args{
			"id": s.ID, "token_hash": seal.Hash(token), "auth_time": s.AuthTime,
			"amr": s.Methods.String(), "user_agent": s.UserAgent, "remote_addr": s.RemoteAddr, "last_seen_at": s.LastSeenAt, "expires_at": s.ExpiresAt,
			"org_id": s.OrgID,
		})
	if err != nil {
		return false, fmt.Errorf("renew session: %w", err)
	}
	return n == 1, tx.Invalidate(Cache)
}

// hasNotEnded selects sessions that have not ended, with the arguments from bounds.
const hasNotEnded = `expires_at > @now AND last_seen_at > @seen_after AND auth_time > @signed_in_after`

// bounds returns the arguments for hasNotEnded. The present limits also apply to sessions that began
// before we set them.
func (m *Manager) bounds(now stamp.Time) db.Args {
	return db.Args{"now": now, "seen_after": now.Add(-m.IdleTimeout), "signed_in_after": now.Add(-m.MaxAge)}
}

// find returns the session with a value in a column, or db.ErrNoRows if it has ended.
func (m *Manager) find(ctx context.Context, column string, value any, now stamp.Time) (*Session, error) {
	args := m.bounds(now)
	args["value"] = value
	return scan(m.DB.Read(ctx).Row(`SELECT `+columns+` FROM oidc_sessions WHERE `+column+` = @value AND `+hasNotEnded, args))
}

// Live reports whether a session has not ended.
func (m *Manager) Live(ctx context.Context, sessionID string) (bool, error) {
	_, err := m.find(ctx, "id", sessionID, stamp.Of(m.Now()))
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// List returns a user's latest 100 sessions, most recently used first.
func (m *Manager) List(ctx context.Context, userID string) ([]*Session, error) {
	args := m.bounds(stamp.Of(m.Now()))
	args["user_id"] = userID
	return db.Collect(m.DB.Read(ctx), scan, `SELECT `+columns+` FROM oidc_sessions WHERE user_id = @user_id AND `+hasNotEnded+`
		ORDER BY last_seen_at DESC, id DESC LIMIT 100`, args)
}

func remove(tx *db.Tx, userID, sessionID string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_sessions WHERE id = $1 AND user_id = $2`, sessionID, userID); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	if _, err := tx.Exec(`UPDATE oidc_logouts SET due_at = 0 WHERE session_id = $1 AND user_id = $2 AND due_at IS NULL`,
		sessionID, userID); err != nil {
		return fmt.Errorf("make logouts due: %w", err)
	}
	return tx.Invalidate(Cache)
}

// RemoveOthers ends all sessions of a user except keep, which may be "".
func RemoveOthers(tx *db.Tx, userID, keep string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_sessions WHERE user_id = $1 AND id <> $2`, userID, keep); err != nil {
		return fmt.Errorf("delete sessions: %w", err)
	}
	if _, err := tx.Exec(`UPDATE oidc_logouts SET due_at = 0 WHERE user_id = $1 AND session_id <> $2 AND due_at IS NULL`,
		userID, keep); err != nil {
		return fmt.Errorf("make logouts due: %w", err)
	}
	return tx.Invalidate(Cache)
}

// RemoveAll ends all of a user's sessions.
func RemoveAll(tx *db.Tx, userID string) error { return RemoveOthers(tx, userID, "") }
