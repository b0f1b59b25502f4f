package token

import (
	"slices"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
)

// joinSession registers a client to be told when the session ends, if the client has a logout URI and
// gets an ID token. It returns false if the session has ended.
func joinSession(tx *db.Tx, c *oidc.Registered, g *grant.Grant, now stamp.Time) (joined bool, err error) {
	if g.SignInSessionID == nil || !c.HasLogoutURI() || !slices.Contains(g.AllowedScopes(c), oidc.ScopeOpenID) {
		return true, nil
	}
	return session.AddClient(tx, c, *g.SignInSessionID, now)
}

// sessionOf returns the session that an ID token names, or "". With offline access the tokens do not
// depend on a session, but a client that we tell about its end must know it.
func sessionOf(c *oidc.Registered, g *grant.Grant) string {
	switch {
	case g.SessionID != nil:
		return *g.SessionID
	case g.SignInSessionID != nil && c.HasLogoutURI():
		return *g.SignInSessionID
	}
	return ""
}
