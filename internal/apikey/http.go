package apikey

import (
	"context"

	"steward/internal/auth"
	"steward/internal/idempotency"
	"steward/internal/page"
)

// Handler serves the routes of this package.
type Handler struct{ Store *Store }

// Create serves POST /cli/apikey.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewKey }) (Created, error) {
	caller := auth.From(ctx)
	k, err := in.Body.Build(caller, h.Store.Now())
	if err != nil {
		return Created{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Created, error) {
		value, err := h.Store.Create(ctx, caller, k)
		return Created{ID: k.ID, Value: value}, err
	})
}

// List serves GET /cli/apikey.
func (h *Handler) List(ctx context.Context, in *struct {
	OrgID     string      `query:"orgId" doc:"Only keys of this organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string      `query:"projectId" doc:"Only keys of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	Limit     int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"Maximum number of items"`
	Offset    int         `query:"offset" minimum:"0" doc:"Number of items to skip"`
	Cursor    page.Cursor `query:"cursor" doc:"Cursor from the next link" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
},
) (page.Page[Key], error) {
	caller := auth.From(ctx)
	if in.OrgID != "" && in.OrgID != caller.OrgID {
		return page.Page[Key]{}, nil
	}
	f := Filter{ProjectID: in.ProjectID}
	if !caller.Manages() {
		f.UserID = caller.UserID
	}
	return h.Store.List(ctx, caller.OrgID, f, page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
}

// Get serves GET /cli/apikey/{id}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Key, error) {
	return h.Store.Get(ctx, auth.From(ctx), in.ID)
}

// Delete serves DELETE /cli/apikey/{id}. It returns the number of deleted keys, which SDKs expect.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"id"`
	page.IfMatch
},
) (int, error) {
	return 1, h.Store.Delete(ctx, auth.From(ctx), in.ID, in.IfMatch)
}
