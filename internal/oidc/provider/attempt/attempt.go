// Package attempt limits how often browsers try passwords, codes and links.
//
// All pages share one Limiter, since an address's limits cover everything that it tries.
package attempt

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// TooMany tells a form's user to wait.
const TooMany = "Too many attempts. Wait a minute, then try again."

// ErrTooMany tells browsers to wait.
var ErrTooMany = &oauth.Error{
	Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
	Description: "too many attempts: wait a minute, then try again",
}

// Limiter counts attempts.
type Limiter struct {
	Now func() time.Time

	throttle oauth.Throttle
}

// Take counts an attempt against all limits and returns 0. If one limit is exhausted, it counts nothing
// and returns the time until the next attempt.
func (l *Limiter) Take(limits ...oauth.Limit) (wait time.Duration) {
	return l.throttle.Take(l.Now(), limits...)
}

// Refund undoes Take, for an attempt that succeeded.
func (l *Limiter) Refund(limits ...oauth.Limit) { l.throttle.Refund(limits...) }

// Link counts a visit to an invitation's, a reset's or a new address's link against the limit for the
// browser's network. The caller refunds it if the link is valid. It returns ErrTooMany after too many
// invalid ones.
func (l *Limiter) Link(w http.ResponseWriter, r *http.Request) (oauth.Limit, error) {
	limit := oauth.Limit{Key: "link " + Network(r), Burst: 30, Every: 10 * time.Second}
	if wait := l.Take(limit); wait > 0 {
		SetRetryAfter(w, wait)
		return limit, ErrTooMany
	}
	return limit, nil
}

// SetRetryAfter says when the browser can repeat a refused request.
func SetRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// Network returns the network that a browser's request comes from.
func Network(r *http.Request) string { return oauth.Network(web.Request(r.Context()).RemoteAddr) }
