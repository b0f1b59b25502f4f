package attempt

import (
	"time"

	"steward/internal/oidc/provider/oauth"
)

// Address returns the limit for guessing passwords from one network, across all accounts.
func Address(network string) oauth.Limit {
	return oauth.Limit{Key: "address " + network, Burst: 300, Every: 500 * time.Millisecond}
}

// KnownAddress returns the limits for guessing a password from a network that has used the account
// before: one for the account from this network, and one for the network.
func KnownAddress(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "pair " + network + " " + email, Burst: 10, Every: 20 * time.Second},
		Address(network),
	}
}

// Password returns the limits for guessing a password from anywhere. It adds one for the account across
// all networks.
func Password(email, network string) []oauth.Limit {
	account := oauth.Limit{Key: "account " + email, Burst: 100, Every: 5 * time.Second}
	return append(KnownAddress(email, network), account)
}

// Device returns the limits for guessing a password in a browser that its user has signed in with before.
// Nobody else's guesses count against the first one.
func Device(device, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "device " + device, Burst: 10, Every: 20 * time.Second},
		Address(network),
	}
}

// Mail returns the limits for requesting links by mail: one for the email address, and one for the
// network.
func Mail(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "forgot " + email, Burst: 3, Every: 20 * time.Minute},
		{Key: "forgot from " + network, Burst: 20, Every: time.Minute},
	}
}
