package signin

import (
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
)

// levelAgain returns the acr that a user must reach to continue a session: the session's, or the
// strongest that the user can still reach. A session that began at a provider says nothing about the
// ways to sign in here, nor the other way round.
func (h *Handler) levelAgain(q db.Querier, f *flow.Flow, userID string, previous *session.Session) (string, error) {
	if previous == nil || previous.UserID != userID || previous.OrgID != f.Upstream {
		return "", nil
	}
	level := previous.Methods.Level()
	if f.Upstream != "" || level == "" {
		return level, nil
	}
	reachable, err := h.reachable(q, userID)
	return oauth.Weaker(level, reachable), err
}

// setAgain removes from the sign-in page every way in that the session's user cannot use. A user who
// came from a provider may have no other way.
func (h *Handler) setAgain(r *http.Request, view *pages.SignIn) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil || s == nil {
		return err
	}
	view.Again, view.Email, view.SingleSignOn, view.Upstreams = true, user.Email, false, nil
	passkey, err := h.Passkeys.Registered(r.Context(), user.ID)
	if err != nil {
		return err
	}
	if !passkey {
		view.Passkey = nil
	}
	refused, err := h.RefusesPassword(r.Context(), *user)
	if err != nil {
		return err
	}
	level, err := h.levelAgain(h.DB.Read(r.Context()), &flow.Flow{}, user.ID, s)
	if err != nil {
		return err
	}
	view.NoPassword = user.PasswordHash == "" || refused || level == oauth.LevelPhishingResistant
	view.Forgot = view.Forgot && !view.NoPassword
	if s.OrgID != "" {
		view.Upstreams, err = h.Upstreams.Buttons(r.Context(), s.OrgID)
	}
	return err
}
