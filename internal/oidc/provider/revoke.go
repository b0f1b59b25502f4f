package provider

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/stamp"
)

// revoke answers POST /revoke (RFC 7009). A token that is unknown, or another client's, is none of the caller's business: the answer is the
// same 200, and nothing happens.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	c, err := p.proven(w, r)
	if err == nil {
		err = p.revokeNamed(r, c)
	}
	if err != nil {
		sendFault(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

func (p *Provider) revokeNamed(r *http.Request, c *client) error {
	token, f := tokenOf(r)
	if f != nil {
		return f
	}
	return p.revokeToken(r.Context(), c, token)
}

// revokeToken voids an access token alone, or with a refresh token all that its grant gave.
func (p *Provider) revokeToken(ctx context.Context, c *client, token string) error {
	if strings.HasPrefix(token, refreshPrefix) {
		return p.revokeFamily(ctx, c, token)
	}
	a, err := p.readAccess(ctx, token)
	if errors.Is(err, errToken) || err == nil && a.ClientID != c.ID {
		return nil
	}
	if err != nil {
		return err
	}
	return p.DB.Write(ctx, func(tx *db.Tx) error { return revokeID(tx, a.ID, stamp.Of(a.Expires.Time()).Add(skew)) })
}

func (p *Provider) revokeFamily(ctx context.Context, c *client, token string) error {
	named, ok := parseRefresh(token)
	if !ok {
		return nil
	}
	g, err := grantByID(p.DB.Read(ctx), named.grantID)
	if isNoRows(err) || err == nil && (g.ClientID != c.ID || !p.proves(g, named.generation, token)) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.DB.Write(ctx, func(tx *db.Tx) error { return revokeGrant(tx, g.ID, stamp.Of(p.Now())) })
}
