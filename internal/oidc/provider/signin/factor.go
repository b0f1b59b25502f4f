package signin

import (
	"errors"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

// Messages to users who set up or use an authenticator app.
const (
	WrongCode    = "This code is wrong or was used already."
	TooManyCodes = "Too many wrong codes. Wait a while before you try the next one, or use a recovery code."
	SetupExpired = "The page was open for too long. Scan the new code, and remove the one of before from your app."
)

// factorForm fills in the second factor's page. problem says why the last try failed.
type factorForm struct {
	flow    *flow.Flow
	user    account.User
	problem string
	// wait is the time until the user may try again.
	wait time.Duration
}

func (h *Handler) showFactor(w http.ResponseWriter, r *http.Request, form factorForm) error {
	passkey, err := h.Passkeys.Registered(r.Context(), form.user.ID)
	if err != nil {
		return err
	}
	view := &pages.Factor{
		Flow: h.Flows.Seal(form.flow), Email: form.user.Email, Again: h.again(form.flow), Passkey: passkey,
		Mailed: form.flow.Mailed != "",
	}
	if form.wait > 0 {
		view.Problem = form.problem
		SetRetryAfter(w, form.wait)
		return h.Pages.Render(w, r, http.StatusTooManyRequests, view)
	}
	return h.Pages.RenderForm(w, r, view, form.problem)
}

// Factor serves POST /sign-in/factor: a user who has shown the first factor shows the second one.
func (h *Handler) Factor(w http.ResponseWriter, r *http.Request) error {
	f, user, err := h.provedFlow(r)
	if err != nil {
		return err
	}
	wait, err := h.useCode(r, user.ID, r.PostForm.Get("code"))
	if wait > 0 {
		return h.showFactor(w, r, factorForm{flow: f, user: user, problem: TooManyCodes, wait: wait})
	}
	if errors.Is(err, ErrCode) {
		h.noteFailure(r, user)
		return h.showFactor(w, r, factorForm{flow: f, user: user, problem: WrongCode})
	}
	if err != nil {
		return err
	}
	return h.Complete(w, r, f, Proof{
		PasswordHash: user.PasswordHash, Methods: f.Proved.Methods.WithCode(),
	}, func(*db.Tx) (string, error) { return user.ID, nil })
}

// recoveryLimit bounds the writes caused by guessing recovery codes. Nobody can guess one.
func recoveryLimit(userID, network string) oauth.Limit {
	return oauth.Limit{Key: "recovery " + network + " " + userID, Burst: 10, Every: 20 * time.Second}
}

// useCode uses up a code that a user has typed, from the authenticator app or a recovery code. After
// too many wrong codes it returns the time to wait; it returns ErrCode if this one is wrong.
func (h *Handler) useCode(r *http.Request, userID, code string) (wait time.Duration, err error) {
	if IsAppCode(code) {
		return h.Factors.UseCode(r.Context(), userID, code)
	}
	limit := recoveryLimit(userID, Network(r))
	if wait := h.Attempts.Take(limit); wait > 0 {
		return wait, nil
	}
	if err := h.Factors.UseRecoveryCode(r.Context(), userID, code); err != nil {
		return 0, err
	}
	h.Attempts.Refund(limit)
	return 0, nil
}

// enrolment is a sign-in that needs the user to add a second factor. problem says why the last try
// failed.
type enrolment struct {
	flow    *flow.Flow
	user    account.User
	problem string
}

// showEnrol renders the page for users who must add an authenticator app before they can sign in.
func (h *Handler) showEnrol(w http.ResponseWriter, r *http.Request, e enrolment) error {
	setup, err := h.Factors.NewSetup(e.user.ID, e.user.Email)
	if err != nil {
		return err
	}
	return h.showSetup(w, r, setup, e)
}

func (h *Handler) showSetup(w http.ResponseWriter, r *http.Request, setup AuthenticatorSetup, e enrolment) error {
	view := &pages.Enrol{
		Email: e.user.Email, Action: oauth.PathSignInEnrol, Flow: h.Flows.Seal(e.flow), Again: h.again(e.flow),
	}
	if err := view.SetApp(setup.Sealed, setup.Secret, setup.URI); err != nil {
		return err
	}
	return h.Pages.RenderForm(w, r, view, e.problem)
}

// Enrol serves POST /sign-in/enrol: a user who must have a second factor adds an authenticator app with
// its first code, and is then signed in.
func (h *Handler) Enrol(w http.ResponseWriter, r *http.Request) error {
	f, user, other, err := h.enrolling(r, stepEnrol)
	if err != nil {
		return err
	}
	if other != nil {
		return h.showStep(w, r, f, *other)
	}
	setup, expired, err := h.Factors.ContinueSetup(r.PostForm.Get("setup"), user.ID, user.Email)
	if err != nil {
		return err
	}
	if expired {
		return h.showSetup(w, r, setup, enrolment{f, user, SetupExpired})
	}
	var codes []string
	left, err := h.start(w, r, f, Proof{
		PasswordHash: user.PasswordHash, Methods: f.Proved.Methods.WithCode(),
	}, func(tx *db.Tx) (userID string, err error) {
		if codes, err = h.Factors.Add(tx, user.ID, setup, r.PostForm.Get("code")); err != nil {
			return "", err
		}
		return user.ID, h.Accounts.Changed(tx, user.ID, ActionFactorAdd, mail.FactorChanged)
	})
	switch {
	case errors.Is(err, ErrCode):
		return h.showSetup(w, r, setup, enrolment{f, user, WrongCode})
	case errors.Is(err, ErrHasAuthenticator): // added in another request: now the user must use it
		return h.showFactor(w, r, factorForm{flow: f, user: user})
	case err != nil:
		return err
	case left.step != stepNone:
		return h.showStep(w, r, f, left)
	}
	return h.Pages.Render(w, r, http.StatusOK, &pages.Recovery{
		Codes: codes, Next: h.Flows.Location(f), NextText: "Continue",
	})
}
