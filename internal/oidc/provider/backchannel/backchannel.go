// Package backchannel owns back-channel logout (OpenID Connect Back-Channel Logout 1.0). It remembers
// the clients that got an ID token in a session, and sends them logout tokens when the session ends.
//
// Add adds a client with a logout URI to a session, in the transaction that redeems the client's code.
// The transaction that ends the session calls EndSession or EndOthers, which make its logouts due, so
// that none is lost if the process dies afterwards. On each replica a Worker leases due logouts, sends
// their tokens, and deletes the ones that clients accept. We make a new token for each attempt, since
// it is valid for two minutes.
package backchannel

import "time"

const (
	// retryFor limits how long we retry a client that does not accept a token.
	retryFor = 24 * time.Hour
	// A batch belongs to the process that leases it for leaseFor. Sending a batch always takes less.
	leaseFor = 2 * time.Minute
	// batchSize caps the logouts that we lease for a client at once.
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

// pause returns the pause after a number of attempts.
func pause(attempts int64) time.Duration {
	return backoff[min(int(attempts), len(backoff))-1]
}
