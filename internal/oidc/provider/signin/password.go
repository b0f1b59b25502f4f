package signin

import (
	"context"
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
	"steward/internal/web"
)

// maxPassword bounds what is hashed of a password that is checked. Passwords that can be set are shorter.
const maxPassword = 2048

// checkPassword reports whether a password is that of a user. For the zero User it takes the same time.
// It returns errBusy if too many passwords are being checked.
func (h *Handler) checkPassword(ctx context.Context, user oidc.User, password string) (correct bool, err error) {
	password = password[:min(len(password), maxPassword)]
	err = h.Hashing.Do(ctx, func() { correct = h.Users.CheckPassword(user.PasswordHash, password) })
	return correct, err
}

// hashPassword returns the hash of a new password. Errors are those of checkPassword.
func (h *Handler) hashPassword(ctx context.Context, password string) (hash string, err error) {
	err = h.Hashing.Do(ctx, func() { hash = h.Users.HashPassword(password) })
	return hash, err
}

// signOut ends all sessions of a user except one, which may be "", and all grants that do not belong to
// it, so that whoever else could act as the user cannot any more.
func (h *Handler) signOut(tx *db.Tx, userID, keepSession string) error {
	if err := session.RemoveOthers(tx, userID, keepSession); err != nil {
		return err
	}
	return grant.RevokeOfUser(tx, userID, keepSession, stamp.Of(h.Now()))
}

// addressLimit is the limit for guessing passwords from one address, of whichever account.
func addressLimit(network string) oauth.Limit {
	return oauth.Limit{Key: "address " + network, Burst: 300, Every: 500 * time.Millisecond}
}

// knownAddressLimits returns the limits for guessing a password from an address from which the account
// was used: for the account from this address, and for the address.
func knownAddressLimits(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "pair " + network + " " + email, Burst: 10, Every: 20 * time.Second},
		addressLimit(network),
	}
}

// passwordLimits returns the limits for guessing a password from anywhere: in addition, one for the
// account from all addresses together.
func passwordLimits(email, network string) []oauth.Limit {
	account := oauth.Limit{Key: "account " + email, Burst: 100, Every: 5 * time.Second}
	return append(knownAddressLimits(email, network), account)
}

// deviceLimits returns the limits for guessing a password in a browser in which its user has signed in
// before. Nobody else's guesses count against the first one.
func deviceLimits(device, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "device " + device, Burst: 10, Every: 20 * time.Second},
		addressLimit(network),
	}
}

// takeTry counts a try of a password and returns the limits that it counts against, or how long the
// browser has to wait. The limit for an account from all addresses does not apply to a browser or an
// address where the user has signed in before, so that guesses from elsewhere do not lock the user out.
// The zero User has no such place.
func (h *Handler) takeTry(
	r *http.Request, email string, user oidc.User,
) (taken []oauth.Limit, wait time.Duration, err error) {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	if device, ok := h.device(r, user); ok {
		taken = deviceLimits(device, network)
		return taken, h.throttle.Take(h.Now(), taken...), nil
	}
	taken = passwordLimits(email, network)
	wait = h.throttle.Take(h.Now(), taken...)
	if wait == 0 {
		return taken, 0, nil
	}
	known, err := h.knownAddress(r.Context(), user.ID, network)
	if err != nil || !known {
		return nil, wait, err
	}
	taken = knownAddressLimits(email, network)
	return taken, h.throttle.Take(h.Now(), taken...), nil
}

// knownAddress reports whether one of a user's sessions was started from a network. The sessions are
// shared by all replicas and bounded, and only sign-ins create them.
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
