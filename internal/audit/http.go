package audit

import (
	"context"

	"steward/internal/auth"
	"steward/internal/web"
)

// Handler has the route of this package.
type Handler struct{ Store *Store }

// List answers GET /audit.
func (h *Handler) List(ctx context.Context, in *struct{ web.Paging }) (web.Page[Entry], error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID, in.Paging)
}
