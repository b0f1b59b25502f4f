package token

import (
	"context"
	"errors"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// refreshToken exchanges a refresh token for new tokens and its successor.
func (h *Handler) refreshToken(ctx context.Context, req *request) (*response, error) {
	g, generation, err := h.Grants.ByRefreshToken(ctx, req.client.ID, req.refreshToken)
	if errors.Is(err, db.ErrNoRows) {
		return nil, oauth.ErrGrant
	}
	if err != nil {
		return nil, err
	}
	refreshable, err := h.Grants.Refreshable(ctx, req.client, g)
	if err != nil {
		return nil, err
	}
	if !refreshable {
		return nil, oauth.ErrGrant
	}
	if g.JKT != nil && *g.JKT != req.jkt {
		return nil, oauth.NewError(oauth.InvalidDPoPProof, "the refresh token is bound to another key")
	}
	scopes, err := narrow(g.AllowedScopes(req.client), req.scope)
	if err != nil {
		return nil, err
	}
	if err := h.Audiences.CheckSame(req.audience, g.Resource); err != nil {
		return nil, err
	}
	audience, err := h.Audiences.Granted(ctx, g.Resource)
	if err != nil {
		return nil, err
	}
	g, err = h.rotate(ctx, g.ID, generation)
	if err != nil {
		return nil, err
	}
	g.Nonce = nil // it belongs to the first ID token (OpenID Connect Core section 12.2)
	return h.issue(ctx, req, g, audience, scopes)
}

func (h *Handler) rotate(ctx context.Context, grantID string, generation int64) (*grant.Grant, error) {
	g, err := h.Grants.Rotate(ctx, grantID, generation)
	switch {
	case errors.Is(err, grant.ErrReused):
		web.Log(ctx).Warn("refresh token reused, its grant is revoked", "client", g.ClientID, "grant", g.ID)
		return nil, oauth.ErrGrant
	case errors.Is(err, db.ErrNoRows):
		return nil, oauth.ErrGrant
	case err != nil:
		return nil, err
	}
	return g, nil
}

// narrow returns the granted scopes that a client requests, or all if it requests none. It refuses a
// scope that was not granted.
func narrow(granted []string, requested string) ([]string, error) {
	scopes := strings.Fields(requested)
	if len(scopes) == 0 {
		return granted, nil
	}
	for _, s := range scopes {
		if !slices.Contains(granted, s) {
			return nil, oauth.NewError(oauth.InvalidScope, "a scope was not granted")
		}
	}
	return scopes, nil
}
