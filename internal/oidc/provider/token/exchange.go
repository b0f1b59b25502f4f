package token

import (
	"context"
	"errors"
	"slices"
	"strings"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// accessTokenType is the only token type that we exchange and issue (RFC 8693 section 3).
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

// maxExchanges caps a token's chain of exchanges.
const maxExchanges = 4

// tokenExchange issues an access token in exchange for one from a user or another client (RFC 8693). It
// names the same grant and epochs, and the ids of all the tokens in the chain, so that revoking any of
// them revokes it too.
func (h *Handler) tokenExchange(ctx context.Context, req *request) (*response, error) {
	switch {
	case req.subjectTokenType == "":
		return nil, oauth.Missing("subject_token_type")
	case req.subjectTokenType != accessTokenType:
		return nil, oauth.NewError(oauth.InvalidRequest, "subject_token_type must be "+accessTokenType)
	case req.requestedTokenType != "" && req.requestedTokenType != accessTokenType:
		return nil, oauth.NewError(oauth.InvalidRequest, "requested_token_type must be "+accessTokenType)
	case req.actorToken != "" || req.actorTokenType != "":
		return nil, oauth.NewError(oauth.InvalidRequest, "actor_token is not supported: the actor is the client")
	}
	subject, err := h.subject(ctx, req)
	if err != nil {
		return nil, err
	}
	scopes, err := narrow(commonScopes(req.client, subject), req.scope)
	if err != nil {
		return nil, err
	}
	audience, err := h.exchangedAudience(req, subject)
	if err != nil {
		return nil, err
	}
	if err := h.Audiences.Admit(ctx, req.client, audience); err != nil {
		return nil, err
	}
	access := h.Tokens.NewExchanged(req.client, subject, scopes, req.jkt)
	access.SetAudience(audience)
	response, err := h.issueAccess(ctx, access)
	if err != nil {
		return nil, err
	}
	response.IssuedTokenType = accessTokenType
	return response, nil
}

// subject returns the claims in the token to exchange. The token must be live and issued to the client
// or for its audience. If it is bound to a key, the request must prove possession.
func (h *Handler) subject(ctx context.Context, req *request) (*jwt.AccessClaims, error) {
	c := req.client
	a, err := h.LiveForAny(ctx, req.subjectToken)
	if errors.Is(err, jwt.ErrInvalid) || err == nil && a.ClientID != c.ID && !a.IsFor(c) {
		return nil, oauth.NewError(oauth.InvalidRequest, "subject_token is invalid, has expired, or was not issued to or for this client")
	}
	if err != nil {
		return nil, err
	}
	if a.Confirm != nil && a.Confirm.JKT != req.jkt {
		return nil, oauth.NewError(oauth.InvalidDPoPProof, "subject_token is bound to a key: a proof of that is missing")
	}
	if len(a.ExchangedFor) >= maxExchanges {
		return nil, oauth.NewError(oauth.InvalidRequest, "subject_token was exchanged too often")
	}
	if a.UserID() == "" {
		return a, nil
	}
	admitted, err := h.Grants.Clients.Admits(ctx, c, a.UserID())
	if err != nil {
		return nil, err
	}
	if !admitted {
		return nil, oauth.NewError(oauth.InvalidRequest, "the user of subject_token may not use this client")
	}
	return a, nil
}

// commonScopes returns a token's scopes that a client may use.
func commonScopes(c *oidc.Registered, a *jwt.AccessClaims) []string {
	return slices.DeleteFunc(a.Scopes(), func(s string) bool { return !slices.Contains(c.Scopes, s) })
}

// exchangedAudience returns the audience for the new token: the requested one, or the subject token's.
// We do not exchange a token for another API into one for this server, since its user has allowed
// nothing here.
func (h *Handler) exchangedAudience(req *request, a *jwt.AccessClaims) (string, error) {
	if req.audience == "" {
		return strings.Join(a.Audience, " "), nil // there is exactly one
	}
	if req.audience == h.Audiences.Issuer && !slices.Contains(a.Audience, req.audience) {
		return "", oauth.NewError(oauth.InvalidTarget, "subject_token is not for this server")
	}
	return req.audience, nil
}
