package jwt

import (
	"slices"

	"steward/internal/oidc"
)

// Actor is a client that acts for a token's subject, because it got the token in an exchange (RFC 8693
// section 4.1), and the actor before it.
type Actor struct {
	Subject string `json:"sub"`
	Actor   *Actor `json:"act,omitempty"`
}

// NewExchanged returns the claims for a new access token that client c gets in exchange for the
// subject's token. It expires no later than that one. If jkt is not empty, it is bound to the key with
// that thumbprint.
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

// Holder returns the client that the user gave this access to: the token's own client or, after
// exchanges, the first token's.
func (a *AccessClaims) Holder() string {
	if a.GrantedTo != "" {
		return a.GrantedTo
	}
	return a.ClientID
}

// Client returns the id of the client that the token was issued to. That differs from ClientID if a
// document describes the client.
func (a *AccessClaims) Client() string {
	if a.Act == nil {
		return a.Holder()
	}
	return a.ClientID
}

// IDs returns the ids of the token and all tokens it was exchanged for.
func (a *AccessClaims) IDs() []string { return append(slices.Clone(a.ExchangedFor), a.ID) }
