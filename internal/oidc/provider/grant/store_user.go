package grant

import (
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// RevokeOfUser voids everything issued to clients on a user's behalf, as Revoke does for one grant. It
// keeps only the grants that belong to keepSession; grants without a session, such as a device's, go
// too. With keepSession "" it keeps none.
func RevokeOfUser(tx *db.Tx, userID, keepSession string, now stamp.Time) error {
	if _, err := tx.Exec(`UPDATE oidc_grants SET revoked_at = $2
		WHERE user_id = $1 AND revoked_at IS NULL AND (session_id IS NULL OR session_id <> $3)`,
		userID, now, keepSession); err != nil {
		return fmt.Errorf("revoke grants of user: %w", err)
	}
	// Only grants redeemed or refreshed lately have access tokens that are still valid.
	if _, err := tx.Exec(`INSERT INTO oidc_revoked (id, expires_at) SELECT id, $3 FROM oidc_grants
		WHERE user_id = $1 AND revoked_at = $2 AND COALESCE(rotated_at, redeemed_at, 0) > $4
		ON CONFLICT (id) DO NOTHING`,
		userID, now, now.Add(maxAccessLifetime+clockSkew), now.Add(-maxAccessLifetime-clockSkew)); err != nil {
		return fmt.Errorf("insert revoked ids of user: %w", err)
	}
	return tx.Invalidate(Cache)
}
