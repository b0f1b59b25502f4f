// Package passkey owns the passkeys of users: discoverable Web Authentication credentials that sign a user in
// without a name or a password.
//
// A page gets a Ceremony with a challenge for the browser, and the same challenge sealed. It sends back
// the sealed challenge with the authenticator's answer, so unauthenticated requests write nothing to the
// database. Created and Asserted verify the answer. Add and Use store the result in the caller's
// transaction, and use up the challenge.
package passkey

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Max is how many passkeys a user can have.
const Max = 20

// Passkey is a user's passkey.
type Passkey struct {
	ID, UserID, Name string
	CreatedAt        stamp.Time
	LastUsedAt       *stamp.Time // nil if nobody has used it yet

	credentialID, handle, publicKey []byte
	backupEligible                  bool
	signCount                       int64
}

// Problem tells the user, in a sentence, why we did not accept a passkey.
type Problem string

func (p Problem) Error() string { return string(p) }

// ErrRefused covers every answer that does not verify, so that it gives nothing away.
const (
	ErrRefused = Problem("This passkey was not accepted.")
	ErrExpired = Problem("That took too long. Try again.")
	ErrUsed    = Problem("This page was used already. Try again.")
	ErrCounter = Problem("This passkey was not accepted, because a copy of it seems to be in use. " +
		"Sign in another way and remove it.")
	ErrName    = Problem("Give the passkey a name of at most 64 characters.")
	ErrExists  = Problem("This passkey is registered already.")
	ErrTooMany = Problem("You have 20 passkeys, which is the most. Remove one first.")
)

// Manager creates, finds and checks passkeys.
type Manager struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time

	// unavailable says why passkeys do not work here; empty if they do.
	unavailable string
	// party is nil if passkeys do not work here.
	party  *webauthn.WebAuthn
	rpID   string
	origin string
}

// Open prepares the manager for the installation's base URL. Call it once.
func (m *Manager) Open(baseURL string) error {
	u, err := url.Parse(baseURL)
	if err != nil {
		return fmt.Errorf("parse base URL: %w", err)
	}
	if m.unavailable = unavailable(u); m.unavailable != "" {
		return nil
	}
	m.rpID = u.Hostname()
	m.origin = originOf(u)
	m.party, err = webauthn.New(&webauthn.Config{
		RPID: m.rpID, RPDisplayName: "Steward", RPOrigins: []string{m.origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{
			Login:        webauthn.TimeoutConfig{Timeout: challengeLifetime},
			Registration: webauthn.TimeoutConfig{Timeout: challengeLifetime},
		},
	})
	if err != nil {
		return fmt.Errorf("configure passkeys: %w", err)
	}
	return nil
}

// unavailable says, in a sentence, why browsers do not allow passkeys at a base URL. It returns "" if
// they do.
func unavailable(u *url.URL) string {
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return "Passkeys need a host name, and the base URL of this server has the IP address " + host + "."
	}
	if u.Scheme != "https" && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return "Passkeys need HTTPS, and the base URL of this server has plain HTTP."
	}
	return ""
}

// originOf returns a URL's origin as browsers write it, without the scheme's default port.
func originOf(u *url.URL) string {
	host := u.Host
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	} else {
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host
}

// Unavailable says, in a sentence, why passkeys do not work at this installation's base URL. It returns
// "" if they do.
func (m *Manager) Unavailable() string { return m.unavailable }

// Registered reports whether a user has a passkey to sign in with.
func (m *Manager) Registered(ctx context.Context, userID string) (bool, error) {
	n, err := m.count(m.DB.Read(ctx), userID)
	return n > 0, err
}

// List returns a user's passkeys, oldest first.
func (m *Manager) List(ctx context.Context, userID string) ([]Passkey, error) {
	return m.list(m.DB.Read(ctx), userID)
}
