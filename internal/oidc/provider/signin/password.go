package signin

import (
	"context"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
)

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
	taken = passwordLimits(email, network)
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
