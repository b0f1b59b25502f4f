package introspect

import (
	"context"

	"steward/internal/errs"
	"steward/internal/oidc/provider/jwt"
)

// checkSuspended returns jwt.ErrInvalid if the organization that owns a token's client was deleted. The
// management API does not call it: it accepts the token, then refuses the request and says why.
func (h *Handler) checkSuspended(ctx context.Context, a *jwt.AccessClaims) error {
	c, err := h.Clients.Lookup(ctx, a.Client())
	if errs.KindOf(err) == errs.NotFound || err == nil && c.Suspended {
		return jwt.ErrInvalid
	}
	return err
}
