package oidc

import (
	"math/rand/v2"

	"steward/internal/stamp"
)

// Consent records the scopes that a user allows a client. Every code and token based on it carries both
// epochs.
type Consent struct {
	ClientID string
	UserID   string
	Scopes   []string
	// Declined has the scopes that the user was asked for and did not allow.
	Declined    []string
	Epoch       int64
	ClientEpoch int64
	// ClientVersion is the client's version when the user last consented.
	ClientVersion int64
	CreatedAt     stamp.Time
	UpdatedAt     stamp.Time
}

// UserConsent is an entry in the list of a client's users.
type UserConsent struct {
	_ struct{} `goName:"OAuthClientUser"`

	UserID    string     `json:"user_id" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	Scopes    []string   `json:"scopes" example:"openid,profile,thread:read"`
	CreatedAt stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time `json:"updated_at" format:"date-time"`
}

// OwnConsent is an entry in the list of the user's own consents.
type OwnConsent struct {
	_ struct{} `goName:"Consent"`

	ClientID          string     `json:"client_id" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Scopes            []string   `json:"scopes" example:"openid,profile,thread:read"`
	CreatedAt         stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt         stamp.Time `json:"updated_at" format:"date-time"`
	ClientName        string     `json:"client_name" example:"Helpdesk"`
	ClientDescription string     `json:"client_description" example:"Answers questions of customers"`
	ClientIcon        *string    `json:"client_icon" example:"https://helpdesk.example.com/icon.png"`
	ClientHomepageURL string     `json:"client_homepage_url" example:"https://helpdesk.example.com"`
}

// Deleted is the response to a deletion or a revocation.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// newEpoch returns a random epoch for a consent. We only compare epochs for equality, so we need not
// remember earlier consents. An epoch fits into a JSON number (53 bits) and is never 0.
func newEpoch() int64 { return 1 + rand.Int64N(1<<53-1) }
