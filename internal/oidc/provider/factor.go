package provider

import (
	"net/url"

	"steward/internal/db"
	"steward/internal/oidc/provider/factor"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
)

// installationName returns how authenticator apps call the installation of an issuer.
func installationName(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return "Steward"
	}
	return "Steward " + u.Hostname()
}

// HasPasskeys reports whether users can sign in with passkeys at the base URL.
func (p *Provider) HasPasskeys() bool { return p.passkeys.Unavailable() == "" }

// ClearFactors removes the authenticator app, the recovery codes and the passkeys of a user, ends the user's sessions, and tells the user.
func (p *Provider) ClearFactors(tx *db.Tx, userID string) error {
	if err := passkey.RemoveAll(tx, userID); err != nil {
		return err
	}
	if err := factor.Remove(tx, userID); err != nil {
		return err
	}
	if err := session.RemoveAll(tx, userID); err != nil {
		return err
	}
	return p.Users.Tell(tx, userID, signin.NoticeFactorsCleared)
}
