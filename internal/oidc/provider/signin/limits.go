package signin

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
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

// PasswordLimits returns the limits for guessing a password from anywhere. They add one for the account,
// across all networks.
func PasswordLimits(email, network string) []oauth.Limit {
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

// maxFailures caps the failed sign-ins that wait to be recorded.
const maxFailures = 1000

// failures collects failed sign-ins. RecordFailures writes them later, since a write during the request
// would take time and so reveal that the user exists.
type failures struct {
	mu      sync.Mutex
	pending []failure
}

// failure is a failed sign-in, with its request's context.
type failure struct {
	ctx    context.Context
	userID string
}

func (f *failures) add(one failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) < maxFailures {
		f.pending = append(f.pending, one)
	}
}

func (f *failures) take() []failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := f.pending
	f.pending = nil
	return pending
}

// failureLimit limits how many failed sign-ins we record for an account.
func failureLimit(userID string) oauth.Limit {
	return oauth.Limit{Key: "failure " + userID, Burst: 3, Every: 20 * time.Second}
}

// noteFailure notes a user's failed sign-in. It ignores the zero User, who belongs to no organization.
func (h *Handler) noteFailure(r *http.Request, user account.User) {
	if user.ID != "" && h.Attempts.Take(failureLimit(user.ID)) == 0 {
		h.failures.add(failure{context.WithoutCancel(r.Context()), user.ID})
	}
}

// RecordFailures writes the failed sign-ins since the last call to the audit log. Call it once a
// second, and once more at shutdown.
func (h *Handler) RecordFailures(ctx context.Context) error {
	for _, f := range h.failures.take() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := h.DB.Write(f.ctx, func(tx *db.Tx) error { return h.Accounts.Audit.RecordUser(tx, actionSignInFailed, f.userID, "") })
		if err != nil {
			return err
		}
	}
	return nil
}

// SignOut ends all of a user's sessions except keepSession, which may be "", and all grants that do not
// belong to it. Nobody else can then act as the user any more.
func SignOut(tx *db.Tx, userID, keepSession string, now time.Time) error {
	if err := session.RemoveOthers(tx, userID, keepSession); err != nil {
		return err
	}
	return grant.RevokeOfUser(tx, userID, keepSession, stamp.Of(now))
}

// takeTry counts a password attempt and returns the limits it counts against, or the time the browser
// has to wait. The account's limit across all addresses does not apply to a browser or an address where
// the user has signed in before, so that guesses from elsewhere cannot lock the user out. The zero User
// has no such place.
func (h *Handler) takeTry(
	r *http.Request, email string, user account.User,
) (taken []oauth.Limit, wait time.Duration, err error) {
	network := Network(r)
	if device, ok := h.Browsers.Recognize(r, BrowserOwner{UserID: user.ID, PasswordHash: user.PasswordHash}); ok {
		taken = DeviceLimits(device, network)
		return taken, h.Attempts.Take(taken...), nil
	}
	taken = PasswordLimits(email, network)
	wait = h.Attempts.Take(taken...)
	if wait == 0 {
		return taken, 0, nil
	}
	known, err := h.knownAddress(r.Context(), user.ID, network)
	if err != nil || !known {
		return nil, wait, err
	}
	taken = knownAddressLimits(email, network)
	return taken, h.Attempts.Take(taken...), nil
}

// knownAddress reports whether one of a user's sessions was started from a network. All replicas share
// the sessions, their number is bounded, and only sign-ins create them.
func (h *Handler) knownAddress(ctx context.Context, userID, network string) (bool, error) {
	sessions, err := h.Sessions.List(ctx, userID)
	if err != nil {
		return false, err
	}
	for _, s := range sessions {
		if oauth.Network(s.RemoteAddr) == network {
			return true, nil
		}
	}
	return false, nil
}
