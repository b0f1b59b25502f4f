// Package grant owns grants: what a user has allowed a client to do, once, from the consent page to the
// audience and the refresh tokens.
//
// A user decides on the consent page (consent.go). A grant is then created with an authorization code or
// with the approval of a device. The token endpoint redeems it once; from then on it carries a family of
// refresh tokens. A refresh token is `rt_<grant>.<generation>.<mac>`: it is derived from the row, so
// nothing of it is stored, the family does not grow, and concurrent refreshes get the same successor.
//
// Revoking a grant also voids the access tokens that were issued for it. Their check reads a small set of
// revoked ids, which is cached.
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
	// CodeLifetime is how long an authorization code can be redeemed. RFC 9700 recommends a minute
	// at most.
	CodeLifetime = time.Minute
	// maxAccessLifetime is the longest lifetime of an access token, so the longest that a revocation must
	// be remembered.
	maxAccessLifetime = oidc.MaxTokenLifetime * time.Second
	// clockSkew is how far the clocks of replicas may differ.
	clockSkew = 5 * time.Second

	prefix = "grt"
)

// Grant is what a user has allowed a client to do.
type Grant struct {
	ID       string
	OrgID    string
	ClientID string
	UserID   string
	// SessionID is the session with which the refresh tokens end; nil with offline access.
	SessionID *string
	// SignInSessionID is the session in which the user granted this, also with offline access; nil for a
	// device.
	SignInSessionID *string
	Scopes          []string
	ClientEpoch     int64
	ConsentEpoch    int64
	AuthTime        stamp.Time
	// Methods is how the user signed in; empty if that is not known.
	Methods oauth.Methods
	Nonce   *string

	CodeHash      []byte
	CodeExpiresAt *stamp.Time
	RedirectURI   *string
	Challenge     *string
	// JKT is the DPoP key that the code, and later the refresh tokens, are bound to.
	JKT *string
	// Resource is the requested audience of access tokens; nil if there was none.
	Resource *string
	Salt     []byte

	RedeemedAt *stamp.Time
	// Generation is that of the current refresh token; 0 if there is none.
	Generation       int64
	RotatedAt        *stamp.Time
	RefreshExpiresAt *stamp.Time
	RevokedAt        *stamp.Time
	CreatedAt        stamp.Time
	ExpiresAt        stamp.Time
}

// New returns a grant of scopes to client c, based on the consent of a user. The caller sets AuthTime
// and Methods.
func New(now time.Time, c *oidc.Registered, consent *oidc.Consent, scopes []string) *Grant {
	g := &Grant{
		ID: id.At(prefix, now), OrgID: c.OrgID, ClientID: c.ID, UserID: consent.UserID, Scopes: scopes,
		ClientEpoch: consent.ClientEpoch, ConsentEpoch: consent.Epoch,
		Salt: make([]byte, 16), CreatedAt: stamp.Of(now),
	}
	rand.Read(g.Salt) // never fails
	// The row is kept for as long as anything issued for it can be valid.
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

// Usable reports whether what a grant is based on still holds: the epoch of the client, the consent, the
// user, and that the client admits the user.
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

// Refreshable reports whether the refresh tokens of a grant are valid for client c: neither revoked nor
// expired, in a session that has not ended, on a grant that is usable.
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

// Holder returns the client that a code or a refresh token was granted to. It is c, unless a document describes c: that
// client is another one in each organization, and authenticates as any of them.
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

// ofToken returns the grant of a code, or else of a refresh token, which may be forged. It returns db.ErrNoRows if there
// is none.
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

// Redemption says who redeems a grant.
type Redemption struct {
	Client *oidc.Registered
	// JKT is the key of the client's DPoP proof; empty if there is none.
	JKT string
	// Refresh says that the client gets refresh tokens, if it may have any.
	Refresh bool
}

// Redeem marks a grant as redeemed and starts its family of refresh tokens, if there is one. If it was
// redeemed before, Redeem revokes it and returns false.
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
