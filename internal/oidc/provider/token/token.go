// Package token owns the token endpoint (POST /oauth/token).
//
// We parse a request once (request.go), after authenticating its client and verifying its DPoP proof. A
// table names the function for each grant type. That function decides in one transaction whether to
// grant the request, and we sign the tokens after the commit (issue.go).
package token

import (
	"context"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/dpop"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// Endpoint is the token endpoint.
type Endpoint struct {
	DB      *db.DB
	Now     func() time.Time
	Clients *clientauth.Authenticator
	Proofs  *dpop.Verifier
	Tokens  *jwt.Issuer
	// Audiences finds the audience that a request names.
	Audiences *grant.Audiences
	Grants    *grant.Store
	// Live returns the claims in an access token for any audience. It returns jwt.ErrInvalid if the
	// token is invalid, has expired or was revoked.
	Live     func(ctx context.Context, token string) (*jwt.AccessClaims, error)
	Accounts *account.Store
	// Organization returns the claims about a user in an organization, or nil if the user is not an
	// enabled member.
	Organization func(ctx context.Context, orgID, userID string) (*jwt.OrganizationClaims, error)
	// Note counts a client's access; the user is empty for client_credentials.
	Note func(clientID, userID string)
	// Issued and Refused, if set, are called for each response. The grant type is "unknown" unless we
	// support it.
	Issued  func(grantType string)
	Refused func(grantType, code string)
}

// ServeHTTP serves POST /oauth/token.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, err := e.serve(w, r)
	if err != nil {
		refused := oauth.AsError(r.Context(), err)
		if e.Refused != nil {
			e.Refused(grantTypeLabel(r), refused.Code)
		}
		oauth.WriteError(w, r, refused)
		return
	}
	if e.Issued != nil {
		e.Issued(grantTypeLabel(r))
	}
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

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) (*response, error) {
	c, err := e.Clients.Authenticate(w, r)
	if err != nil {
		return nil, err
	}
	req, err := parse(r, c)
	if err != nil {
		return nil, err
	}
	if req.client, err = e.Grants.Holder(r.Context(), c, req.code, req.refreshToken); err != nil {
		return nil, err
	}
	req.audience, err = e.Audiences.Requested(r.Context(), targets(r.PostForm))
	if err != nil {
		return nil, err
	}
	proof, err := e.Proofs.Verify(r, "")
	if err != nil {
		return nil, err
	}
	req.jkt = proof.JKT
	response, err := req.grantType.exchange(e, r.Context(), req)
	if err != nil {
		return nil, err
	}
	if err := e.Proofs.Use(r.Context(), proof); err != nil {
		return nil, err
	}
	e.Note(req.client.ID, response.userID)
	return response, nil
}
