package selfservice

import (
	"errors"
	"net/http"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/signin"
)

// The actions in the audit log.
const (
	actionPasskeyName    = "user.passkey_rename"
	actionPasskeyRemove  = "user.passkey_remove"
	actionPasswordRemove = "user.password_remove"
)

// errOnlyWay refuses a change that would leave the user without a way to sign in.
const errOnlyWay = passkey.Problem("This is your only way to sign in. Add another first.")

// Passkeys is the section with a user's passkeys.
type Passkeys struct {
	*Page
	DB       *db.DB
	Accounts *account.Store
	Passkeys *passkey.Manager
}

func (s *Passkeys) fill(v visit, view *pages.Account) error {
	view.NoPasskeys = s.Passkeys.Unavailable()
	list, err := s.Passkeys.List(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	for _, p := range list {
		row := pages.Passkey{ID: p.ID, Name: p.Name, Created: date(p.CreatedAt)}
		if p.LastUsedAt != nil {
			row.Used = date(*p.LastUsedAt)
		}
		view.Passkeys = append(view.Passkeys, row)
	}
	return nil
}

// New serves GET /account/passkeys, the page on which the user creates a passkey.
func (s *Passkeys) New(w http.ResponseWriter, v visit) error { return s.showNew(w, v, "") }

func (s *Passkeys) showNew(w http.ResponseWriter, v visit, problem string) error {
	if reason := s.Passkeys.Unavailable(); reason != "" {
		return s.showProblem(w, v, http.StatusNotFound, reason)
	}
	list, err := s.Passkeys.List(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	if len(list) >= passkey.Max {
		return s.showProblem(w, v, http.StatusConflict, string(passkey.ErrTooMany))
	}
	ceremony, err := s.Passkeys.Create(passkey.OwnerOf(*v.user, list))
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: v.user.Email, Path: oauth.PathAccountPasskeys, Ceremony: ceremony,
		Back: oauth.PathAccount, BackText: "Back to your account",
	}
	return s.Pages.RenderForm(w, v.Request, view, problem)
}

// Add serves POST /account/passkeys.
func (s *Passkeys) Add(w http.ResponseWriter, v visit) error {
	err := s.add(v)
	if problem, ok := errors.AsType[passkey.Problem](err); ok {
		return s.showNew(w, v, string(problem))
	}
	if err != nil {
		return err
	}
	return s.show(w, v, http.StatusOK, pages.Account{Done: "You can sign in with your new passkey."})
}

// add stores the passkey in a form. It returns a passkey.Problem if it does not accept the passkey.
func (s *Passkeys) add(v visit) error {
	created, err := s.Passkeys.Created(v.Request, v.user.ID)
	if err != nil {
		return err
	}
	return s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if _, err := s.Accounts.PasswordHash(tx, v.user.ID); err != nil {
			return err
		}
		if err := s.Passkeys.Add(tx, v.user.ID, created); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, signin.ActionPasskey, mail.PasskeyAdded)
	})
}

// Rename serves POST /account/passkeys/rename.
func (s *Passkeys) Rename(w http.ResponseWriter, v visit) error {
	chosen, err := passkey.NameOf(v.Request)
	if err != nil {
		return s.showProblem(w, v, http.StatusBadRequest, err.Error())
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := s.Passkeys.Rename(tx, v.user.ID, v.PostForm.Get("passkey"), chosen); err != nil {
			return err
		}
		return s.Accounts.Audit.RecordUser(tx, actionPasskeyName, v.user.ID, v.user.ID)
	})
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}

// Remove serves POST /account/passkeys/remove. It keeps the last way to sign in.
func (s *Passkeys) Remove(w http.ResponseWriter, v visit) error {
	err := s.DB.Write(v.Context(), func(tx *db.Tx) error {
		hash, err := s.Accounts.PasswordHash(tx, v.user.ID)
		if err != nil {
			return err
		}
		count, err := s.Passkeys.Count(tx, v.user.ID)
		if err != nil {
			return err
		}
		if hash == "" && count <= 1 {
			return errOnlyWay
		}
		if err := s.Passkeys.Remove(tx, v.user.ID, v.PostForm.Get("passkey")); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, actionPasskeyRemove, mail.PasskeyRemoved)
	})
	return s.showRemoved(w, v, err)
}

// showRemoved shows the account page after a way to sign in was removed, or says why it was not.
func (p *Page) showRemoved(w http.ResponseWriter, v visit, err error) error {
	if errors.Is(err, errOnlyWay) {
		return p.showProblem(w, v, http.StatusConflict, string(errOnlyWay))
	}
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}
