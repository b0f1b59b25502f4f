package introspect

import (
	"context"
	"slices"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/jwt"
)

// checkActors returns jwt.ErrInvalid if a client that has exchanged a token was deleted, or may no
// longer exchange tokens.
func (h *Handler) checkActors(ctx context.Context, act *jwt.Actor) error {
	for ; act != nil; act = act.Actor {
		c, err := h.Clients.Lookup(ctx, act.Subject)
		if errs.KindOf(err) == errs.NotFound || err == nil && !slices.Contains(c.GrantTypes, oidc.TokenExchange) {
			return jwt.ErrInvalid
		}
		if err != nil {
			return err
		}
	}
	return nil
}
