package grant

import (
	"context"

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
	set, err := s.revoked.Get(struct{}{}, func() (*revokedSet, error) { return readRevoked(s.DB.Read(ctx), s.now()) })
	if err != nil {
		return false, err
	}
	if set.partial {
		return isRevoked(s.DB.Read(ctx), grantID, jti)
	}
	return set.ids[grantID] || set.ids[jti], nil
}

func readRevoked(q db.Querier, now stamp.Time) (*revokedSet, error) {
	ids, err := revokedIDs(q, now, MaxCached+1)
	if err != nil {
		return nil, err
	}
	set := &revokedSet{ids: make(map[string]bool, len(ids)), partial: len(ids) > MaxCached}
	for _, one := range ids {
		set.ids[one] = true
	}
	return set, nil
}
