package token

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// errRefused is the same whatever is wrong with a token.
var errRefused = errs.New(errs.Unauthorized, "the access token is invalid, expired or revoked")

// Caller returns the management API's caller who presents an access token as Bearer. That is either the
// token's user, with the current role in the client's organization and the token's scopes, or a client
// acting as itself. It returns Unauthorized if the token is invalid, is for another audience, or is
// bound to a key.
func (h *Handler) Caller(ctx context.Context, token string) (*auth.Caller, error) {
	a, err := h.liveHere(ctx, token)
	if err != nil {
		return nil, err
	}
	if a.Confirm != nil {
		return nil, unauthorized(oauth.DPoP, errBound)
	}
	return h.caller(ctx, a)
}

// BoundCaller returns the caller who presents an access token as DPoP, with a proof from the key it is
// bound to. If we demand nonces, it adds the next one to the response headers. It returns Unauthorized
// as Caller does, and also if the token is not bound or the proof is not valid.
func (h *Handler) BoundCaller(header http.Header, r *http.Request, token string) (*auth.Caller, error) {
	h.Proofs.SetNonce(header)
	a, err := h.liveHere(r.Context(), token)
	if errors.Is(err, errRefused) {
		return nil, unauthorized(oauth.DPoP, errToken)
	}
	if err != nil {
		return nil, err
	}
	err = h.checkBinding(r, oauth.DPoP, a, token)
	if refused, ok := errors.AsType[*oauth.Error](err); ok {
		return nil, unauthorized(a.TokenType(), refused)
	}
	if err != nil {
		return nil, err
	}
	return h.caller(r.Context(), a)
}

// unauthorized returns the management API's Unauthorized for a protocol error, with the matching
// challenge.
func unauthorized(scheme string, e *oauth.Error) *errs.Error {
	return &errs.Error{Kind: errs.Unauthorized, Message: e.Description, Challenge: challenge(scheme, e)}
}

// liveHere returns the claims in an access token whose audience is this server. It returns Unauthorized
// if the token is invalid, has expired, was revoked, or is for another audience.
func (h *Handler) liveHere(ctx context.Context, token string) (*jwt.AccessClaims, error) {
	a, err := h.liveAccess(ctx, token)
	if errors.Is(err, jwt.ErrInvalid) || err == nil && !slices.Contains(a.Audience, h.Issuer) {
		return nil, errRefused
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (h *Handler) caller(ctx context.Context, a *jwt.AccessClaims) (*auth.Caller, error) {
	if a.UserID() == "" {
		return h.clientCaller(ctx, a)
	}
	role, err := h.role(ctx, a.OrgID, a.Subject)
	if errs.KindOf(err) == errs.NotFound {
		return nil, errRefused
	}
	if err != nil {
		return nil, err
	}
	return &auth.Caller{UserID: a.Subject, OrgID: a.OrgID, Role: role, ClientID: a.Holder(), Scopes: a.Scopes()}, nil
}

// clientCaller returns a client that acts as itself: a member in its organization with its token's
// scopes, confined to its project if it has one.
func (h *Handler) clientCaller(ctx context.Context, a *jwt.AccessClaims) (*auth.Caller, error) {
	c, err := h.Clients.Lookup(ctx, a.Holder())
	if errs.KindOf(err) == errs.NotFound {
		return nil, errRefused
	}
	if err != nil {
		return nil, err
	}
	caller := &auth.Caller{OrgID: c.OrgID, Role: auth.Member, ClientID: c.ID, Scopes: a.Scopes()}
	if c.ProjectID != nil {
		caller.ProjectID = *c.ProjectID
	}
	return caller, nil
}

type member struct{ orgID, userID string }

// role returns a role from the cache. It returns NotFound, uncached, for a user who is no member.
func (h *Handler) role(ctx context.Context, orgID, userID string) (auth.Role, error) {
	return h.roles.Get(member{orgID, userID}, func() (auth.Role, error) { return h.Accounts.Role(ctx, orgID, userID) })
}
