package jwt

import (
	"slices"

	"steward/internal/oidc"
)

// Actor is a client that acts for the subject of a token which it got in exchange for another one (RFC 8693
// section 4.1), and the one that did so before it.
type Actor struct {
	Subject string `json:"sub"`
	Actor   *Actor `json:"act,omitempty"`
}

// NewExchanged returns the claims of a new access token that client c gets in exchange for the token with the
// claims of a subject. It lives no longer than that, and is bound to the key with thumbprint jkt, if that is
// not empty.
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

// Holder returns the client that the user has allowed what the token can do: the one that it was issued to,
// or for a token that was exchanged, the one that the first token was issued to.
func (a *AccessClaims) Holder() string {
	if a.GrantedTo != "" {
		return a.GrantedTo
	}
	return a.ClientID
}

// Client returns the id of the client that the token was issued to, which is not ClientID if a document describes it.
func (a *AccessClaims) Client() string {
	if a.Act == nil {
		return a.Holder()
	}
	return a.ClientID
}

// IDs returns the id of the token and those of the tokens that it was exchanged for.
func (a *AccessClaims) IDs() []string { return append(slices.Clone(a.ExchangedFor), a.ID) }
