package grant

import (
	"context"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// MaxCached is the largest set of revoked ids that we keep in memory. With more, each check looks up
// its key, so that invalidating the cache stays cheap however much was revoked.
const MaxCached = 2000

// Cache names the cache for revoked ids.
const Cache = "oidc.revoked"

// Forget empties the cache of revoked ids. Call it when Cache is invalidated.
func (s *Store) Forget() { s.revoked.Forget() }

// revokedSet holds the ids of grants and single access tokens that were revoked before they expired.
type revokedSet struct {
	ids map[string]bool
	// partial reports whether there are more than MaxCached.
	partial bool
}

// Revoked reports whether an access token was revoked, alone by its jti or with its grant. The grant is
// empty for client_credentials.
func (s *Store) Revoked(ctx context.Context, grantID, jti string) (bool, error) {
	set, err := s.revoked.Get(struct{}{}, func() (*revokedSet, error) {
		ids, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT id FROM oidc_revoked WHERE expires_at > $1 LIMIT $2`, s.now(), MaxCached+1)
		if err != nil {
			return nil, fmt.Errorf("read revoked ids: %w", err)
		}
		set := &revokedSet{ids: make(map[string]bool, len(ids)), partial: len(ids) > MaxCached}
		for _, one := range ids {
			set.ids[one] = true
		}
		return set, nil
	})
	if err != nil {
		return false, err
	}
	if set.partial {
		var n int
		err := s.DB.Read(ctx).Row(`SELECT count(*) FROM oidc_revoked WHERE id = $1 OR id = $2`, grantID, jti).Scan(&n)
		if err != nil {
			return false, fmt.Errorf("read revoked ids: %w", err)
		}
		return n > 0, nil
	}
	return set.ids[grantID] || set.ids[jti], nil
}

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
