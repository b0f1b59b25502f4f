package grant

import (
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// RevokeToken voids an access token. expires is the token's expiry, until which we must remember it.
func RevokeToken(tx *db.Tx, jti string, expires time.Time) error {
	return revokeUntil(tx, jti, stamp.Of(expires).Add(clockSkew))
}

// revokeUntil adds an id to the set of revoked ids.
func revokeUntil(tx *db.Tx, id string, until stamp.Time) error {
	_, err := tx.Exec(`INSERT INTO oidc_revoked (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, until)
	if err != nil {
		return fmt.Errorf("insert revoked id: %w", err)
	}
	return tx.Invalidate(Cache)
}

func revokedIDs(q db.Querier, now stamp.Time, limit int) ([]string, error) {
	ids, err := db.Collect(q, db.Value[string], `SELECT id FROM oidc_revoked WHERE expires_at > $1 LIMIT $2`, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read revoked ids: %w", err)
	}
	return ids, nil
}
