package links

import (
	"errors"
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/signin"
)

// Passkey serves POST /console/setup/passkey: the first owner uses a passkey instead of a password. A
// form without a passkey leads to the page that creates it and sends the form again.
func (h *Setup) Passkey(w http.ResponseWriter, r *http.Request) error {
	choice, shown, err := h.checkSetup(w, r)
	if err != nil || shown {
		return err
	}
	if reason := h.Passkeys.Unavailable(); reason != "" {
		return h.showSetupProblem(w, r, choice, reason)
	}
	if !r.PostForm.Has("credential") {
		return h.showSetupPasskey(w, r, choice, "")
	}
	err = h.completePasskey(w, r, choice)
	if problem, ok := errors.AsType[passkey.Problem](err); ok {
		return h.showSetupPasskey(w, r, choice, string(problem))
	}
	return err
}

// setupOwner stands for the owner until the setup is complete. It ties the passkey to the link and to
// the address that the authenticator shows.
func setupOwner(c pages.SetupChoice) string { return oauth.PathSetup + " " + c.Token + " " + c.Email }

func (h *Setup) showSetupPasskey(w http.ResponseWriter, r *http.Request, c pages.SetupChoice, problem string) error {
	ceremony, err := h.Passkeys.Create(passkey.Owner{ID: setupOwner(c), Email: c.Email})
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: c.Email, Path: oauth.PathSetupPasskey, Setup: &c, Ceremony: ceremony,
		Back: oauth.PathSetup + "#" + c.Token, BackText: "Choose a password instead",
	}
	return h.Pages.RenderForm(w, r, view, problem)
}

// completePasskey completes the setup with the passkey in a request. It returns a passkey.Problem if it
// does not accept the passkey.
func (h *Setup) completePasskey(w http.ResponseWriter, r *http.Request, c pages.SetupChoice) error {
	created, err := h.Passkeys.Created(r, setupOwner(c))
	if err != nil {
		return err
	}
	return h.completeSetup(w, r, c, signin.Proof{
		Methods: passkey.Methods(),
	}, func(tx *db.Tx) (string, error) {
		userID, err := h.Installation.Complete(tx, c.Token, firstAccount(c), "")
		if err != nil {
			return "", err
		}
		if err := h.Passkeys.Add(tx, userID, created); err != nil {
			return "", err
		}
		return userID, h.Installation.Store.Audit.RecordUser(tx, signin.ActionPasskey, userID, userID)
	})
}
