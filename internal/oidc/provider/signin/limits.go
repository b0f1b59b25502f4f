package signin

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// TooMany tells the user of a form to wait.
const TooMany = "Too many attempts. Wait a minute, then try again."

// ErrTooMany tells browsers to wait.
var ErrTooMany = &oauth.Error{
	Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
	Description: "too many attempts: wait a minute, then try again",
}

// Limiter counts the attempts of browsers to use passwords, codes and links. All pages share one, since
// an address's limits cover everything tried from there.
type Limiter struct {
	Now func() time.Time

	throttle oauth.Throttle
}

// Take counts an attempt against all limits and returns 0. If one of them is exhausted, it counts
// nothing and returns the time until the next attempt.
func (l *Limiter) Take(limits ...oauth.Limit) (wait time.Duration) {
	return l.throttle.Take(l.Now(), limits...)
}

// Refund undoes Take after an attempt that succeeded.
func (l *Limiter) Refund(limits ...oauth.Limit) { l.throttle.Refund(limits...) }

// Link counts the use of a link, for an invitation, a reset or a new address, against the limit for the
// browser's network. Refund it if the link is valid. It returns ErrTooMany after too many invalid ones.
func (l *Limiter) Link(w http.ResponseWriter, r *http.Request) (oauth.Limit, error) {
	limit := oauth.Limit{Key: "link " + Network(r), Burst: 30, Every: 10 * time.Second}
	if wait := l.Take(limit); wait > 0 {
		SetRetryAfter(w, wait)
		return limit, ErrTooMany
	}
	return limit, nil
}

// SetRetryAfter tells the client when it may repeat a refused request.
func SetRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// Network returns the network of the browser behind a request.
func Network(r *http.Request) string { return oauth.Network(web.Request(r.Context()).RemoteAddr) }

// addressLimit returns the limit for guessing passwords from one network, for any accounts.
func addressLimit(network string) oauth.Limit {
	return oauth.Limit{Key: "address " + network, Burst: 300, Every: 500 * time.Millisecond}
}

// knownAddressLimits returns the limits for guessing a password from a network where the account was used:
// one for the account from this network, and one for the network.
func knownAddressLimits(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "pair " + network + " " + email, Burst: 10, Every: 20 * time.Second},
		addressLimit(network),
	}
}

// passwordLimits returns the limits for guessing a password from anywhere. They add one for the account,
// across all networks.
func passwordLimits(email, network string) []oauth.Limit {
	account := oauth.Limit{Key: "account " + email, Burst: 100, Every: 5 * time.Second}
	return append(knownAddressLimits(email, network), account)
}

// DeviceLimits returns the limits for guessing a password in a browser where its user has signed in before.
// Nobody else's guesses count against the first one.
func DeviceLimits(device, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "device " + device, Burst: 10, Every: 20 * time.Second},
		addressLimit(network),
	}
}

// MailLimits returns the limits for requesting links to an email address, and from a network.
func MailLimits(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "forgot " + email, Burst: 3, Every: 20 * time.Minute},
		{Key: "forgot from " + network, Burst: 20, Every: time.Minute},
	}
}
