package session

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/backchannel"
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
	return true, backchannel.Add(tx, backchannel.Client{
		SessionID: sessionID, ClientID: c.ID, OrgID: c.OrgID, UserID: userID,
	})
}

// Clients returns up to limit clients with a logout URI that got an ID token in a session.
func (m *Manager) Clients(ctx context.Context, sessionID string, limit int) ([]string, error) {
	return backchannel.Clients(m.DB.Read(ctx), sessionID, limit)
}
