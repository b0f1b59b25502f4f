package provider

import (
	"net/url"

	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/upstream"
)

// actionClaim records in the audit log that we removed every way for others to sign in as a user.
const actionClaim = "user.claim"

// installationName returns the name that authenticator apps show for an issuer's installation.
func installationName(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return "Steward"
	}
	return "Steward " + u.Hostname()
}

// HasPasskeys reports whether users can sign in with passkeys at the base URL.
func (p *Provider) HasPasskeys() bool { return p.passkeys.Unavailable() == "" }

// NeedsProvider reports whether a user can only sign in with an organization's provider. It locks the
// user.
func (p *Provider) NeedsProvider(tx *db.Tx, userID string) (bool, error) {
	hash, err := p.Accounts.PasswordHash(tx, userID)
	if err != nil || hash != "" {
		return false, err
	}
	passkeys, err := p.passkeys.Count(tx, userID)
	if err != nil || passkeys > 0 {
		return false, err
	}
	return upstream.Known(tx, userID)
}

// RemoveSignIns removes a user's passkeys, accounts at providers, sessions, consents and tokens. Only
// the password and the authenticator app remain as ways in.
func (p *Provider) RemoveSignIns(tx *db.Tx, userID string) error {
	if err := passkey.RemoveAll(tx, userID); err != nil {
		return err
	}
	if err := upstream.RemoveAll(tx, userID); err != nil {
		return err
	}
	if err := p.Clients.ForgetUser(tx, userID); err != nil {
		return err
	}
	if err := signin.SignOut(tx, userID, "", p.Now()); err != nil {
		return err
	}
	return p.Accounts.Audit.RecordUser(tx, actionClaim, userID, userID)
}

// ClearFactors removes a user's authenticator app, recovery codes and passkeys, ends the user's
// sessions, and tells the user.
func (p *Provider) ClearFactors(tx *db.Tx, userID string) error {
	if err := passkey.RemoveAll(tx, userID); err != nil {
		return err
	}
	if err := signin.RemoveAuthenticator(tx, userID); err != nil {
		return err
	}
	if err := session.RemoveAll(tx, userID); err != nil {
		return err
	}
	return p.Accounts.Tell(tx, userID, mail.FactorsCleared)
}
