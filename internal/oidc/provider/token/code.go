package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"

	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
	"steward/internal/web"
)

// authorizationCode exchanges an authorization code for tokens, once.
func (h *Handler) authorizationCode(ctx context.Context, req *request) (*response, error) {
	var g *grant.Grant
	var refused error
	err := h.DB.Write(ctx, func(tx *db.Tx) (err error) {
		g, refused, err = h.redeemCode(tx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if refused != nil {
		if g != nil && g.RedeemedAt != nil {
			web.Log(ctx).Warn("authorization code reused, its tokens are revoked", "client", req.client.ID, "grant", g.ID)
		}
		return nil, refused
	}
	return h.issueIfUsable(ctx, req, g)
}

// redeemCode redeems a code's grant. A code that is used twice has been stolen, so we revoke the grant
// with all its tokens; among concurrent requests only one succeeds. We also revoke the grant if the
// code comes with the wrong redirect URI, verifier or key. Another client's request changes nothing, so
// that nobody can void a client's codes without its credentials. The refusal is a separate result from
// the error, because the revocation must be committed.
func (h *Handler) redeemCode(tx *db.Tx, req *request) (g *grant.Grant, refused, err error) {
	g, err = grant.ByCode(tx, req.code)
	if errors.Is(err, db.ErrNoRows) || err == nil && g.ClientID != req.client.ID {
		return nil, oauth.ErrGrant, nil
	}
	if err != nil {
		return nil, nil, err
	}
	now := stamp.Of(h.Now())
	if refused := checkCode(req, g, now); refused != nil {
		return g, refused, grant.Revoke(tx, g.ID, now)
	}
	if err := h.Audiences.CheckSame(req.audience, g.Resource); err != nil {
		return nil, err, nil
	}
	joined, err := joinSession(tx, req.client, g, now)
	if err != nil {
		return nil, nil, err
	}
	if !joined {
		return g, oauth.ErrGrant, grant.Revoke(tx, g.ID, now)
	}
	redeemed, err := h.Grants.Redeem(tx, g, grant.Redemption{Client: req.client, JKT: req.jkt, Refresh: true})
	if err != nil {
		return nil, nil, err
	}
	if !redeemed {
		return g, oauth.ErrGrant, nil
	}
	return g, nil, nil
}

// checkCode says why a request cannot redeem a grant, or returns nil.
func checkCode(req *request, g *grant.Grant, now stamp.Time) error {
	switch {
	case g.RedeemedAt != nil, g.RevokedAt != nil, g.CodeExpiresAt == nil, *g.CodeExpiresAt <= now:
		return oauth.ErrGrant
	case g.RedirectURI == nil || *g.RedirectURI != req.redirectURI:
		return oauth.NewError(oauth.InvalidGrant, "redirect_uri is not that of the authorization request")
	case g.JKT != nil && *g.JKT != req.jkt:
		return oauth.NewError(oauth.InvalidDPoPProof, "the code is bound to another key")
	}
	return checkVerifier(req.codeVerifier, g.Challenge)
}

// checkVerifier compares a PKCE verifier with the challenge, which is nil if there was none. It also
// refuses a verifier without a challenge, as a downgrade.
func checkVerifier(verifier string, challenge *string) error {
	if challenge == nil {
		if verifier != "" {
			return oauth.NewError(oauth.InvalidGrant, "the authorization request had no code_challenge")
		}
		return nil
	}
	sum := sha256.Sum256([]byte(verifier))
	got := base64.RawURLEncoding.EncodeToString(sum[:])
	matches := subtle.ConstantTimeCompare([]byte(got), []byte(*challenge)) == 1
	if len(verifier) < 43 || len(verifier) > 128 || !matches {
		return oauth.NewError(oauth.InvalidGrant, "code_verifier does not match the code_challenge")
	}
	return nil
}
