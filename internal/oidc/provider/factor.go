package provider

import (
	"net/url"

	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/factor"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/upstream"
)

// actionClaim is the removal of how others may sign in as a user, in the audit log.
const actionClaim = "user.claim"

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

// NeedsProvider reports whether a user, whom it locks, has no way to sign in but with the provider of an organization.
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

// RemoveSignIns removes how a user signs in besides the password and the authenticator app, and what was granted to
// applications and devices: passkeys, accounts at providers, sessions, consents and tokens.
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
	return p.Accounts.Tell(tx, userID, mail.FactorsCleared)
}
