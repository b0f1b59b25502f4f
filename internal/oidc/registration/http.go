package registration

import (
	"context"

	"steward/internal/auth"
	"steward/internal/idempotency"
	"steward/internal/web"
)

// Handler serves the package's routes, with one method for each.
type Handler struct {
	Store *Store
}

// List serves GET /oidc/registration-token.
func (h *Handler) List(ctx context.Context, _ *struct{}) ([]Token, error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID)
}

// Create serves POST /oidc/registration-token.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewToken }) (Created, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Created, error) {
		return h.Store.Create(ctx, auth.From(ctx), in.Body)
	})
}

// Delete serves DELETE /oidc/registration-token/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"id" doc:"Id of the registration token" example:"rgt_01jcq3w7y2b5d8f1h4k7n0q3st"`
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx), in.ID)
}
