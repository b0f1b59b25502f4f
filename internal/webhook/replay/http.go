package replay

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/web"
	"steward/internal/webhook"
)

// Handler has one method for each route of this package.
type Handler struct{ Store *Store }

// Create handles POST /webhook/replay/{webhookId}.
func (h *Handler) Create(ctx context.Context, in *struct {
	webhook.Path
	Body NewReplay
},
) (Replay, error) {
	var faults errs.Faults
	r := in.Body.build(&faults, h.Store.Now())
	if err := faults.Err(); err != nil {
		return Replay{}, err
	}
	r, err := h.Store.Plan(ctx, auth.From(ctx), in.ID, r)
	if err != nil || r.dryRun {
		return r, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Replay, error) { return r, h.Store.Create(ctx, r) })
}

// List handles GET /webhook/replay/{webhookId}.
func (h *Handler) List(ctx context.Context, in *struct {
	webhook.Path
	page.Paging
},
) (page.Page[Replay], error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID, in.ID, in.Paging)
}

// Get handles GET /webhook/replay/{webhookId}/{replayId}.
func (h *Handler) Get(ctx context.Context, in *struct {
	webhook.Path
	ReplayID string `path:"replayId"`
},
) (Replay, error) {
	return h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID, in.ReplayID)
}

// Cancel handles DELETE /webhook/replay/{webhookId}/{replayId}.
func (h *Handler) Cancel(ctx context.Context, in *struct {
	webhook.Path
	ReplayID string `path:"replayId"`
},
) (web.None, error) {
	return web.None{}, h.Store.Cancel(ctx, auth.From(ctx).OrgID, in.ID, in.ReplayID)
}
