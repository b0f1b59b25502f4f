package signin

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
)

// A sign-in with one factor may not be enough: the user has an authenticator app, or an organization
// requires one or a passkey. Then we start no session yet. The proof so far travels in the flow,
// sealed, for a few minutes and for this browser only.

// step is an action that a user must still take to complete a sign-in.
type step int

const (
	stepNone    step = iota
	stepCode         // enter a code from the authenticator app
	stepEnrol        // add an authenticator app
	stepPasskey      // use a passkey, or add one
)

// remaining names the user and the step that is left.
type remaining struct {
	userID string
	step   step
}

// provedLifetime limits the time between a sign-in's steps.
const provedLifetime = 10 * time.Minute

// remaining returns the step left for a user who has signed in with methods and must reach the acr
// again to continue a session. A passkey is always enough.
func (h *Handler) remaining(q db.Querier, userID string, methods oauth.Methods, again string) (remaining, error) {
	required, err := h.Accounts.RequiredLevel(q, userID)
	if err != nil {
		return remaining{}, err
	}
	app, err := AuthenticatorOf(q, userID)
	if err != nil {
		return remaining{}, err
	}
	next := nextStep(methods, required, app != nil)
	if next == stepNone && !methods.Reach(again) {
		next = stepPasskey
	}
	return remaining{userID, next}, nil
}

// nextStep returns the next step for a user who has signed in with methods and must reach a level.
func nextStep(methods oauth.Methods, required string, hasApp bool) step {
	switch {
	case hasApp && !methods.Reach(oauth.LevelSeveral):
		return stepCode
	case methods.Reach(required):
		return stepNone
	case required == oauth.LevelPhishingResistant:
		return stepPasskey
	}
	return stepEnrol
}

// showStep renders the page for the step that is left. A user who came from an organization's provider
// cannot add a factor: whoever manages the provider can sign in as its users there, and must not add
// ways to sign in elsewhere.
func (h *Handler) showStep(w http.ResponseWriter, r *http.Request, f *flow.Flow, left remaining) error {
	user, err := h.userOf(r.Context(), f, left.userID)
	if err != nil {
		return err
	}
	switch {
	case left.step == stepNone:
		return flow.ErrExpired
	case left.step == stepCode:
		return h.showFactor(w, r, factorForm{flow: f, user: user})
	case f.Upstream != "":
		return h.Pages.Render(w, r, http.StatusForbidden, &pages.Message{
			Title: "A second factor is required",
			Text:  "You need a second factor or a passkey here, and the provider of your organization has not told that you used one.",
			Next:  h.again(f), NextText: "Sign in another way",
		})
	case left.step == stepPasskey:
		return h.showPasskeyStep(w, r, f, user)
	}
	return h.showEnrol(w, r, enrolment{flow: f, user: user})
}

// enrolling returns the user and the flow in a form that adds a required factor. If the user must take
// another step, such as entering a code from an app already added, it returns that step instead.
func (h *Handler) enrolling(r *http.Request, want step) (f *flow.Flow, user account.User, other *remaining, err error) {
	f, user, err = h.provedFlow(r)
	if err != nil {
		return nil, account.User{}, nil, err
	}
	left, err := h.remaining(h.DB.Read(r.Context()), user.ID, f.Proved.Methods, "")
	if err != nil {
		return nil, account.User{}, nil, err
	}
	if left.step != want || f.Upstream != "" {
		return f, user, &left, nil
	}
	return f, user, nil, nil
}

// showPasskeyStep renders the page for a user who must sign in with a passkey. Users who have one are
// sent back to sign in with it. The others add one.
func (h *Handler) showPasskeyStep(w http.ResponseWriter, r *http.Request, f *flow.Flow, user account.User) error {
	has, err := h.Passkeys.Registered(r.Context(), user.ID)
	if err != nil {
		return err
	}
	if !has && h.Passkeys.Unavailable() == "" {
		return h.showEnrolPasskey(w, r, enrolment{flow: f, user: user})
	}
	view := &pages.Message{
		Title: "A passkey is required", Text: "Your organization requires that you sign in with a passkey, or you did so before.",
	}
	if has {
		view.Next = h.again(f)
		view.NextText = "Sign in with a passkey"
	}
	return h.Pages.Render(w, r, http.StatusForbidden, view)
}

// again returns the URL where a flow starts over with the sign-in page.
func (h *Handler) again(f *flow.Flow) string {
	fresh := *f
	fresh.Proved = nil
	fresh.Upstream = ""
	fresh.Mailed = ""
	fresh.AuthTime = 0
	return h.Flows.Location(&fresh)
}

// ReachableLevel returns the strongest acr that a user can sign in with.
func (h *Handler) ReachableLevel(ctx context.Context, userID string) (string, error) {
	return h.reachable(h.DB.Read(ctx), userID)
}

func (h *Handler) reachable(q db.Querier, userID string) (string, error) {
	passkeys, err := h.Passkeys.Count(q, userID)
	if err != nil {
		return "", err
	}
	if passkeys > 0 {
		return oauth.LevelPhishingResistant, nil
	}
	app, err := AuthenticatorOf(q, userID)
	if err != nil {
		return "", err
	}
	if app != nil {
		return oauth.LevelSeveral, nil
	}
	return oauth.LevelPassword, nil
}

// userOf returns a user. On the way to an invitation it also finds the invited user, who may have left
// all organizations.
func (h *Handler) userOf(ctx context.Context, f *flow.Flow, userID string) (account.User, error) {
	user, err := h.Accounts.UserByID(ctx, userID)
	token, invited := invitationToken(f)
	if !invited || errs.KindOf(err) != errs.NotFound {
		return user, err
	}
	invitation, err := h.Accounts.InvitationByToken(ctx, token)
	if err != nil {
		return account.User{}, err
	}
	user, err = h.Accounts.InvitedUser(ctx, token, invitation.Email)
	if err == nil && user.ID != userID {
		return account.User{}, errs.Missing("user", userID)
	}
	return user, err
}

func (h *Handler) passwordDigest(hash string) string {
	return base64.RawURLEncoding.EncodeToString(h.Key.MAC("proved password", []byte(hash))[:16])
}

// provedFlow returns the flow in a form, and the user who has passed its first step. It returns
// ErrExpired if that step was too long ago or in another browser, or if the password has changed since.
func (h *Handler) provedFlow(r *http.Request) (*flow.Flow, account.User, error) {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return nil, account.User{}, err
	}
	shown := f.Proved
	if shown == nil || h.Now().Sub(shown.At.Std()) > provedLifetime || shown.Browser == "" ||
		shown.Browser != h.Pages.Browser(r) {
		return nil, account.User{}, flow.ErrExpired
	}
	user, err := h.userOf(r.Context(), f, shown.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, account.User{}, flow.ErrExpired
	}
	if err != nil {
		return nil, account.User{}, err
	}
	if shown.Password != h.passwordDigest(user.PasswordHash) {
		return nil, account.User{}, flow.ErrExpired
	}
	return f, user, nil
}

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
