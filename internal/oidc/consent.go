package oidc

import (
	"math/rand/v2"

	"steward/internal/stamp"
)

// Consent is what a user allowed a client, as the protocol needs it. Both epochs go into every code and token that rests on it.
type Consent struct {
	ClientID    string
	UserID      string
	Scopes      []string
	Epoch       int64
	ClientEpoch int64
	CreatedAt   stamp.Time
	UpdatedAt   stamp.Time
}

// Grant is a consent as listed for a client.
type Grant struct {
	UserID    string     `json:"user_id"`
	Scopes    []string   `json:"scopes"`
	CreatedAt stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt stamp.Time `json:"updated_at" format:"date-time"`
}

// OwnGrant is a consent as listed for the user who gave it.
type OwnGrant struct {
	ClientID          string     `json:"client_id"`
	Scopes            []string   `json:"scopes"`
	CreatedAt         stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt         stamp.Time `json:"updated_at" format:"date-time"`
	ClientName        string     `json:"client_name"`
	ClientDescription string     `json:"client_description"`
	ClientIcon        *string    `json:"client_icon"`
	ClientHomepageURL string     `json:"client_homepage_url"`
}

// Deleted is the answer to every removal here.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// newEpoch gives a consent a number of its own. It is compared for equality only, so it need not grow: random, it needs no memory of the
// consents that were. It fits a JSON number (53 bits), and 0 means none.
func newEpoch() int64 { return 1 + rand.Int64N(1<<53-1) }
