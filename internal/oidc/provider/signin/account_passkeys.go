package signin

import (
	"errors"
	"net/http"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
)

const (
	badPasskeyName = "Give the passkey a name of at most 64 characters."
	onlyWay        = passkey.Problem("This is your only way to sign in. Add another first.")
)

// passkeys returns the passkeys of the user as the account page shows them.
func (h *Handler) passkeys(v visit) (list []pages.Passkey, err error) {
	found, err := h.Passkeys.List(v.Context(), v.user.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		row := pages.Passkey{ID: p.ID, Name: p.Name, Created: date(p.CreatedAt)}
		if p.LastUsedAt != nil {
			row.Used = date(*p.LastUsedAt)
		}
		list = append(list, row)
	}
	return list, nil
}

// NewPasskey serves GET /account/passkeys: the page on which the user creates a passkey.
func (h *Handler) NewPasskey(w http.ResponseWriter, v visit) error {
	return h.showNewPasskey(w, v, "")
}

func (h *Handler) showNewPasskey(w http.ResponseWriter, v visit, problem string) error {
	if reason := h.Passkeys.Unavailable(); reason != "" {
		return h.showProblem(w, v, http.StatusNotFound, reason)
	}
	list, err := h.Passkeys.List(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	if len(list) >= passkey.Max {
		return h.showProblem(w, v, http.StatusConflict, string(passkey.ErrTooMany))
	}
	ceremony, err := h.Passkeys.Create(ownerOf(*v.user, list))
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: v.user.Email, Path: oauth.PathAccountPasskeys, Ceremony: ceremony,
		Back: oauth.PathAccount, BackText: "Back to your account",
	}
	view.Problem = problem
	return h.Pages.Render(w, v.Request, formStatus(problem), view)
}

// AddPasskey serves POST /account/passkeys.
func (h *Handler) AddPasskey(w http.ResponseWriter, v visit) error {
	keyName, ok := passkeyName(v.Request)
	if !ok {
		return h.showNewPasskey(w, v, badPasskeyName)
	}
	err := h.addPasskey(v, keyName)
	var problem passkey.Problem
	if errors.As(err, &problem) {
		return h.showNewPasskey(w, v, string(problem))
	}
	if err != nil {
		return err
	}
	return h.showAccount(w, v, http.StatusOK, pages.Account{Done: "You can sign in with your new passkey."})
}

func (h *Handler) addPasskey(v visit, keyName string) error {
	created, err := h.Passkeys.Created(v.user.ID, answer(v.Request))
	if err != nil {
		return err
	}
	return h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if _, err := h.Users.HasPassword(tx, v.user.ID); err != nil {
			return err
		}
		if err := h.Passkeys.Add(tx, v.user.ID, keyName, created); err != nil {
			return err
		}
		return h.changed(tx, v.user.ID, actionPasskey, NoticePasskey)
	})
}

// changed tells the user of a change and records it.
func (h *Handler) changed(tx *db.Tx, userID, action string, n Notice) error {
	if err := h.notify(tx, userID, n); err != nil {
		return err
	}
	return h.Users.Audit(tx, action, userID, userID)
}

// RenamePasskey serves POST /account/passkeys/rename.
func (h *Handler) RenamePasskey(w http.ResponseWriter, v visit) error {
	keyName, ok := passkeyName(v.Request)
	if !ok {
		return h.showProblem(w, v, http.StatusBadRequest, badPasskeyName)
	}
	err := h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := h.Passkeys.Rename(tx, v.user.ID, v.PostForm.Get("passkey"), keyName); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionPasskeyName, v.user.ID, v.user.ID)
	})
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}

// RemovePasskey serves POST /account/passkeys/remove. The last way to sign in stays.
func (h *Handler) RemovePasskey(w http.ResponseWriter, v visit) error {
	err := h.DB.Write(v.Context(), func(tx *db.Tx) error {
		hasPassword, err := h.Users.HasPassword(tx, v.user.ID)
		if err != nil {
			return err
		}
		count, err := h.Passkeys.Count(tx, v.user.ID)
		if err != nil {
			return err
		}
		if !hasPassword && count <= 1 {
			return onlyWay
		}
		if err := h.Passkeys.Remove(tx, v.user.ID, v.PostForm.Get("passkey")); err != nil {
			return err
		}
		return h.changed(tx, v.user.ID, actionPasskeyRemove, NoticePasskeyRemoved)
	})
	return h.showRemoved(w, v, err)
}

// RemovePassword serves POST /account/password/remove, for a user who has a passkey.
func (h *Handler) RemovePassword(w http.ResponseWriter, v visit) error {
	err := h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if _, err := h.Users.HasPassword(tx, v.user.ID); err != nil {
			return err
		}
		count, err := h.Passkeys.Count(tx, v.user.ID)
		if err != nil {
			return err
		}
		if count == 0 {
			return onlyWay
		}
		if err := h.Users.SetPassword(tx, v.user.ID, ""); err != nil {
			return err
		}
		return h.changed(tx, v.user.ID, actionPasswordRemove, NoticePassword)
	})
	return h.showRemoved(w, v, err)
}

// showRemoved shows the account page after a way to sign in was removed, or why it was not.
func (h *Handler) showRemoved(w http.ResponseWriter, v visit, err error) error {
	if errors.Is(err, onlyWay) {
		return h.showProblem(w, v, http.StatusConflict, string(onlyWay))
	}
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}
