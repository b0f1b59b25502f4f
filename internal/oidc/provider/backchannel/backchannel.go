// Package backchannel owns back-channel logout (OpenID Connect Back-Channel Logout 1.0). It knows which
// clients got an ID token in a session, and sends them logout tokens when the session ends.
//
// Add ties a client with a logout URI to a session, in the transaction that redeems the client's code.
// The transaction that ends the session calls EndSession or EndOthers, which make its logouts due, so a
// crash afterwards loses none. Each replica runs a Worker that leases due logouts, sends their tokens,
// and deletes the ones that clients accepted. A token is valid for two minutes, so every attempt signs a
// new one.
package backchannel

import "time"

const (
	// retryFor bounds how long we retry a client that does not accept a token.
	retryFor = 24 * time.Hour
	// leaseFor is how long a batch belongs to the process that leased it. Sending a batch takes less time.
	leaseFor = 2 * time.Minute
	// batchSize bounds how many of a client's logouts one lease takes.
	batchSize = 5
	// sendTimeout bounds each attempt.
	sendTimeout = 10 * time.Second
)

// Client is a client that got an ID token in a user's session.
type Client struct {
	SessionID, ClientID, OrgID, UserID string
}

// backoff lists the pauses after failed attempts; the last one repeats.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// pause returns how long to wait after a number of failed attempts.
func pause(attempts int64) time.Duration {
	return backoff[min(int(attempts), len(backoff))-1]
}
