package oidc

import (
	"context"
	"strings"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/oidc/keys"
	"steward/internal/page"
)

// Handler serves the package's routes, with one method for each.
type Handler struct {
	Store *Store
	Keys  *keys.Store
	// BaseURL is the installation's base URL. The console's URLs begin with it, and it is our API's
	// audience.
	BaseURL string
}

// setLink sets the client's URL in the console.
func (h *Handler) setLink(c *ClientDetails) { c.Link = h.BaseURL + "/console/oauth/clients/" + c.ID }

// ClientPath names a client.
type ClientPath struct {
	ID string `path:"id" doc:"Id of the client"`
}

// WholeList pages lists that fit into one response in all but the largest organizations.
type WholeList struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"Maximum number of items"`
	Offset int         `query:"offset" minimum:"0" doc:"Number of items to skip"`
	Cursor page.Cursor `query:"cursor" doc:"Cursor from the next link" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
}

func (w WholeList) paging() page.Paging {
	return page.Paging{Limit: w.Limit, Offset: w.Offset, Cursor: w.Cursor}
}

// List serves GET /oidc/clients.
func (h *Handler) List(ctx context.Context, in *struct{ WholeList }) (page.Page[ClientDetails], error) {
	result, err := h.Store.List(ctx, auth.From(ctx).OrgID, in.paging())
	if err != nil {
		return page.Page[ClientDetails]{}, err
	}
	for i := range result.Items {
		h.setLink(&result.Items[i])
	}
	return result, nil
}

// CreateRequest is the input to Create.
type CreateRequest struct {
	DryRun bool `query:"dry_run" doc:"Only check the request. Nothing is stored; the client has no id and no secret"`
	Body   NewClient
}

// Create serves POST /oidc/clients.
func (h *Handler) Create(ctx context.Context, in *CreateRequest) (Created, error) {
	c, secret, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Created{}, err
	}
	if err := h.checkAudience(in.Body.Settings); err != nil {
		return Created{}, err
	}
	create := func(ctx context.Context) (Created, error) {
		created, err := h.Store.Create(ctx, auth.From(ctx), c, secret)
		return Created{Client: created, ClientSecret: secret}, err
	}
	if !in.DryRun {
		return idempotency.Once(ctx, create)
	}
	var tried Created
	err = h.Store.DB.Try(ctx, func(ctx context.Context) (err error) {
		tried, err = create(ctx)
		return err
	})
	tried.Client.ID = ""
	tried.ClientSecret = ""
	return tried, err
}

// Get serves GET /oidc/clients/{id}.
func (h *Handler) Get(ctx context.Context, in *ClientPath) (ClientDetails, error) {
	c, err := h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
	if err != nil {
		return ClientDetails{}, err
	}
	h.setLink(&c)
	return c, nil
}

// UpdateRequest is the input to Update.
type UpdateRequest struct {
	ClientPath
	page.IfMatch
	DryRun bool `query:"dry_run" doc:"Only check the request. Nothing is stored, and there is no secret"`
	Body   ClientPatch
}

// CheckUpdate adds the faults in an update. They depend on the client's type.
func (h *Handler) CheckUpdate(ctx context.Context, in *UpdateRequest, faults *errs.Faults) {
	before, err := h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
	if err == nil {
		in.Body.set(before.Client).validate(faults)
	}
}

// Update serves PUT /oidc/clients/{id}.
func (h *Handler) Update(ctx context.Context, in *UpdateRequest) (Updated, error) {
	if err := h.checkAudience(in.Body.Settings); err != nil {
		return Updated{}, err
	}
	if !in.DryRun {
		return h.Store.Update(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
	}
	var tried Updated
	err := h.Store.DB.Try(ctx, func(ctx context.Context) (err error) {
		tried, err = h.Store.Update(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
		return err
	})
	tried.ClientSecret = ""
	return tried, err
}

// checkAudience returns Conflict for our own API's audience, because no client may introspect our
// tokens.
func (h *Handler) checkAudience(s Settings) error {
	if sent := s.Audience.Ptr(); sent != nil && strings.TrimSuffix(*sent, "/") == h.BaseURL {
		return errAudience
	}
	return nil
}

// Delete serves DELETE /oidc/clients/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ClientPath
	page.IfMatch
},
) (Deleted, error) {
	return Deleted{true}, h.Store.Delete(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}

// RotateSecret serves POST /oidc/clients/{id}/rotate-secret.
func (h *Handler) RotateSecret(ctx context.Context, in *ClientPath) (Rotated, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Rotated, error) {
		secret, err := h.Store.Rotate(ctx, auth.From(ctx), in.ID)
		return Rotated{ClientID: in.ID, ClientSecret: secret}, err
	})
}

// Users serves GET /oidc/clients/{id}/users.
func (h *Handler) Users(ctx context.Context, in *struct {
	ClientPath
	WholeList
},
) (page.Page[UserConsent], error) {
	return h.Store.Users(ctx, auth.From(ctx).OrgID, in.ID, in.paging())
}

// RevokeAll serves DELETE /oidc/clients/{id}/users.
func (h *Handler) RevokeAll(ctx context.Context, in *ClientPath) (Deleted, error) {
	return Deleted{true}, h.Store.RevokeAll(ctx, auth.From(ctx).OrgID, in.ID)
}

// RevokeUser serves DELETE /oidc/clients/{id}/users/{user_id}.
func (h *Handler) RevokeUser(ctx context.Context, in *struct {
	ClientPath
	UserID string `path:"user_id" doc:"Id of the user" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
},
) (Deleted, error) {
	return Deleted{true}, h.Store.RevokeUser(ctx, auth.From(ctx).OrgID, in.ID, in.UserID)
}

// LastDays is an activity report's period.
type LastDays struct {
	Days int `query:"days" default:"30" minimum:"1" maximum:"3650" doc:"Number of days, including today" example:"180"`
}

// Activity serves GET /oidc/clients/{id}/activity.
func (h *Handler) Activity(ctx context.Context, in *struct {
	ClientPath
	LastDays
},
) ([]ActivityDay, error) {
	return h.Store.ClientActivity(ctx, auth.From(ctx).OrgID, in.ID, in.Days)
}

// AllActivity serves GET /oidc/clients/activity. A page has up to 100,000 items.
func (h *Handler) AllActivity(ctx context.Context, in *struct {
	LastDays
	Limit  int         `query:"limit" default:"100000" minimum:"0" maximum:"100000" doc:"Maximum number of items"`
	Offset int         `query:"offset" minimum:"0" doc:"Number of items to skip"`
	Cursor page.Cursor `query:"cursor" doc:"Cursor from the next link" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
},
) (page.Page[ClientActivityDay], error) {
	paging := page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor}
	return h.Store.AllActivity(ctx, auth.From(ctx).OrgID, in.Days, paging)
}

// Own serves GET /oidc/user/consent.
func (h *Handler) Own(ctx context.Context, in *struct{ WholeList }) (page.Page[OwnConsent], error) {
	caller := auth.From(ctx)
	return h.Store.Own(ctx, caller.UserID, caller.OnlyOrg(), in.paging())
}

// ConsentPath names one of the caller's consents.
type ConsentPath struct {
	ClientID string `path:"client_id" doc:"Id of the client" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
}

// RevokeOwn serves DELETE /oidc/user/consent/{client_id}.
func (h *Handler) RevokeOwn(ctx context.Context, in *ConsentPath) (Deleted, error) {
	caller := auth.From(ctx)
	return Deleted{true}, h.Store.RevokeConsent(ctx, in.ClientID, caller.UserID, caller.OnlyOrg())
}

// Catalogue serves GET /oidc/scopes.
func (h *Handler) Catalogue(context.Context, *struct{}) (Catalogue, error) {
	return NewCatalogue(), nil
}

// SigningKeys serves GET /oidc/keys.
func (h *Handler) SigningKeys(ctx context.Context, _ *struct{}) ([]keys.Info, error) {
	return h.Keys.List(ctx)
}

// KeysRotated is the response to rotating the signing keys.
type KeysRotated struct {
	_ struct{} `goName:"SigningKeysRotated"`

	Rotated bool `json:"rotated" doc:"False if the next keys were published too recently; the active keys are new then"`
}

// RotateKeys serves POST /oidc/keys/rotate.
func (h *Handler) RotateKeys(ctx context.Context, _ *struct{}) (KeysRotated, error) {
	if err := h.Keys.EnsureFirst(ctx); err != nil {
		return KeysRotated{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (KeysRotated, error) {
		rotated, err := h.Keys.Rotate(ctx)
		return KeysRotated{Rotated: rotated}, err
	})
}
