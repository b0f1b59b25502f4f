package signin

import (
	"errors"
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/factor"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

// authenticator returns the authenticator app of the user as the account page shows it, or nil.
func (h *Handler) authenticator(v visit) (*pages.Authenticator, error) {
	app, err := factor.Get(h.DB.Read(v.Context()), v.user.ID)
	if err != nil || app == nil {
		return nil, err
	}
	return &pages.Authenticator{Since: date(app.Since), RecoveryCodes: app.RecoveryCodes}, nil
}

// NewFactor serves GET /account/authenticator: the user sets up an authenticator app.
func (h *Handler) NewFactor(w http.ResponseWriter, v visit) error {
	app, err := factor.Get(h.DB.Read(v.Context()), v.user.ID)
	if err != nil {
		return err
	}
	if app != nil {
		return toAccount(w, v)
	}
	setup, err := h.Factors.NewSetup(v.user.ID, v.user.Email)
	if err != nil {
		return err
	}
	return h.showOwnSetup(w, v, setup, "")
}

func (h *Handler) showOwnSetup(w http.ResponseWriter, v visit, setup factor.Setup, problem string) error {
	view := &pages.Enrol{Email: v.user.Email, Action: oauth.PathAccountFactor}
	view.Problem = problem
	return h.showNewApp(w, v.Request, setup, view)
}

// AddFactor serves POST /account/authenticator. Its response is the only one with the recovery codes.
func (h *Handler) AddFactor(w http.ResponseWriter, v visit) error {
	setup, problem, err := h.setupOf(v.Request, *v.user)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.showOwnSetup(w, v, setup, problem)
	}
	var codes []string
	err = h.DB.Write(v.Context(), func(tx *db.Tx) (err error) {
		codes, err = h.addApp(tx, v.user.ID, setup, v.PostForm.Get("code"))
		return err
	})
	switch {
	case errors.Is(err, factor.ErrCode):
		return h.showOwnSetup(w, v, setup, wrongCode)
	case errors.Is(err, factor.ErrExists):
		return toAccount(w, v)
	case err != nil:
		return err
	}
	return h.showOwnRecovery(w, v, codes)
}

func (h *Handler) showOwnRecovery(w http.ResponseWriter, v visit, codes []string) error {
	return h.showRecovery(w, v.Request, codes, &pages.Recovery{Next: oauth.PathAccount, NextText: "Back to your account"})
}

// RemoveFactor serves POST /account/authenticator/remove.
func (h *Handler) RemoveFactor(w http.ResponseWriter, v visit) error {
	problem, wait, err := h.checkOwner(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.refuseOwner(w, v, problem, wait)
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := factor.Remove(tx, v.user.ID); err != nil {
			return err
		}
		if err := h.notify(tx, v.user.ID, NoticeFactor); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionFactorRemove, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return h.showAccount(w, v, http.StatusOK, pages.Account{Done: "Your authenticator app was removed."})
}

// NewRecoveryCodes serves POST /account/recovery-codes. Its response is the only one with the codes.
func (h *Handler) NewRecoveryCodes(w http.ResponseWriter, v visit) error {
	problem, wait, err := h.checkOwner(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.refuseOwner(w, v, problem, wait)
	}
	var codes []string
	err = h.DB.Write(v.Context(), func(tx *db.Tx) (err error) {
		app, err := factor.Get(tx, v.user.ID)
		if err != nil || app == nil {
			return err
		}
		if codes, err = factor.ReplaceRecoveryCodes(tx, v.user.ID); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionRecoveryCodes, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	if codes == nil {
		return toAccount(w, v)
	}
	return h.showOwnRecovery(w, v, codes)
}

// checkOwner checks the password, or the code of the authenticator app, with which a user who is signed in
// confirms a change of the second factor. It returns the problem of a wrong one, and how long the user has to
// wait after too many.
func (h *Handler) checkOwner(v visit) (problem string, wait time.Duration, err error) {
	typed := v.PostForm.Get("proof")
	if factor.IsAppCode(typed) {
		wait, err = h.Factors.UseCode(v.Context(), v.user.ID, typed)
		switch {
		case wait > 0:
			return tooManyCodes, wait, nil
		case errors.Is(err, factor.ErrCode):
			return wrongCode, 0, nil
		}
		return "", 0, err
	}
	limits := deviceLimits(v.session.ID, oauth.Network(web.Request(v.Context()).RemoteAddr))
	if wait := h.throttle.Take(h.Now(), limits...); wait > 0 {
		return tooManyAttempts, wait, nil
	}
	correct, err := h.checkPassword(v.Context(), *v.user, typed)
	if err != nil {
		return "", 0, err
	}
	if !correct {
		return "The password is wrong.", 0, nil
	}
	h.throttle.Refund(limits...)
	return "", 0, nil
}

func (h *Handler) refuseOwner(w http.ResponseWriter, v visit, problem string, wait time.Duration) error {
	if wait > 0 {
		setRetryAfter(w, wait)
		return h.showProblem(w, v, http.StatusTooManyRequests, problem)
	}
	return h.showProblem(w, v, http.StatusBadRequest, problem)
}
