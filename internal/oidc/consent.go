package oidc

import (
	"math/rand/v2"

	"steward/internal/stamp"
)

// Consent is what a user has allowed a client. Both epochs go into every code and token that is based on
// it.
type Consent struct {
	ClientID string
	UserID   string
	Scopes   []string
	// Declined are the scopes that the user was asked for and has not allowed.
	Declined    []string
	Epoch       int64
	ClientEpoch int64
	// ClientVersion is the version of the client to which the user consented last.
	ClientVersion int64
	CreatedAt     stamp.Time
	UpdatedAt     stamp.Time
}

// UserConsent is a consent in the list of a client's users.
type UserConsent struct {
	UserID    string     `json:"user_id"`
	Scopes    []string   `json:"scopes"`
	CreatedAt stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time `json:"updated_at" format:"date-time"`
}

// OwnConsent is a consent in the list of the user who gave it.
type OwnConsent struct {
	ClientID          string     `json:"client_id"`
	Scopes            []string   `json:"scopes"`
	CreatedAt         stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt         stamp.Time `json:"updated_at" format:"date-time"`
	ClientName        string     `json:"client_name"`
	ClientDescription string     `json:"client_description"`
	ClientIcon        *string    `json:"client_icon"`
	ClientHomepageURL string     `json:"client_homepage_url"`
}

// Deleted is the response to a deletion or a revocation.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// newEpoch returns a random epoch for a consent. Epochs are compared for equality only, so that nothing
// has to be remembered of earlier consents. It fits into a JSON number (53 bits) and is never 0.
func newEpoch() int64 { return 1 + rand.Int64N(1<<53-1) }
