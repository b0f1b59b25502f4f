// Package grant owns grants. A grant records that a user has allowed a client something once, from the
// consent page to the audience and the refresh tokens.
//
// A user decides on the consent page (consent.go). Then we create a grant with an authorization code,
// or when the user approves a device. The token endpoint redeems it once; from then on it carries a
// family of refresh tokens. A refresh token is `rt_<grant>.<generation>.<mac>`. We derive it from the
// row instead of storing it, so the family does not grow and concurrent refreshes get the same
// successor.
//
// Revoking a grant also voids the access tokens issued for it. Checking them reads a small, cached set
// of revoked ids.
package grant

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
)

const (
	// CodeLifetime limits how long a client can redeem an authorization code. RFC 9700 recommends a
	// minute at most.
	CodeLifetime = time.Minute
	// maxAccessLifetime is an access token's longest lifetime, so we must remember a revocation for
	// that long.
	maxAccessLifetime = oidc.MaxTokenLifetime * time.Second
	// clockSkew is the difference we allow between replicas' clocks.
	clockSkew = 5 * time.Second

	prefix = "grt"
)

// Grant records a user's permission for a client.
type Grant struct {
	ID       string
	OrgID    string
	ClientID string
	UserID   string
	// SessionID is the session that the refresh tokens end with; nil with offline access.
	SessionID *string
	// SignInSessionID is the session in which the user granted this, even with offline access; nil for
	// a device.
	SignInSessionID *string
	Scopes          []string
	ClientEpoch     int64
	ConsentEpoch    int64
	AuthTime        stamp.Time
	// Methods has the ways in which the user signed in; empty if unknown.
	Methods oauth.Methods
	Nonce   *string

	CodeHash      []byte
	CodeExpiresAt *stamp.Time
	RedirectURI   *string
	Challenge     *string
	// JKT is the DPoP key that the code and, later, the refresh tokens are bound to.
	JKT *string
	// Resource is the requested audience for access tokens; nil if there was none.
	Resource *string
	Salt     []byte

	RedeemedAt *stamp.Time
	// Generation counts the refresh tokens up to the current one; 0 if there is none.
	Generation       int64
	RotatedAt        *stamp.Time
	RefreshExpiresAt *stamp.Time
	RevokedAt        *stamp.Time
	CreatedAt        stamp.Time
	ExpiresAt        stamp.Time
}

// New returns a grant for client c to use scopes, based on a user's consent. The caller sets AuthTime
// and Methods.
func New(now time.Time, c *oidc.Registered, consent *oidc.Consent, scopes []string) *Grant {
	g := &Grant{
		ID: id.At(prefix, now), OrgID: c.OrgID, ClientID: c.ID, UserID: consent.UserID, Scopes: scopes,
		ClientEpoch: consent.ClientEpoch, ConsentEpoch: consent.Epoch,
		Salt: make([]byte, 16), CreatedAt: stamp.Of(now),
	}
	rand.Read(g.Salt) // never fails
	// We keep the row for as long as anything issued for it can be valid.
	g.ExpiresAt = g.CreatedAt.Add(CodeLifetime + maxAccessLifetime + clockSkew)
	return g
}

// AllowedScopes returns the granted scopes that the client may still use.
func (g *Grant) AllowedScopes(c *oidc.Registered) []string {
	return slices.DeleteFunc(slices.Clone(g.Scopes), func(s string) bool { return !slices.Contains(c.Scopes, s) })
}

// Store stores grants, devices and revocations, and derives refresh tokens.
type Store struct {
	DB       *db.DB
	Now      func() time.Time
	Key      oauth.Key
	Clients  *oidc.Store
	Sessions *session.Manager
	Accounts *account.Store

	revoked db.Cache[struct{}, *revokedSet]
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// Usable reports whether a grant's basis still holds: the client's epoch, the consent, the user, and
// that the client admits the user.
func (s *Store) Usable(ctx context.Context, c *oidc.Registered, g *Grant) (bool, error) {
	live, err := s.Clients.Live(ctx, c.ID, g.UserID, g.ClientEpoch, g.ConsentEpoch)
	if err != nil || !live {
		return false, err
	}
	admitted, err := s.Clients.Admits(ctx, c, g.UserID)
	if err != nil || !admitted {
		return false, err
	}
	_, err = s.Accounts.UserByID(ctx, g.UserID)
	if errs.KindOf(err) == errs.NotFound { // the user was removed
		return false, nil
	}
	return err == nil, err
}

// Refreshable reports whether a grant's refresh tokens are valid for client c: neither revoked nor
// expired, in a session that has not ended, on a usable grant.
func (s *Store) Refreshable(ctx context.Context, c *oidc.Registered, g *Grant) (bool, error) {
	if g.RevokedAt != nil || g.RefreshExpiresAt == nil || *g.RefreshExpiresAt <= s.now() {
		return false, nil
	}
	if g.SessionID != nil {
		live, err := s.Sessions.Live(ctx, *g.SessionID)
		if err != nil || !live {
			return false, err
		}
	}
	return s.Usable(ctx, c, g)
}

// Holder returns the client that a code or a refresh token was granted to. Usually that is c. But a
// client that a document describes is a different one in each organization, and authenticates as any of
// them.
func (s *Store) Holder(ctx context.Context, c *oidc.Registered, code, refreshToken string) (*oidc.Registered, error) {
	if c.DocumentURI == nil {
		return c, nil
	}
	g, err := s.ofToken(ctx, code, refreshToken)
	if errors.Is(err, db.ErrNoRows) {
		return c, nil // whoever needs the grant refuses the token
	}
	if err != nil {
		return nil, err
	}
	holder, err := s.Clients.Lookup(ctx, g.ClientID)
	if errs.KindOf(err) == errs.NotFound || err == nil && holder.ProtocolID() != c.ProtocolID() {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if holder.Suspended {
		return nil, oauth.ErrClient
	}
	return holder, nil
}

// ofToken returns the grant for a code, or else for a refresh token, which may be forged. It returns
// db.ErrNoRows if there is none.
func (s *Store) ofToken(ctx context.Context, code, refreshToken string) (*Grant, error) {
	if code != "" {
		return ByCode(s.DB.Read(ctx), code)
	}
	grantID, _, ok := parseRefreshToken(refreshToken)
	if !ok {
		return nil, db.ErrNoRows
	}
	return ByID(s.DB.Read(ctx), grantID)
}

// Redemption describes the client that redeems a grant.
type Redemption struct {
	Client *oidc.Registered
	// JKT is the key in the client's DPoP proof; empty if there is none.
	JKT string
	// Refresh gives the client refresh tokens, if it may have any.
	Refresh bool
}

// Redeem marks a grant as redeemed and, if the client gets refresh tokens, starts their family. If the
// grant was redeemed before, Redeem revokes it and returns false.
func (s *Store) Redeem(tx *db.Tx, g *Grant, by Redemption) (redeemed bool, err error) {
	now := s.now()
	c := by.Client
	g.RedeemedAt = &now
	g.JKT = nil
	if c.ClientType == oidc.Public && by.JKT != "" { // a confidential client authenticates when it refreshes
		g.JKT = &by.JKT
	}
	g.ExpiresAt = now.Add(maxAccessLifetime + clockSkew)
	if by.Refresh && slices.Contains(c.GrantTypes, oidc.RefreshToken) {
		expires := now.Add(c.RefreshLifetime())
		g.Generation = 1
		g.RefreshExpiresAt = &expires
		g.ExpiresAt = max(g.ExpiresAt, expires)
	}
	redeemed, err = markRedeemed(tx, g)
	if err != nil || redeemed {
		return redeemed, err
	}
	return false, Revoke(tx, g.ID, now)
}
