// Package backchannel owns back-channel logout (OpenID Connect Back-Channel Logout 1.0): which clients got
// an ID token in a session, and the logout tokens that they get when it ends.
//
// A client with a logout URI is added to a session by Add, in the transaction that redeems its code. The
// transaction that ends the session calls EndSession or EndOthers, which make its logouts due, so that
// none is lost if the process dies afterwards. A Worker of each replica leases logouts that are due, sends
// their tokens, and deletes those that were taken. Every token is new, since it is valid for two minutes.
package backchannel

import "time"

const (
	// retryFor is how long a client is tried that does not take a token.
	retryFor = 24 * time.Hour
	// leaseFor is how long a batch is left to the process that has taken it. It is longer than sending a
	// batch can take.
	leaseFor = 2 * time.Minute
	// batchSize is how many logouts of a client are leased at once.
	batchSize = 5
	// sendTimeout bounds each attempt.
	sendTimeout = 10 * time.Second
)

// Client is a client that got an ID token in a session of a user.
type Client struct {
	SessionID, ClientID, OrgID, UserID string
}

// backoff are the pauses after failed attempts; the last one repeats.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// pause returns how long to wait after the last of some attempts.
func pause(attempts int64) time.Duration {
	return backoff[min(int(attempts), len(backoff))-1]
}
