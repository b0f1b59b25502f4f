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

// InvitationPasskey serves GET /invite/{token}/passkey: a new person creates a passkey instead of a
// password. Others, who have an account, see what they see at the link.
func (h *Handler) InvitationPasskey(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(r)
	if err != nil {
		return err
	}
	return h.showInvitationPasskey(w, r, invitation, "")
}

func (h *Handler) showInvitationPasskey(
	w http.ResponseWriter, r *http.Request, invitation Invitation, problem string,
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
		Back: link, BackText: "Choose a password instead",
	}
	view.Problem = problem
	return h.Pages.Render(w, r, formStatus(problem), view)
}

// offersPasskey reports whether an invitation can be accepted with a passkey: by a new person whose domain
// does not have a provider as its only way to sign in.
func (h *Handler) offersPasskey(r *http.Request, invitation Invitation) (bool, error) {
	if invitation.UserID != "" || h.Passkeys.Unavailable() != "" {
		return false, nil
	}
	only, err := h.onlyUpstream(r.Context(), invitation)
	return !only, err
}

// RegisterPasskey serves POST /invite/{token}/passkey. It creates the account of a new person, who is a
// member and signed in then.
func (h *Handler) RegisterPasskey(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(r)
	if err != nil {
		return err
	}
	offered, err := h.offersPasskey(r, invitation)
	if err != nil {
		return err
	}
	if !offered {
		return h.Invitation(w, r)
	}
	keyName, ok := passkeyName(r)
	if !ok {
		return h.showInvitationPasskey(w, r, invitation, badPasskeyName)
	}
	err = h.registerPasskey(w, r, keyName)
	var problem passkey.Problem
	if errors.As(err, &problem) {
		return h.showInvitationPasskey(w, r, invitation, string(problem))
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return h.Invitation(w, r) // it was answered, or the account created, in another request
	}
	return err
}

func (h *Handler) registerPasskey(w http.ResponseWriter, r *http.Request, keyName string) error {
	token := r.PathValue("token")
	created, err := h.Passkeys.Created(oauth.PathInvitation+token, answer(r))
	if err != nil {
		return err
	}
	return h.signIn(w, r, h.Flows.ToPath(oauth.PathAccount), proof{
		methods: passkeyMethods(),
		commit: func(tx *db.Tx) (string, error) {
			userID, err := h.Users.Register(tx, token, "")
			if err != nil {
				return "", err
			}
			if err := h.Passkeys.Add(tx, userID, keyName, created); err != nil {
				return "", err
			}
			return userID, h.Users.Audit(tx, actionPasskey, userID, userID)
		},
	})
}
