package grant

import (
	"context"
	"fmt"
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
		ids, err := revokedIDs(s.DB.Read(ctx), s.now(), MaxCached+1)
		if err != nil {
			return nil, err
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
