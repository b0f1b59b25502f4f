package oidc

import (
	"context"

	"steward/internal/auth"
	"steward/internal/oidc/keys"
	"steward/internal/page"
	"steward/internal/seal"
)

// Handler has one method for each route of this package.
type Handler struct {
	Store *Store
	Keys  *keys.Store
	// BaseURL is where the console is.
	BaseURL string
}

// link gives a client the address of its page in the console.
func (h *Handler) link(l *Listed) { l.Link = h.BaseURL + "/console/oauth/clients/" + l.ID }

// ClientPath names a client.
type ClientPath struct {
	ID string `path:"id" doc:"The client's id"`
}

// WholeList is the paging of a list that fits into one answer in all but the largest organizations.
type WholeList struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"How many to give at most"`
	Offset int         `query:"offset" minimum:"0" doc:"How many to pass over"`
	Cursor page.Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it"`
}

func (w WholeList) paging() page.Paging {
	return page.Paging{Limit: w.Limit, Offset: w.Offset, Cursor: w.Cursor}
}

// List answers GET /oidc/clients.
func (h *Handler) List(ctx context.Context, in *struct{ WholeList }) (page.Page[Listed], error) {
	result, err := h.Store.List(ctx, auth.From(ctx).OrgID, in.paging())
	for i := range result.Items {
		h.link(&result.Items[i])
	}
	return result, err
}

// Create answers POST /oidc/clients.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewClient }) (Created, error) {
	c, secret, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Created{}, err
	}
	var hash []byte
	if secret != "" {
		hash = seal.Hash(secret)
	}
	c, err = h.Store.Create(ctx, auth.From(ctx), c, hash)
	return Created{Client: c, ClientSecret: secret}, err
}

// Get answers GET /oidc/clients/{id}.
func (h *Handler) Get(ctx context.Context, in *ClientPath) (Listed, error) {
	l, err := h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
	h.link(&l)
	return l, err
}

// Update answers PUT /oidc/clients/{id}.
func (h *Handler) Update(ctx context.Context, in *struct {
	ClientPath
	page.IfMatch
	Body ClientPatch
},
) (Updated, error) {
	return h.Store.Update(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
}

// Delete answers DELETE /oidc/clients/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ClientPath
	page.IfMatch
},
) (Deleted, error) {
	return Deleted{true}, h.Store.Delete(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}

// RotateSecret answers POST /oidc/clients/{id}/rotate-secret.
func (h *Handler) RotateSecret(ctx context.Context, in *ClientPath) (Rotated, error) {
	secret, err := h.Store.Rotate(ctx, auth.From(ctx).OrgID, in.ID)
	return Rotated{ClientID: in.ID, ClientSecret: secret}, err
}

// Users answers GET /oidc/clients/{id}/users.
func (h *Handler) Users(ctx context.Context, in *struct {
	ClientPath
	WholeList
},
) (page.Page[Grant], error) {
	return h.Store.Users(ctx, auth.From(ctx).OrgID, in.ID, in.paging())
}

// RevokeAll answers DELETE /oidc/clients/{id}/users.
func (h *Handler) RevokeAll(ctx context.Context, in *ClientPath) (Deleted, error) {
	return Deleted{true}, h.Store.RevokeAll(ctx, auth.From(ctx).OrgID, in.ID)
}

// RevokeUser answers DELETE /oidc/clients/{id}/users/{user_id}.
func (h *Handler) RevokeUser(ctx context.Context, in *struct {
	ClientPath
	UserID string `path:"user_id" doc:"The user's id"`
},
) (Deleted, error) {
	return Deleted{true}, h.Store.RevokeUser(ctx, auth.From(ctx).OrgID, in.ID, in.UserID)
}

// LastDays says how far back to look.
type LastDays struct {
	Days int `query:"days" default:"30" minimum:"1" maximum:"3650" doc:"How many days back, today included"`
}

// Activity answers GET /oidc/clients/{id}/activity.
func (h *Handler) Activity(ctx context.Context, in *struct {
	ClientPath
	LastDays
},
) ([]DayOfClient, error) {
	return h.Store.ClientActivity(ctx, auth.From(ctx).OrgID, in.ID, in.Days)
}

// AllActivity answers GET /oidc/clients/activity. It is whole up to 100,000 lines.
func (h *Handler) AllActivity(ctx context.Context, in *struct {
	LastDays
	Limit  int         `query:"limit" default:"100000" minimum:"0" maximum:"100000" doc:"How many lines to give at most"`
	Offset int         `query:"offset" minimum:"0" doc:"How many to pass over"`
	Cursor page.Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it"`
},
) (page.Page[DayOfAll], error) {
	return h.Store.AllActivity(ctx, auth.From(ctx).OrgID, in.Days, page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
}

// Own answers GET /oidc/user/consent.
func (h *Handler) Own(ctx context.Context, in *struct{ WholeList }) (page.Page[OwnGrant], error) {
	return h.Store.Own(ctx, auth.From(ctx).UserID, in.paging())
}

// RevokeOwn answers DELETE /oidc/user/consent/{client_id}.
func (h *Handler) RevokeOwn(ctx context.Context, in *struct {
	ClientID string `path:"client_id"`
},
) (Deleted, error) {
	return Deleted{true}, h.Store.RevokeConsent(ctx, in.ClientID, auth.From(ctx).UserID)
}

// Catalogue answers GET /oidc/scopes.
func (h *Handler) Catalogue(context.Context, *struct{}) (Catalogue, error) { return CatalogueOf(), nil }

// KeysRotated is the answer to a rotation of signing keys.
type KeysRotated struct {
	Rotated bool `json:"rotated" doc:"False when the next keys are too new for relying parties to know them: the active ones are fresh then"`
}

// RotateKeys answers POST /oidc/keys/rotate.
func (h *Handler) RotateKeys(ctx context.Context, _ *struct{}) (KeysRotated, error) {
	rotated, err := h.Keys.Rotate(ctx)
	return KeysRotated{rotated}, err
}
