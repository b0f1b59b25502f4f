package signin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
)

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
