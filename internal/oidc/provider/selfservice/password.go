package selfservice

import (
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/signin"
)

// Confirmation lets users confirm a change with their password.
type Confirmation struct {
	Passwords *signin.Hasher
	Attempts  *signin.Limiter
}

// try reports whether a text is the user's password. After too many wrong ones it returns the time to
// wait.
func (c Confirmation) try(v visit, typed string) (correct bool, wait time.Duration, err error) {
	limits := signin.DeviceLimits(v.session.ID, signin.Network(v.Request)) // the session shows that the user has signed in with this browser
	if wait := c.Attempts.Take(limits...); wait > 0 {
		return false, wait, nil
	}
	correct, err = c.Passwords.Check(v.Context(), v.user.PasswordHash, typed)
	if correct {
		c.Attempts.Refund(limits...)
	}
	return correct, 0, err
}

// Password is the section in which users change and remove their password.
type Password struct {
	*Page
	Confirmation
	DB       *db.DB
	Accounts *account.Store
	Passkeys *passkey.Manager
	Browsers *signin.Recognizer
}

func (s *Password) fill(v visit, view *pages.Account) error {
	view.MinPassword = account.MinPassword
	view.HasPassword = v.user.PasswordHash != ""
	return nil
}

// Change serves POST /account/password. It ends everything but the current session: the user's other
// sessions, and the access of applications and devices without a session. A user who has only passkeys
// must have signed in recently instead of knowing the password.
func (s *Password) Change(w http.ResponseWriter, v visit) error {
	if v.user.PasswordHash == "" {
		if !s.isRecent(v) {
			return s.showSignInAgain(w, v)
		}
		return s.replace(w, v)
	}
	correct, wait, err := s.try(v, v.PostForm.Get("password"))
	if err != nil {
		return err
	}
	if wait > 0 {
		signin.SetRetryAfter(w, wait)
		return s.showProblem(w, v, http.StatusTooManyRequests, signin.TooMany)
	}
	if !correct {
		return s.showProblem(w, v, http.StatusBadRequest, "The current password is wrong.")
	}
	return s.replace(w, v)
}

func (s *Password) replace(w http.ResponseWriter, v visit) error {
	chosen := v.PostForm.Get("new_password")
	if problem := account.PasswordProblem(v.user.Email, chosen); problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	hash, err := s.Passwords.Hash(v.Context(), chosen)
	if err != nil {
		return err
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error {
		current, err := s.Accounts.PasswordHash(tx, v.user.ID)
		if err != nil {
			return err
		}
		if current != v.user.PasswordHash { // it was replaced while we checked the one in the form
			return flow.ErrExpired
		}
		if err := s.Accounts.SetPassword(tx, v.user.ID, hash); err != nil {
			return err
		}
		if err := signin.SignOut(tx, v.user.ID, v.session.ID, s.Now()); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, signin.ActionPassword, mail.PasswordChanged)
	})
	if err != nil {
		return err
	}
	v.user.PasswordHash = hash
	s.Browsers.Remember(w, signin.BrowserOwner{UserID: v.user.ID, PasswordHash: hash})
	return s.show(w, v, http.StatusOK, pages.Account{
		Done: "Your password was changed, and you were signed out everywhere else.",
	})
}

// Remove serves POST /account/password/remove. The user must have a passkey.
func (s *Password) Remove(w http.ResponseWriter, v visit) error {
	err := s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if _, err := s.Accounts.PasswordHash(tx, v.user.ID); err != nil {
			return err
		}
		count, err := s.Passkeys.Count(tx, v.user.ID)
		if err != nil {
			return err
		}
		if count == 0 {
			return errOnlyWay
		}
		if err := s.Accounts.SetPassword(tx, v.user.ID, ""); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, actionPasswordRemove, mail.PasswordChanged)
	})
	if err == nil {
		s.Browsers.Remember(w, signin.BrowserOwner{UserID: v.user.ID})
	}
	return s.showRemoved(w, v, err)
}
