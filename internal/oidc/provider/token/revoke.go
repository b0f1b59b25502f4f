package token

import (
	"errors"
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

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
