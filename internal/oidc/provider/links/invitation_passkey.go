package links

import (
	"errors"
	"net/http"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/signin"
)

// PasskeyPage serves GET /invite/{token}/passkey: a new person creates a passkey instead of a password.
// People who have an account see the link's usual page.
func (h *Invitations) PasskeyPage(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(w, r)
	if err != nil {
		return err
	}
	return h.showPasskey(w, r, invitation, "")
}

func (h *Invitations) showPasskey(
	w http.ResponseWriter, r *http.Request, invitation account.Invitation, problem string,
) error {
	link := oauth.PathInvitation + r.PathValue("token")
	offered, err := h.offersPasskey(r, invitation)
	if err != nil {
		return err
	}
	if !offered {
		http.Redirect(w, r, link, http.StatusSeeOther)
		return nil
	}
	ceremony, err := h.Passkeys.Create(passkey.Owner{ID: link, Email: invitation.Email})
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: invitation.Email, Path: link + "/passkey", Ceremony: ceremony,
		Back: link + "?account=" + newAccount, BackText: "Choose a password instead",
	}
	return h.Pages.RenderForm(w, r, view, problem)
}

// offersPasskey reports whether a passkey can accept an invitation. The person must open an account,
// and the domain must not have a provider as its only way to sign in.
func (h *Invitations) offersPasskey(r *http.Request, invitation account.Invitation) (bool, error) {
	if invitation.UserID != "" && !invitation.Unproved || h.Passkeys.Unavailable() != "" {
		return false, nil
	}
	only, err := h.SignIn.OnlyUpstream(r.Context(), invitation)
	return !only, err
}

// RegisterPasskey serves POST /invite/{token}/passkey. It creates a new person's account, makes the
// person a member and signs them in.
func (h *Invitations) RegisterPasskey(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(w, r)
	if err != nil {
		return err
	}
	offered, err := h.offersPasskey(r, invitation)
	if err != nil {
		return err
	}
	if !offered {
		return h.Page(w, r)
	}
	err = h.registerPasskey(w, r)
	if problem, ok := errors.AsType[passkey.Problem](err); ok {
		return h.showPasskey(w, r, invitation, string(problem))
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return h.Page(w, r) // another request has answered it or created the account
	}
	return err
}

func (h *Invitations) registerPasskey(w http.ResponseWriter, r *http.Request) error {
	token := r.PathValue("token")
	created, err := h.Passkeys.Created(r, oauth.PathInvitation+token)
	if err != nil {
		return err
	}
	return h.SignIn.Complete(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), signin.Proof{
		Methods: passkey.Methods(),
	}, func(tx *db.Tx) (string, error) {
		userID, err := h.Accounts.Register(tx, token, "")
		if err != nil {
			return "", err
		}
		if err := h.Passkeys.Add(tx, userID, created); err != nil {
			return "", err
		}
		return userID, h.Accounts.Audit.RecordUser(tx, signin.ActionPasskey, userID, userID)
	})
}
