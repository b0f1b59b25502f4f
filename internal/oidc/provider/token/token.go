// Package token owns the token endpoint (POST /oauth/token).
//
// We parse a request once (request.go), after authenticating its client and verifying its DPoP proof. A
// table names the function for each grant type. That function decides in one transaction whether to
// grant the request, and we sign the tokens after the commit (issue.go).
package token

import (
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/introspect"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// Endpoint is the token endpoint.
type Endpoint struct {
	DB      *db.DB
	Now     func() time.Time
	Clients *clientauth.Authenticator
	Proofs  *clientauth.ProofVerifier
	Tokens  *jwt.Issuer
	// Audiences finds the audience that a request names.
	Audiences *grant.Audiences
	Grants    *grant.Store
	// Introspect checks the tokens that are exchanged.
	Introspect *introspect.Handler
	Accounts   *account.Store
	Activity   *oidc.Activity
	Observer   *oauth.Observer
}

// ServeHTTP serves POST /oauth/token.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, err := e.serve(w, r)
	if err != nil {
		refused := oauth.AsError(r.Context(), err)
		e.Observer.Refused(grantTypeLabel(r), refused.Code)
		oauth.WriteError(w, r, refused)
		return
	}
	e.Observer.Issued(grantTypeLabel(r))
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
	e.Activity.Note(req.client.ID, response.userID)
	return response, nil
}
