package provider

import (
	"context"

	"steward/internal/db"
	"steward/internal/stamp"
)

// maxRevoked is how large the set of what was revoked may be to be kept in memory whole. Beyond it each check is a look-up by key, so that
// emptying the cache stays cheap however much was revoked.
const maxRevoked = 2000

// revokedSet is what was revoked before its time: grants, and single tokens by their jti.
type revokedSet struct {
	ids map[string]bool
	// large means that ids is not all of it.
	large bool
}

// isRevoked tells whether a grant, or a token of it, was revoked. The grant may be empty. It answers from memory where it can; every
// revocation empties that.
func (p *Provider) isRevoked(ctx context.Context, grantID, jti string) (bool, error) {
	set, err := p.revoked.Get(struct{}{}, func() (*revokedSet, error) { return readRevoked(p.DB.Read(ctx), stamp.Of(p.Now())) })
	if err != nil {
		return false, err
	}
	if set.large {
		return anyRevoked(p.DB.Read(ctx), grantID, jti)
	}
	return set.ids[grantID] || set.ids[jti], nil
}

func readRevoked(q db.Querier, now stamp.Time) (*revokedSet, error) {
	list, err := revokedIDs(q, now, maxRevoked+1)
	if err != nil {
		return nil, err
	}
	set := &revokedSet{ids: make(map[string]bool, len(list)), large: len(list) > maxRevoked}
	for _, one := range list {
		set.ids[one] = true
	}
	return set, nil
}
