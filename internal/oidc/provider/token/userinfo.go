package token

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

type userInfo struct {
	Subject string `json:"sub"`
	jwt.ProfileClaims
	*jwt.OrganizationClaims
}

var (
	errToken = oauth.NewError(oauth.InvalidToken, "the access token is invalid, expired or revoked")
	// errNoToken has no code, since there is nothing to explain (RFC 6750 section 3.1).
	errNoToken = &oauth.Error{Status: http.StatusUnauthorized}
	errBound   = oauth.NewError(oauth.InvalidToken, "the access token is bound to a key: use DPoP")
)

// UserInfo serves GET and POST /userinfo.
func (h *Handler) UserInfo(w http.ResponseWriter, r *http.Request) {
	scheme, info, err := h.userInfo(w, r)
	if err != nil {
		e := oauth.AsError(r.Context(), err)
		oauth.WriteBearerError(w, e, challenge(scheme, e))
		return
	}
	oauth.WriteJSON(w, http.StatusOK, info)
}

// challenge returns the WWW-Authenticate header for an error (RFC 6750 section 3, RFC 9449 section
// 7.1).
func challenge(scheme string, e *oauth.Error) string {
	if e.Code == "" {
		return scheme
	}
	header := scheme + ` error="` + e.Code + `", error_description="` + e.Description + `"`
	if scheme == oauth.DPoP {
		header += `, algs="` + strings.Join(clientauth.ProofAlgorithms(), " ") + `"`
	}
	return header
}

// userInfo returns the claims about the presented access token's user, and the scheme for a challenge.
func (h *Handler) userInfo(w http.ResponseWriter, r *http.Request) (scheme string, info *userInfo, err error) {
	scheme, token, err := presentedToken(w, r)
	if err != nil {
		return scheme, nil, err
	}
	a, err := h.liveAccess(r.Context(), token)
	if err == nil {
		err = h.checkSuspended(r.Context(), a)
	}
	if errors.Is(err, jwt.ErrInvalid) {
		return scheme, nil, errToken
	}
	if err != nil {
		return scheme, nil, err
	}
	if err := h.checkBinding(r, scheme, a, token); err != nil {
		return a.TokenType(), nil, err
	}
	if a.UserID() == "" || !slices.Contains(a.Scopes(), oidc.ScopeOpenID) {
		return a.TokenType(), nil, &oauth.Error{
			Status: http.StatusForbidden, Code: oauth.InsufficientScope,
			Description: "the access token does not have the scope openid",
		}
	}
	user, err := h.profile(r.Context(), a.Subject)
	if errs.KindOf(err) == errs.NotFound {
		return a.TokenType(), nil, errToken
	}
	if err != nil {
		return a.TokenType(), nil, err
	}
	info = &userInfo{Subject: user.ID, ProfileClaims: jwt.NewProfileClaims(user, a.Scopes())}
	if slices.Contains(a.Scopes(), oidc.ScopeOrganization) {
		info.OrganizationClaims, err = h.Organization(r.Context(), a.OrgID, user.ID)
		if err != nil {
			return a.TokenType(), nil, err
		}
	}
	h.Activity.Note(a.Client(), user.ID)
	return "", info, nil
}

// presentedToken returns a request's access token and its scheme, from the Authorization header or a
// POST's form (RFC 6750 section 2), but never from the URL.
func presentedToken(w http.ResponseWriter, r *http.Request) (scheme, token string, err error) {
	if header := r.Header.Get("Authorization"); header != "" {
		given, value, _ := strings.Cut(header, " ")
		switch {
		case strings.EqualFold(given, oauth.Bearer):
			return oauth.Bearer, value, nil
		case strings.EqualFold(given, oauth.DPoP):
			return oauth.DPoP, value, nil
		}
		return oauth.Bearer, "", errNoToken
	}
	if r.Method != http.MethodPost || oauth.ReadForm(w, r) != nil || r.PostForm.Get("access_token") == "" {
		return oauth.Bearer, "", errNoToken
	}
	return oauth.Bearer, r.PostForm.Get("access_token"), nil
}

// checkBinding requires DPoP, with a proof for the right key, if the token is bound to a key, and
// Bearer otherwise.
func (h *Handler) checkBinding(r *http.Request, scheme string, a *jwt.AccessClaims, token string) error {
	if a.Confirm == nil {
		if scheme == oauth.DPoP {
			return oauth.NewError(oauth.InvalidToken, "the access token is not bound to a key: use Bearer")
		}
		return nil
	}
	if scheme != oauth.DPoP {
		return errBound
	}
	err := h.useProof(r, a.Confirm.JKT, token)
	if refused, ok := errors.AsType[*oauth.Error](err); ok {
		return &oauth.Error{
			Status: http.StatusUnauthorized, Code: refused.Code, Description: refused.Description,
		}
	}
	return err
}

// useProof verifies and uses a request's DPoP proof, whose key must have the thumbprint jkt.
func (h *Handler) useProof(r *http.Request, jkt, token string) error {
	proof, err := h.Proofs.Verify(r, token)
	if err != nil {
		return err
	}
	if proof.JKT != jkt {
		return oauth.NewError(oauth.InvalidDPoPProof, "the proof is not of the key that the token is bound to")
	}
	return h.Proofs.Use(r.Context(), proof)
}

// profile returns a user from the cache, or NotFound.
func (h *Handler) profile(ctx context.Context, userID string) (account.User, error) {
	return h.profiles.Get(userID, func() (account.User, error) { return h.Accounts.UserByID(ctx, userID) })
}
