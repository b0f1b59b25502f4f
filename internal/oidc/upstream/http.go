package upstream

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler serves the package's routes, with one method for each.
type Handler struct {
	Store *Store
	// BaseURL is the installation's base URL.
	BaseURL string
}

// The pages that users sign in through.
const (
	PathSignIn   = "/sign-in/upstream"
	PathCallback = PathSignIn + "/callback"
)

// setLinks sets an upstream's URLs.
func (h *Handler) setLinks(u *Upstream) {
	u.RedirectURI = h.BaseURL + PathCallback
	u.SignInURL = h.BaseURL + PathSignIn + "/" + u.ID
}

// Path names an upstream.
type Path struct {
	ID string `path:"id" doc:"Id of the upstream" example:"ups_01jcq3w7y2b5d8f1h4k7n0q3st"`
}

// List serves GET /oidc/upstream.
func (h *Handler) List(ctx context.Context, _ *struct{}) ([]Upstream, error) {
	list, err := h.Store.List(ctx, auth.From(ctx).OrgID)
	for i := range list {
		h.setLinks(&list[i])
	}
	return list, err
}

// Create serves POST /oidc/upstream.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewUpstream }) (Upstream, error) {
	var faults errs.Faults
	in.Body.Check(&faults)
	if err := faults.Err(); err != nil {
		return Upstream{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Upstream, error) {
		u, err := h.Store.Create(ctx, auth.From(ctx), in.Body)
		h.setLinks(&u)
		return u, err
	})
}

// Get serves GET /oidc/upstream/{id}.
func (h *Handler) Get(ctx context.Context, in *Path) (Upstream, error) {
	u, err := h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
	h.setLinks(&u)
	return u, err
}

// Update serves PUT /oidc/upstream/{id}.
func (h *Handler) Update(ctx context.Context, in *struct {
	Path
	page.IfMatch
	Body Patch
},
) (Upstream, error) {
	u, err := h.Store.Update(ctx, auth.From(ctx), Change{in.ID, in.IfMatch}, in.Body)
	h.setLinks(&u)
	return u, err
}

// Delete serves DELETE /oidc/upstream/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	Path
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx), Change{in.ID, in.IfMatch})
}
