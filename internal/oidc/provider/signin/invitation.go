package signin

import (
	"net/http"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/endpoint"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/users"
)

// Invitation serves GET /invite/{token}: a new member sets a first password.
func (h *Handler) Invitation(w http.ResponseWriter, r *http.Request) error {
	return h.showInvitation(w, r, "")
}

func (h *Handler) showInvitation(w http.ResponseWriter, r *http.Request, problem string) error {
	token := r.PathValue("token")
	invitation, err := h.invitation(r, token)
	if err != nil {
		return err
	}
	if invitation.HasPassword {
		return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
			Title: "You are a member of " + invitation.OrgName, Text: "Sign in with your existing password.",
			Next: endpoint.Account, NextText: "Continue to your account",
		})
	}
	view := &pages.Invitation{
		Email: invitation.Email, Org: invitation.OrgName, Path: endpoint.Invitation + token,
	}
	view.Problem = problem
	return h.Pages.Render(w, r, formStatus(problem), view)
}

// formStatus returns the status of a page that shows a problem with its form, if there is one.
func formStatus(problem string) int {
	if problem != "" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (h *Handler) invitation(r *http.Request, token string) (users.Invitation, error) {
	invitation, err := h.Users.Invitation(r.Context(), token)
	if errs.KindOf(err) == errs.NotFound {
		return users.Invitation{}, &oauth.Error{
			Status: http.StatusNotFound, Code: oauth.InvalidRequest,
			Description: "this invitation was used or has expired: ask for a new one",
		}
	}
	return invitation, err
}

// AcceptInvitation serves POST /invite/{token}. Whoever sets the password is signed in.
func (h *Handler) AcceptInvitation(w http.ResponseWriter, r *http.Request) error {
	token := r.PathValue("token")
	password := r.PostForm.Get("password")
	invitation, err := h.invitation(r, token)
	if err != nil {
		return err
	}
	if problem := h.Users.PasswordProblem(invitation.Email, password); problem != "" {
		return h.showInvitation(w, r, problem)
	}
	hash, err := h.hashPassword(r.Context(), password)
	if err != nil {
		return err
	}
	_, err = h.startSession(w, r, invitation.UserID, hash, func(tx *db.Tx) error {
		if _, err := h.Users.Accept(tx, token, hash); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionPassword, invitation.UserID, invitation.UserID)
	})
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return h.showInvitation(w, r, "") // it was accepted in another request
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, endpoint.Account, http.StatusSeeOther)
	return nil
}
