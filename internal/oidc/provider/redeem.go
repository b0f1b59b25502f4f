package provider

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/stamp"
	"steward/internal/web"
)

// redeemCode turns an authorization code into tokens, once. One transaction decides: of many that come with the same code one gets tokens,
// and every other one voids them, since a code that is seen twice was stolen from somebody. A code that comes with the wrong client,
// address or verifier is used up with it.
func (p *Provider) redeemCode(r *http.Request, c *client, jkt string) (*tokenAnswer, error) {
	code, f := single(r.PostForm, "code")
	if f != nil {
		return nil, f
	}
	if code == "" {
		return nil, refuse(invalidRequest, "code is missing")
	}
	var g *grant
	var refused error
	err := p.DB.Write(r.Context(), func(tx *db.Tx) (err error) {
		refused = nil
		g, err = grantByCode(tx, code)
		if isNoRows(err) {
			refused = badGrant()
			return nil
		}
		if err != nil {
			return err
		}
		if refused = p.checkCode(c, g, r.PostForm, jkt); refused == nil {
			return p.redeem(tx, c, g, jkt, &refused)
		}
		return revokeGrant(tx, g.ID, stamp.Of(p.Now()))
	})
	if err == nil && refused != nil {
		if g != nil && g.RedeemedAt != nil {
			web.Log(r.Context()).Warn("an authorization code was used again: what it gave is revoked", "client", c.ID, "grant", g.ID)
		}
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return p.answerLive(r.Context(), c, g, jkt)
}

// checkCode tells why a code cannot be redeemed by this request, or nil.
func (p *Provider) checkCode(c *client, g *grant, form url.Values, jkt string) error {
	redirectURI, f := single(form, "redirect_uri")
	if f != nil {
		return f
	}
	switch {
	case g.ClientID != c.ID, g.RedeemedAt != nil, g.RevokedAt != nil, g.CodeExpiresAt == nil, *g.CodeExpiresAt <= stamp.Of(p.Now()):
		return badGrant()
	case g.RedirectURI == nil || *g.RedirectURI != redirectURI:
		return refuse(invalidGrant, "redirect_uri is not the one of the authorization request")
	case g.JKT != nil && *g.JKT != jkt:
		return badProof("the code is bound to another key")
	}
	return checkVerifier(g, form)
}

// checkVerifier compares the verifier with the challenge. One without the other is a downgrade, whoever tries it.
func checkVerifier(g *grant, form url.Values) error {
	verifier, f := single(form, "code_verifier")
	if f != nil {
		return f
	}
	if g.Challenge == nil {
		if verifier != "" {
			return refuse(invalidGrant, "code_verifier was sent, but the authorization request had no code_challenge")
		}
		return nil
	}
	sum := sha256.Sum256([]byte(verifier))
	got := base64.RawURLEncoding.EncodeToString(sum[:])
	if len(verifier) < 43 || len(verifier) > 128 || subtle.ConstantTimeCompare([]byte(got), []byte(*g.Challenge)) != 1 {
		return refuse(invalidGrant, "code_verifier does not fit the code_challenge")
	}
	return nil
}

// redeem marks a grant as redeemed, or voids it when somebody else was first.
func (p *Provider) redeem(tx *db.Tx, c *client, g *grant, jkt string, refused *error) error {
	now := stamp.Of(p.Now())
	g.RedeemedAt = &now
	g.JKT = nil
	if isPublic(c) { // a confidential client proves itself when it refreshes; a public one has nothing but the key
		g.JKT = optional(jkt)
	}
	g.ExpiresAt = now.Add(maxTokenLife + skew)
	if slices.Contains(c.GrantTypes, oidc.RefreshToken) {
		expires := now.Add(c.RefreshLifetime())
		g.Generation, g.RefreshExpiresAt = 1, &expires
		g.ExpiresAt = max(g.ExpiresAt, expires)
	}
	first, err := redeemGrant(tx, g)
	if err != nil || first {
		return err
	}
	*refused = badGrant()
	return revokeGrant(tx, g.ID, now)
}

// answerLive gives tokens unless what the grant rests on is gone.
func (p *Provider) answerLive(ctx context.Context, c *client, g *grant, jkt string) (*tokenAnswer, error) {
	ok, err := p.usable(ctx, c, g)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, badGrant()
	}
	return p.answerUser(ctx, c, g, g.scopesOf(c), jkt)
}

// refresh turns a refresh token into new tokens and its successor. A token that was used before is stolen from somebody, and voids its
// whole family, unless it comes within the grace time: then it gets the same successor as the first time.
func (p *Provider) refresh(r *http.Request, c *client, jkt string) (*tokenAnswer, error) {
	token, f := single(r.PostForm, "refresh_token")
	if f != nil {
		return nil, f
	}
	if token == "" {
		return nil, refuse(invalidRequest, "refresh_token is missing")
	}
	named, ok := parseRefresh(token)
	if !ok {
		return nil, badGrant()
	}
	g, err := grantByID(p.DB.Read(r.Context()), named.grantID)
	if isNoRows(err) {
		return nil, badGrant()
	}
	if err != nil {
		return nil, err
	}
	if err := p.mayRefresh(r.Context(), c, g, named.generation, token, jkt); err != nil {
		return nil, err
	}
	scopes, f := narrowed(c, g, r.PostForm)
	if f != nil {
		return nil, f
	}
	if g, err = p.turn(r.Context(), g.ID, named.generation); err != nil {
		return nil, err
	}
	g.Nonce = nil // it belongs to the authorization request (OpenID Connect Core section 12.2)
	return p.answerUser(r.Context(), c, g, scopes, jkt)
}

// mayRefresh checks everything that does not need the transaction.
func (p *Provider) mayRefresh(ctx context.Context, c *client, g *grant, generation int64, token, jkt string) error {
	now := stamp.Of(p.Now())
	switch {
	case !p.proves(g, generation, token), g.ClientID != c.ID, g.RevokedAt != nil, g.RefreshExpiresAt == nil, *g.RefreshExpiresAt <= now:
		return badGrant()
	case g.JKT != nil && *g.JKT != jkt:
		return badProof("the refresh token is bound to another key")
	}
	if g.SessionID != nil {
		lives, err := sessionLives(p.DB.Read(ctx), *g.SessionID, now)
		if err != nil {
			return err
		}
		if !lives {
			return badGrant()
		}
	}
	ok, err := p.usable(ctx, c, g)
	if err == nil && !ok {
		return badGrant()
	}
	return err
}

// narrowed gives the scopes of the new access token: those that were asked for, or all, and never more than were granted and than the
// client may have today.
func narrowed(c *client, g *grant, form url.Values) ([]string, *fault) {
	asked, f := single(form, "scope")
	if f != nil {
		return nil, f
	}
	granted := g.scopesOf(c)
	if strings.TrimSpace(asked) == "" {
		return granted, nil
	}
	for _, s := range strings.Fields(asked) {
		if !slices.Contains(granted, s) {
			return nil, refuse(invalidScope, "a scope was not granted")
		}
	}
	return strings.Fields(asked), nil
}

// scopesOf gives what was granted and the client may have today.
func (g *grant) scopesOf(c *client) []string {
	return slices.DeleteFunc(slices.Clone(g.Scopes), func(s string) bool { return !slices.Contains(c.Scopes, s) })
}

// turn moves a family on from a generation, or finds that this was done already.
func (p *Provider) turn(ctx context.Context, grantID string, generation int64) (g *grant, err error) {
	var refused error
	now := stamp.Of(p.Now())
	err = p.DB.Write(ctx, func(tx *db.Tx) (err error) {
		refused = nil
		if g, err = grantByID(tx, grantID); err != nil {
			return err
		}
		if g.RevokedAt == nil && g.Generation == generation {
			turned, err := turnGrant(tx, g, now)
			if err != nil {
				return err
			}
			if turned {
				g.Generation++
				return nil
			}
			if g, err = grantByID(tx, grantID); err != nil { // somebody else did it in between
				return err
			}
		}
		if g.RevokedAt == nil && g.Generation == generation+1 && now.Sub(*g.RotatedAt) <= graceTime {
			return nil
		}
		refused = badGrant()
		return revokeGrant(tx, grantID, now)
	})
	if isNoRows(err) {
		err = badGrant()
	}
	if err == nil && refused != nil {
		web.Log(ctx).Warn("a refresh token was used again: its family is revoked", "client", g.ClientID, "grant", g.ID)
		err = refused
	}
	return g, err
}
