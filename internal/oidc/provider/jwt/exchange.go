package jwt

import (
	"slices"

	"steward/internal/oidc"
)

// Actor is a client that exchanged another token (RFC 8693 section 4.1) and now acts for its subject. The
// inner Actor is the client that did so before it.
type Actor struct {
	Subject string `json:"sub"`
	Actor   *Actor `json:"act,omitempty"`
}

// NewExchanged returns the claims for a new access token that client c gets in exchange for the subject's
// token. The new token does not outlive that one. If jkt is not empty, it is bound to the key with that
// thumbprint.
func (i *Issuer) NewExchanged(c *oidc.Registered, subject *AccessClaims, scopes []string, jkt string) *AccessClaims {
	a := i.NewAccess(c, subject.Subject, scopes, jkt)
	if subject.ExpiresAt.Time().Before(a.ExpiresAt.Time()) {
		a.ExpiresAt = subject.ExpiresAt
	}
	a.OrgID = subject.OrgID
	a.AuthTime = subject.AuthTime
	a.SignIn = subject.SignIn
	a.Grant = subject.Grant
	a.ClientEpoch = subject.ClientEpoch
	a.ConsentEpoch = subject.ConsentEpoch
	a.GrantedTo = subject.Holder()
	a.ExchangedFor = append(slices.Clone(subject.ExchangedFor), subject.ID)
	a.Act = &Actor{Subject: c.ID, Actor: subject.Act}
	return a
}

// Holder returns the client that the user trusted with this access: the one that got the token, or, after
// an exchange, the one that got the first token.
func (a *AccessClaims) Holder() string {
	if a.GrantedTo != "" {
		return a.GrantedTo
	}
	return a.ClientID
}

// Client returns the id of the client that got the token. If a document describes the client, that
// differs from ClientID.
func (a *AccessClaims) Client() string {
	if a.Act == nil {
		return a.Holder()
	}
	return a.ClientID
}

// IDs returns the token's id, after the ids of the tokens that it was exchanged for.
func (a *AccessClaims) IDs() []string { return append(slices.Clone(a.ExchangedFor), a.ID) }
