package token

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

// Forget empties the caches for users and roles. Call it when auth.Callers is invalidated.
func (h *Handler) Forget() {
	h.roles.Forget()
	h.profiles.Forget()
}

// liveAccess returns the claims in an access token for this server. It returns jwt.ErrInvalid if the
// token is invalid, is for another audience, has expired or was revoked.
func (h *Handler) liveAccess(ctx context.Context, token string) (*jwt.AccessClaims, error) {
	a, err := h.Tokens.VerifyAccess(ctx, token)
	if err != nil {
		return nil, err
	}
	return h.live(ctx, a)
}

// live returns an access token's claims. It returns jwt.ErrInvalid if the token was revoked, or any
// token it was exchanged for.
func (h *Handler) live(ctx context.Context, a *jwt.AccessClaims) (*jwt.AccessClaims, error) {
	for _, jti := range a.IDs() {
		revoked, err := h.Grants.Revoked(ctx, a.Grant, jti)
		if err != nil {
			return nil, err
		}
		if revoked {
			return nil, jwt.ErrInvalid
		}
	}
	live, err := h.Clients.Live(ctx, a.Holder(), a.UserID(), a.ClientEpoch, a.ConsentEpoch)
	if err != nil {
		return nil, err
	}
	if !live {
		return nil, jwt.ErrInvalid
	}
	return a, h.checkActors(ctx, a.Act)
}

// Response describes a token. If the token is not active, all other fields are empty.
type Response struct {
	Active    bool              `json:"active"`
	Scope     string            `json:"scope,omitempty"`
	ClientID  string            `json:"client_id,omitempty"`
	TokenType string            `json:"token_type,omitempty"`
	ExpiresAt int64             `json:"exp,omitempty"`
	IssuedAt  int64             `json:"iat,omitempty"`
	Subject   string            `json:"sub,omitempty"`
	Audience  []string          `json:"aud,omitempty"`
	Issuer    string            `json:"iss,omitempty"`
	ID        string            `json:"jti,omitempty"`
	OrgID     string            `json:"org,omitempty"`
	Confirm   *jwt.Confirmation `json:"cnf,omitempty"`
	Act       *jwt.Actor        `json:"act,omitempty"`
}

// Introspect serves POST /introspect. It describes a token to the client it was issued to, and to the
// client that has registered its audience.
func (h *Handler) Introspect(r *http.Request, c *oidc.Registered) (Response, error) {
	if c.ClientType == oidc.Public {
		return Response{}, oauth.ErrClient // it has not authenticated
	}
	token, err := oauth.Required(r.PostForm, "token")
	if err != nil {
		return Response{}, err
	}
	if grant.IsRefreshToken(token) {
		return h.introspectRefresh(r.Context(), c, token)
	}
	ctx := r.Context()
	a, err := h.LiveForAny(ctx, token)
	if err == nil {
		err = h.checkSuspended(ctx, a)
	}
	if errors.Is(err, jwt.ErrInvalid) || err == nil && a.ClientID != c.ProtocolID() && !a.IsFor(c) {
		return Response{}, nil
	}
	if err != nil {
		return Response{}, err
	}
	h.Activity.Note(a.Client(), a.UserID())
	return Response{
		Active: true, Scope: a.Scope, ClientID: a.ClientID, TokenType: a.TokenType(), Subject: a.Subject,
		ExpiresAt: a.ExpiresAt.Time().Unix(), IssuedAt: a.IssuedAt.Time().Unix(),
		Audience: a.Audience, Issuer: a.Issuer, ID: a.ID, OrgID: a.OrgID, Confirm: a.Confirm, Act: a.Act,
	}, nil
}

// LiveForAny returns the claims in an access token for any audience. It returns jwt.ErrInvalid if the
// token is invalid, has expired or was revoked.
func (h *Handler) LiveForAny(ctx context.Context, token string) (*jwt.AccessClaims, error) {
	a, err := h.Tokens.VerifyAnyAccess(ctx, token)
	if err != nil {
		return nil, err
	}
	return h.live(ctx, a)
}

// introspectRefresh describes a refresh token, which is active while it is its family's current one.
func (h *Handler) introspectRefresh(ctx context.Context, c *oidc.Registered, token string) (Response, error) {
	c, err := h.Grants.Holder(ctx, c, "", token)
	if err != nil {
		return Response{}, err
	}
	g, generation, err := h.Grants.ByRefreshToken(ctx, c.ID, token)
	if errors.Is(err, db.ErrNoRows) || err == nil && g.Generation != generation {
		return Response{}, nil
	}
	if err != nil {
		return Response{}, err
	}
	active, err := h.Grants.Refreshable(ctx, c, g)
	if err != nil || !active {
		return Response{}, err
	}
	h.Activity.Note(g.ClientID, g.UserID)
	return Response{
		Active: true, Scope: strings.Join(g.Scopes, " "), ClientID: c.ProtocolID(), Subject: g.UserID,
		ExpiresAt: g.RefreshExpiresAt.Std().Unix(), IssuedAt: g.CreatedAt.Std().Unix(),
		Issuer: h.Issuer, OrgID: g.OrgID,
	}, nil
}

// checkActors returns jwt.ErrInvalid if a client that has exchanged a token was deleted, or may no
// longer exchange tokens.
func (h *Handler) checkActors(ctx context.Context, act *jwt.Actor) error {
	for ; act != nil; act = act.Actor {
		c, err := h.Clients.Lookup(ctx, act.Subject)
		if errs.KindOf(err) == errs.NotFound || err == nil && !slices.Contains(c.GrantTypes, oidc.TokenExchange) {
			return jwt.ErrInvalid
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSuspended returns jwt.ErrInvalid if the organization that owns a token's client was deleted. The
// management API does not call it: it accepts the token, then refuses the request and says why.
func (h *Handler) checkSuspended(ctx context.Context, a *jwt.AccessClaims) error {
	c, err := h.Clients.Lookup(ctx, a.Client())
	if errs.KindOf(err) == errs.NotFound || err == nil && c.Suspended {
		return jwt.ErrInvalid
	}
	return err
}

// Organization returns the claims about a user in the client's organization, or nil if the user is not
// an enabled member there.
func (h *Handler) Organization(ctx context.Context, orgID, userID string) (*jwt.OrganizationClaims, error) {
	role, err := h.Accounts.Role(ctx, orgID, userID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, err := h.Accounts.OrgName(ctx, orgID)
	if err != nil {
		return nil, err
	}
	groups, err := h.Upstreams.Groups(ctx, orgID, userID)
	if err != nil {
		return nil, err
	}
	return &jwt.OrganizationClaims{OrgID: orgID, OrgName: name, Role: role, Groups: groups}, nil
}

// Revoke serves POST /revoke. It ignores a token that is unknown or belongs to another client; the
// caller cannot tell that from a success.
func (h *Handler) Revoke(w http.ResponseWriter, r *http.Request) {
	if err := h.revoke(w, r); err != nil {
		oauth.WriteError(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

func (h *Handler) revoke(w http.ResponseWriter, r *http.Request) error {
	c, err := h.Auth.Authenticate(w, r)
	if err != nil {
		return err
	}
	token, err := oauth.Required(r.PostForm, "token")
	if err != nil {
		return err
	}
	ctx := r.Context()
	if grant.IsRefreshToken(token) {
		c, err := h.Grants.Holder(ctx, c, "", token)
		if err != nil {
			return err
		}
		g, _, err := h.Grants.ByRefreshToken(ctx, c.ID, token)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return h.DB.Write(ctx, func(tx *db.Tx) error { return grant.Revoke(tx, g.ID, stamp.Of(h.Now())) })
	}
	a, err := h.Tokens.VerifyAnyAccess(ctx, token)
	if errors.Is(err, jwt.ErrInvalid) || err == nil && a.ClientID != c.ProtocolID() {
		return nil
	}
	if err != nil {
		return err
	}
	return h.DB.Write(ctx, func(tx *db.Tx) error { return grant.RevokeToken(tx, a.ID, a.ExpiresAt.Time()) })
}
