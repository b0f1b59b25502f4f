package audit

import (
	"context"

	"steward/internal/auth"
	"steward/internal/page"
)

// Handler serves the routes of this package.
type Handler struct{ Store *Store }

// List serves GET /audit.
func (h *Handler) List(ctx context.Context, in *struct{ page.Paging }) (page.Page[Entry], error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID, in.Paging)
}
