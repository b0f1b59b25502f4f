package signin

import (
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

// The link of an invitation lets one person answer it, and nothing else. A new person sets a password. A
// user who has an account signs in first, so that whoever made the invitation, and knows the link, can
// neither set a password of that account nor answer for its user.

// Invitation serves GET /invite/{token}.
func (h *Handler) Invitation(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(r)
	if err != nil {
		return err
	}
	return h.showInvitation(w, r, invitation, "")
}

// showInvitation renders the page that the user has to see next: to set a password, to sign in, or to
// accept or decline.
func (h *Handler) showInvitation(
	w http.ResponseWriter, r *http.Request, invitation Invitation, problem string,
) error {
	view := pages.Invitation{
		Email: invitation.Email, Org: invitation.OrgName, Role: string(invitation.Role), Inviter: invitation.Inviter,
		Path: oauth.PathInvitation + r.PathValue("token"), MinPassword: h.Users.MinPassword,
		Passkeys: h.Passkeys.Unavailable() == "",
	}
	view.Problem = problem
	if invitation.UserID == "" {
		if err := h.setProviders(r.Context(), &view, invitation); err != nil {
			return err
		}
		return h.Pages.Render(w, r, formStatus(problem), &view)
	}
	s, err := h.Sessions.Current(r)
	switch {
	case err != nil:
		return err
	case s != nil && s.UserID == invitation.UserID && !s.Opens(invitation.OrgID):
		problem = "Sign in with your password to accept: your session is for another organization."
	case s != nil && s.UserID == invitation.UserID:
		return h.Pages.Render(w, r, http.StatusOK, &pages.Join{Invitation: view})
	case s != nil:
		problem = "You are signed in with another email address. This invitation is for " + invitation.Email + "."
	}
	return h.showSignIn(w, r, http.StatusOK, signInForm{
		flow: h.Flows.ToPath(view.Path), email: invitation.Email, problem: problem,
	})
}

// invitationToken returns the token of the invitation that a flow leads to.
func invitationToken(f *flow.Flow) (token string, ok bool) {
	return strings.CutPrefix(f.Next, oauth.PathInvitation)
}

// formStatus returns the status of a page that shows a problem with its form, if there is one.
func formStatus(problem string) int {
	if problem != "" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// invitation returns the invitation of the request's link.
func (h *Handler) invitation(r *http.Request) (Invitation, error) {
	invitation, err := h.Users.Invitation(r.Context(), r.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound {
		return Invitation{}, &oauth.Error{
			Status: http.StatusNotFound, Code: oauth.InvalidRequest,
			Description: "this invitation was used, replaced or revoked, or has expired: ask for a new one",
		}
	}
	return invitation, err
}

// AnswerInvitation serves POST /invite/{token}.
func (h *Handler) AnswerInvitation(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(r)
	if err != nil {
		return err
	}
	if invitation.UserID == "" {
		err = h.register(w, r, invitation)
	} else {
		err = h.answer(w, r, invitation)
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return h.Invitation(w, r) // it was answered, or the account created, in another request
	}
	return err
}

// register creates the account of a new person, who is a member and signed in then.
func (h *Handler) register(w http.ResponseWriter, r *http.Request, invitation Invitation) error {
	only, err := h.onlyUpstream(r.Context(), invitation)
	if err != nil {
		return err
	}
	if only {
		return h.showInvitation(w, r, invitation, noPassword)
	}
	password := r.PostForm.Get("password")
	if problem := h.Users.PasswordProblem(invitation.Email, password); problem != "" {
		return h.showInvitation(w, r, invitation, problem)
	}
	hash, err := h.hashPassword(r.Context(), password)
	if err != nil {
		return err
	}
	return h.signIn(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), proof{
		methods: oauth.Methods{oauth.MethodPassword}, passwordHash: hash,
		commit: func(tx *db.Tx) (string, error) {
			userID, err := h.Users.Register(tx, r.PathValue("token"), hash)
			if err != nil {
				return "", err
			}
			return userID, h.Users.Audit(tx, actionPassword, userID, userID)
		},
	})
}

// answer accepts or declines an invitation for the user who is signed in, if it is for that user.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, invitation Invitation) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	if s == nil || s.UserID != invitation.UserID || !s.Opens(invitation.OrgID) {
		return h.showInvitation(w, r, invitation, "")
	}
	token := r.PathValue("token")
	switch r.PostForm.Get("action") {
	case "approve":
		err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Users.Join(tx, token, s.UserID) })
		if err != nil {
			return err
		}
		http.Redirect(w, r, oauth.PathConsoleSignIn, http.StatusSeeOther)
		return nil
	case "deny":
		err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Users.Decline(tx, token, s.UserID) })
		if err != nil {
			return err
		}
		return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
			Title: "You have declined", Text: "You are not a member of " + invitation.OrgName + ".",
		})
	}
	return h.showInvitation(w, r, invitation, "")
}
