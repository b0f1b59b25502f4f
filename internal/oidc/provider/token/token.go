// Package token owns the token endpoint (POST /oauth/token) and everything that happens to a token after
// it is issued: introspection (RFC 7662), revocation (RFC 7009), the userinfo endpoint, and the management
// API's callers who present an access token.
//
// We parse a token request once (request.go), after authenticating its client and verifying its DPoP proof. A
// table names the function for each grant type. That function decides in one transaction whether to
// grant the request, and we sign the tokens after the commit (issue.go).
//
// An access token names its client, its consent and its grant, and is live while all three are. We read
// them from caches that every revocation empties.
package token

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/upstream"
)

// Handler serves the endpoints that issue, check and revoke tokens.
type Handler struct {
	DB      *db.DB
	Now     func() time.Time
	Issuer  string
	Clients *oidc.Store
	Auth    *clientauth.Authenticator
	Proofs  *clientauth.ProofVerifier
	Tokens  *jwt.Issuer
	// Audiences finds the audience that a request names.
	Audiences *grant.Audiences
	Grants    *grant.Store
	Accounts  *account.Store
	Upstreams *upstream.Store
	Activity  *oidc.Activity
	Observer  *oauth.Observer

	roles    db.Cache[member, auth.Role]
	profiles db.Cache[string, account.User]
}

// ServeHTTP serves POST /oauth/token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, err := h.serve(w, r)
	if err != nil {
		refused := oauth.AsError(r.Context(), err)
		h.Observer.Refused(grantTypeLabel(r), refused.Code)
		oauth.WriteError(w, r, refused)
		return
	}
	h.Observer.Issued(grantTypeLabel(r))
	oauth.WriteJSON(w, http.StatusOK, response)
}

// grantTypeLabel returns a request's grant type as one among a few values, however it was parsed.
func grantTypeLabel(r *http.Request) string {
	name := r.PostForm.Get("grant_type")
	if _, ok := grantTypes[name]; ok {
		return name
	}
	return "unknown"
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (*response, error) {
	c, err := h.Auth.Authenticate(w, r)
	if err != nil {
		return nil, err
	}
	req, err := parse(r, c)
	if err != nil {
		return nil, err
	}
	if req.client, err = h.Grants.Holder(r.Context(), c, req.code, req.refreshToken); err != nil {
		return nil, err
	}
	req.audience, err = h.Audiences.Requested(r.Context(), targets(r.PostForm))
	if err != nil {
		return nil, err
	}
	proof, err := h.Proofs.Verify(r, "")
	if err != nil {
		return nil, err
	}
	req.jkt = proof.JKT
	response, err := req.grantType.exchange(h, r.Context(), req)
	if err != nil {
		return nil, err
	}
	if err := h.Proofs.Use(r.Context(), proof); err != nil {
		return nil, err
	}
	h.Activity.Note(req.client.ID, response.userID)
	return response, nil
}

// clientCredentials issues a token for the client itself. It stores nothing: the token names the
// client's epoch.
func (h *Handler) clientCredentials(ctx context.Context, req *request) (*response, error) {
	scopes := slices.DeleteFunc(req.client.AllowedScopes(req.scope), needsUser)
	requested := strings.Fields(req.scope)
	if len(requested) > 0 && len(scopes) < len(requested) {
		return nil, oauth.NewError(oauth.InvalidScope, "a scope is not allowed for this client or needs a user")
	}
	access := h.Tokens.NewAccess(req.client, req.client.ID, scopes, req.jkt)
	if req.audience != "" {
		if err := h.Audiences.Admit(ctx, req.client, req.audience); err != nil {
			return nil, err
		}
		access.SetAudience(req.audience)
	}
	return h.issueAccess(ctx, access)
}

// needsUser reports whether a scope is meaningless without a user.
func needsUser(scope string) bool {
	switch scope {
	case oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess:
		return true
	}
	return false
}
