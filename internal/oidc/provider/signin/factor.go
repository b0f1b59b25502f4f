package signin

import (
	"errors"
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/factor"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

const (
	wrongCode    = "This code is wrong or was used already."
	tooManyCodes = "Too many wrong codes. Wait a while before you try the next one, or use a recovery code."
	setupExpired = "The page was open for too long. Scan the new code, and remove the one of before from your app."
)

// factorForm is what the page of the second factor is filled in with. The problem is that of the last try.
type factorForm struct {
	flow    *flow.Flow
	user    oidc.User
	problem string
	// wait is how long the user has to wait before the next try.
	wait time.Duration
}

func (h *Handler) showFactor(w http.ResponseWriter, r *http.Request, form factorForm) error {
	passkey, err := h.Passkeys.Registered(r.Context(), form.user.ID)
	if err != nil {
		return err
	}
	view := &pages.Factor{
		Flow: h.Flows.Seal(form.flow), Email: form.user.Email, Again: h.again(form.flow), Passkey: passkey,
	}
	view.Problem = form.problem
	status := formStatus(form.problem)
	if form.wait > 0 {
		setRetryAfter(w, form.wait)
		status = http.StatusTooManyRequests
	}
	return h.Pages.Render(w, r, status, view)
}

// Factor serves POST /sign-in/factor: the second factor of a user who has shown the first one.
func (h *Handler) Factor(w http.ResponseWriter, r *http.Request) error {
	f, user, err := h.provedFlow(r)
	if err != nil {
		return err
	}
	wait, err := h.useCode(r, user.ID, r.PostForm.Get("code"))
	if wait > 0 {
		return h.showFactor(w, r, factorForm{flow: f, user: user, problem: tooManyCodes, wait: wait})
	}
	if errors.Is(err, factor.ErrCode) {
		h.noteFailure(r, user)
		return h.showFactor(w, r, factorForm{flow: f, user: user, problem: wrongCode})
	}
	if err != nil {
		return err
	}
	return h.signIn(w, r, f, proof{
		passwordHash: user.PasswordHash, methods: f.Proved.Methods.WithCode(),
		commit: func(*db.Tx) (string, error) { return user.ID, nil },
	})
}

// recoveryLimit bounds the writes that guesses of recovery codes cause. Nobody can guess one.
func recoveryLimit(userID, network string) oauth.Limit {
	return oauth.Limit{Key: "recovery " + network + " " + userID, Burst: 10, Every: 20 * time.Second}
}

// useCode uses up a code that a user has typed: one of the authenticator app, or a recovery code. It
// returns how long the user has to wait if there were too many wrong ones, and factor.ErrCode if this one is.
func (h *Handler) useCode(r *http.Request, userID, code string) (wait time.Duration, err error) {
	if factor.IsAppCode(code) {
		return h.Factors.UseCode(r.Context(), userID, code)
	}
	limit := recoveryLimit(userID, oauth.Network(web.Request(r.Context()).RemoteAddr))
	if wait := h.throttle.Take(h.Now(), limit); wait > 0 {
		return wait, nil
	}
	if err := h.Factors.UseRecoveryCode(r.Context(), userID, code); err != nil {
		return 0, err
	}
	h.throttle.Refund(limit)
	return 0, nil
}

// showEnrol renders the page on which a user has to add an authenticator app to sign in.
func (h *Handler) showEnrol(w http.ResponseWriter, r *http.Request, f *flow.Flow, user oidc.User) error {
	setup, err := h.Factors.NewSetup(user.ID, user.Email)
	if err != nil {
		return err
	}
	return h.showNewApp(w, r, setup, h.enrolView(f, user, ""))
}

func (h *Handler) enrolView(f *flow.Flow, user oidc.User, problem string) *pages.Enrol {
	view := &pages.Enrol{
		Email: user.Email, Action: oauth.PathSignInEnrol, Flow: h.Flows.Seal(f), Again: h.again(f),
	}
	view.Problem = problem
	return view
}

// showNewApp renders the page of an authenticator app that is being added.
func (h *Handler) showNewApp(w http.ResponseWriter, r *http.Request, setup factor.Setup, view *pages.Enrol) (err error) {
	view.Setup = setup.Sealed
	view.Secret = setup.Secret
	if view.QR, err = pages.NewQR(setup.URI); err != nil {
		return err
	}
	return h.Pages.Render(w, r, formStatus(view.Problem), view)
}

// Enrol serves POST /sign-in/enrol: a user who has to have a second factor adds an authenticator app with its
// first code, and is signed in then.
func (h *Handler) Enrol(w http.ResponseWriter, r *http.Request) error {
	f, user, other, err := h.enrolling(r, stepEnrol)
	if err != nil {
		return err
	}
	if other != nil {
		return h.showStep(w, r, f, *other)
	}
	setup, problem, err := h.setupOf(r, user)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.showNewApp(w, r, setup, h.enrolView(f, user, problem))
	}
	var codes []string
	left, err := h.start(w, r, f, proof{
		passwordHash: user.PasswordHash, methods: f.Proved.Methods.WithCode(),
		commit: func(tx *db.Tx) (userID string, err error) {
			codes, err = h.addApp(tx, user.ID, setup, r.PostForm.Get("code"))
			return user.ID, err
		},
	})
	switch {
	case errors.Is(err, factor.ErrCode):
		return h.showNewApp(w, r, setup, h.enrolView(f, user, wrongCode))
	case errors.Is(err, factor.ErrExists): // added in another request: now it must be used
		return h.showFactor(w, r, factorForm{flow: f, user: user})
	case err != nil:
		return err
	case left.step != stepNone:
		return h.showStep(w, r, f, left)
	}
	return h.showRecovery(w, r, codes, &pages.Recovery{Next: h.Flows.Location(f), NextText: "Continue"})
}

// setupOf returns the setup of a form. If it has expired, it returns a new one and the problem.
func (h *Handler) setupOf(r *http.Request, user oidc.User) (setup factor.Setup, problem string, err error) {
	setup, err = h.Factors.OpenSetup(r.PostForm.Get("setup"), user.ID, user.Email)
	if !errors.Is(err, factor.ErrExpired) {
		return setup, "", err
	}
	setup, err = h.Factors.NewSetup(user.ID, user.Email)
	return setup, setupExpired, err
}

// addApp adds an authenticator app of a user. Errors are those of factor.Store.Add.
func (h *Handler) addApp(tx *db.Tx, userID string, setup factor.Setup, code string) ([]string, error) {
	codes, err := h.Factors.Add(tx, userID, setup, code)
	if err != nil {
		return nil, err
	}
	if err := h.notify(tx, userID, NoticeFactor); err != nil {
		return nil, err
	}
	return codes, h.Users.Audit(tx, actionFactorAdd, userID, userID)
}

// showRecovery renders the page that shows recovery codes.
func (h *Handler) showRecovery(w http.ResponseWriter, r *http.Request, codes []string, view *pages.Recovery) error {
	view.Codes = codes
	return h.Pages.Render(w, r, http.StatusOK, view)
}
