package keys

import (
	"context"
	"fmt"

	"steward/internal/stamp"
)

// Info describes a key to administrators.
type Info struct {
	_ struct{} `goName:"SigningKey"`

	ID        string      `json:"id" doc:"Key id (kid) in tokens and in the JWKS" example:"HcTgNQF3aLz8aXQv1sN5b0cV3cM3WmJq5o2e7n0p1rt"`
	Algorithm string      `json:"algorithm" example:"RS256"`
	State     State       `json:"state" enum:"next,active,retiring" doc:"next is published and does not sign yet, active signs, retiring only verifies"`
	CreatedAt stamp.Time  `json:"created_at" format:"date-time"`
	ActiveAt  *stamp.Time `json:"active_at,omitempty" format:"date-time" doc:"When the key began to sign; absent if it is next"`
	GoneAt    *stamp.Time `json:"gone_at,omitempty" format:"date-time" doc:"When a retiring key leaves the JWKS: all tokens that it signed have expired then"`
}

// List returns all keys, for each algorithm the active key, the next ones, then the retiring ones.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	if err := s.EnsureFirst(ctx); err != nil {
		return nil, err
	}
	stored, err := readPublic(s.DB.Read(ctx))
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	list := make([]Info, len(stored))
	for i, k := range stored {
		shown := Info{ID: k.kid, Algorithm: string(k.alg), State: k.state, CreatedAt: k.createdAt, ActiveAt: k.activeAt}
		if k.retiredAt != nil {
			gone := k.retiredAt.Add(RetainTime)
			shown.GoneAt = &gone
		}
		list[i] = shown
	}
	return list, nil
}
