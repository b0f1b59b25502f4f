package selfservice

import (
	"errors"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

// The actions in the audit log.
const (
	actionFactorRemove  = "user.factor_remove"
	actionRecoveryCodes = "user.recovery_codes"
)

// Authenticator is the section with a user's authenticator app.
type Authenticator struct {
	*Page
	Confirmation
	DB       *db.DB
	Accounts *account.Store
	Factors  *signin.Factors
}

func (s *Authenticator) fill(v visit, view *pages.Account) error {
	app, err := signin.AuthenticatorOf(s.DB.Read(v.Context()), v.user.ID)
	if err != nil || app == nil {
		return err
	}
	view.Authenticator = &pages.Authenticator{Since: date(app.Since), RecoveryCodes: app.RecoveryCodes}
	return nil
}

// New serves GET /account/authenticator: the user sets up an authenticator app.
func (s *Authenticator) New(w http.ResponseWriter, v visit) error {
	app, err := signin.AuthenticatorOf(s.DB.Read(v.Context()), v.user.ID)
	if err != nil {
		return err
	}
	if app != nil {
		return toAccount(w, v)
	}
	setup, err := s.Factors.NewSetup(v.user.ID, v.user.Email)
	if err != nil {
		return err
	}
	return s.showSetup(w, v, setup, "")
}

func (s *Authenticator) showSetup(w http.ResponseWriter, v visit, setup signin.AuthenticatorSetup, problem string) error {
	view := &pages.Enrol{Email: v.user.Email, Action: oauth.PathAccountFactor}
	if err := view.SetApp(setup.Sealed, setup.Secret, setup.URI); err != nil {
		return err
	}
	return s.Pages.RenderForm(w, v.Request, view, problem)
}

// Add serves POST /account/authenticator. Its response is the only one with the recovery codes.
func (s *Authenticator) Add(w http.ResponseWriter, v visit) error {
	setup, expired, err := s.Factors.ContinueSetup(v.PostForm.Get("setup"), v.user.ID, v.user.Email)
	if err != nil {
		return err
	}
	if expired {
		return s.showSetup(w, v, setup, signin.SetupExpired)
	}
	var codes []string
	err = s.DB.Write(v.Context(), func(tx *db.Tx) (err error) {
		if codes, err = s.Factors.Add(tx, v.user.ID, setup, v.PostForm.Get("code")); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, signin.ActionFactorAdd, mail.FactorChanged)
	})
	switch {
	case errors.Is(err, signin.ErrCode):
		return s.showSetup(w, v, setup, signin.WrongCode)
	case errors.Is(err, signin.ErrHasAuthenticator):
		return toAccount(w, v)
	case err != nil:
		return err
	}
	return s.showRecovery(w, v, codes)
}

func (s *Authenticator) showRecovery(w http.ResponseWriter, v visit, codes []string) error {
	return s.Pages.Render(w, v.Request, http.StatusOK, &pages.Recovery{
		Codes: codes, Next: oauth.PathAccount, NextText: "Back to your account",
	})
}

// Remove serves POST /account/authenticator/remove.
func (s *Authenticator) Remove(w http.ResponseWriter, v visit) error {
	problem, wait, err := s.confirm(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return s.refuse(w, v, problem, wait)
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := signin.RemoveAuthenticator(tx, v.user.ID); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, actionFactorRemove, mail.FactorChanged)
	})
	if err != nil {
		return err
	}
	return s.show(w, v, http.StatusOK, pages.Account{Done: "Your authenticator app was removed."})
}

// NewRecoveryCodes serves POST /account/recovery-codes. Its response is the only one with the codes.
func (s *Authenticator) NewRecoveryCodes(w http.ResponseWriter, v visit) error {
	problem, wait, err := s.confirm(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return s.refuse(w, v, problem, wait)
	}
	var codes []string
	err = s.DB.Write(v.Context(), func(tx *db.Tx) (err error) {
		app, err := signin.AuthenticatorOf(tx, v.user.ID)
		if err != nil || app == nil {
			return err
		}
		if codes, err = signin.ReplaceRecoveryCodes(tx, v.user.ID); err != nil {
			return err
		}
		return s.Accounts.Audit.RecordUser(tx, actionRecoveryCodes, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	if codes == nil {
		return toAccount(w, v)
	}
	return s.showRecovery(w, v, codes)
}

// confirm checks the password, or the code from the authenticator app, with which a signed-in user
// confirms a change to the second factor. If it is wrong, confirm returns a problem, and after too many
// tries the time to wait.
func (s *Authenticator) confirm(v visit) (problem string, wait time.Duration, err error) {
	typed := v.PostForm.Get("proof")
	if signin.IsAppCode(typed) {
		wait, err = s.Factors.UseCode(v.Context(), v.user.ID, typed)
		switch {
		case wait > 0:
			return signin.TooManyCodes, wait, nil
		case errors.Is(err, signin.ErrCode):
			return signin.WrongCode, 0, nil
		}
		return "", 0, err
	}
	correct, wait, err := s.try(v, typed)
	switch {
	case err != nil || correct:
		return "", 0, err
	case wait > 0:
		return signin.TooMany, wait, nil
	}
	return "The password is wrong.", 0, nil
}

func (s *Authenticator) refuse(w http.ResponseWriter, v visit, problem string, wait time.Duration) error {
	if wait > 0 {
		signin.SetRetryAfter(w, wait)
		return s.showProblem(w, v, http.StatusTooManyRequests, problem)
	}
	return s.showProblem(w, v, http.StatusBadRequest, problem)
}
