// Package links owns the pages that links with a token open: to join an organization, reset a password,
// and set an installation up.
//
// People who open such a link may have no account yet, or cannot sign in. Each page ends with a
// sign-in.
package links

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
)

// Invitations serves the links in invitations. A link lets one person answer it, and nothing else. A
// new person sets a password. A user who has an account signs in first, so that the inviter, who knows
// the link, can neither set that account's password nor answer for its user.
//
// If we mailed the link but the account's user has not proved the address, somebody else may have
// opened the account, such as the owner of another organization who has seen an invitation's link. Then
// the person chooses: sign in and set a new password, which removes all other ways to sign in, or make
// a new account, which takes over the address.
type Invitations struct {
	DB        *db.DB
	SignIn    *signin.Handler
	Accounts  *account.Store
	Sessions  *session.Manager
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Passwords *signin.Hasher
	Passkeys  *passkey.Manager
	Attempts  *signin.Limiter
	Upstreams *signin.Upstreams
}

// Page serves GET /invite/{token}.
func (h *Invitations) Page(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(w, r)
	if err != nil {
		return err
	}
	return h.show(w, r, invitation, "")
}

// show renders the page that the user must see next: to set a password, choose an account, sign in, or
// accept or decline.
func (h *Invitations) show(w http.ResponseWriter, r *http.Request, invitation account.Invitation, problem string) error {
	view := pages.Invitation{
		Email: invitation.Email, Org: invitation.OrgName, Role: string(invitation.Role), Inviter: invitation.Inviter,
		Path: oauth.PathInvitation + r.PathValue("token"), MinPassword: account.MinPassword,
		Passkeys: h.Passkeys.Unavailable() == "", Unproved: invitation.Unproved,
	}
	if opensAccount(r, invitation) {
		if err := h.setProviders(r.Context(), &view, invitation); err != nil {
			return err
		}
		return h.Pages.RenderForm(w, r, &view, problem)
	}
	s, err := h.Sessions.Current(r)
	switch {
	case err != nil:
		return err
	case s != nil && s.UserID == invitation.UserID && !s.Opens(invitation.OrgID):
		problem = "Sign in with your password to accept: your session is for another organization."
	case s != nil && s.UserID == invitation.UserID:
		return h.Pages.RenderForm(w, r, &pages.Join{Invitation: view}, problem)
	case s != nil:
		problem = "You are signed in with another email address. This invitation is for " + invitation.Email + "."
	}
	if invitation.Unproved && r.FormValue("account") != ownAccount {
		return h.Pages.Render(w, r, http.StatusOK, &pages.ChooseAccount{Invitation: view})
	}
	return h.SignIn.Show(w, r, http.StatusOK, signin.Form{
		Flow: h.Flows.ToPath(view.Path), Email: invitation.Email, Problem: problem,
	})
}

// The values of the account parameter. It chooses the account if somebody else may have opened the one
// that has the address.
const (
	ownAccount = "own"
	newAccount = "new"
)

// opensAccount reports whether a request comes from a person who opens an account.
func opensAccount(r *http.Request, invitation account.Invitation) bool {
	return invitation.UserID == "" || invitation.Unproved && r.FormValue("account") == newAccount
}

// setProviders adds the providers that a new person can use to accept an invitation.
func (h *Invitations) setProviders(ctx context.Context, view *pages.Invitation, i account.Invitation) (err error) {
	if view.Upstreams, err = h.Upstreams.Buttons(ctx, i.OrgID); err != nil {
		return err
	}
	view.Flow = h.Flows.Seal(h.Flows.ToPath(oauth.PathConsoleSignIn))
	view.Only, err = h.SignIn.OnlyUpstream(ctx, i)
	return err
}

func (h *Invitations) invitation(w http.ResponseWriter, r *http.Request) (account.Invitation, error) {
	limit, err := h.Attempts.Link(w, r)
	if err != nil {
		return account.Invitation{}, err
	}
	invitation, err := h.Accounts.InvitationByToken(r.Context(), r.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound {
		return account.Invitation{}, &oauth.Error{
			Status: http.StatusNotFound, Code: oauth.InvalidRequest,
			Description: "this invitation was used, replaced or revoked, or has expired: ask for a new one",
		}
	}
	if err != nil {
		return account.Invitation{}, err
	}
	h.Attempts.Refund(limit)
	return invitation, nil
}

// Answer serves POST /invite/{token}.
func (h *Invitations) Answer(w http.ResponseWriter, r *http.Request) error {
	invitation, err := h.invitation(w, r)
	if err != nil {
		return err
	}
	if opensAccount(r, invitation) {
		err = h.register(w, r, invitation)
	} else {
		err = h.answer(w, r, invitation)
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return h.Page(w, r) // another request has answered it or created the account
	}
	return err
}

// register creates a new person's account, makes the person a member and signs them in.
func (h *Invitations) register(w http.ResponseWriter, r *http.Request, invitation account.Invitation) error {
	only, err := h.SignIn.OnlyUpstream(r.Context(), invitation)
	if err != nil {
		return err
	}
	if only {
		return h.show(w, r, invitation, signin.NoPassword)
	}
	password := r.PostForm.Get("password")
	if problem := account.PasswordProblem(invitation.Email, password); problem != "" {
		return h.show(w, r, invitation, problem)
	}
	hash, err := h.Passwords.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	return h.SignIn.Complete(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), signin.Proof{
		Methods: oauth.Methods{oauth.MethodPassword}, PasswordHash: hash,
	}, func(tx *db.Tx) (string, error) {
		userID, err := h.Accounts.Register(tx, r.PathValue("token"), hash)
		if err != nil {
			return "", err
		}
		return userID, h.Accounts.Audit.RecordUser(tx, signin.ActionPassword, userID, userID)
	})
}

// answer accepts or declines an invitation on behalf of the signed-in user, if it is for that user.
func (h *Invitations) answer(w http.ResponseWriter, r *http.Request, invitation account.Invitation) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	if s == nil || s.UserID != invitation.UserID || !s.Opens(invitation.OrgID) {
		return h.show(w, r, invitation, "")
	}
	token := r.PathValue("token")
	switch r.PostForm.Get("action") {
	case "approve":
		if invitation.Unproved {
			return h.claim(w, r, invitation, s)
		}
		err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Accounts.Join(tx, token, s.UserID) })
		if err != nil {
			return err
		}
		http.Redirect(w, r, oauth.PathConsoleSignIn, http.StatusSeeOther)
		return nil
	case "deny":
		err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Accounts.Decline(tx, token, s.UserID) })
		if err != nil {
			return err
		}
		return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
			Title: "You have declined", Text: "You are not a member of " + invitation.OrgName + ".",
		})
	}
	return h.show(w, r, invitation, "")
}

// claim accepts an invitation, with a new password, for a session's user who has not proved the
// address.
func (h *Invitations) claim(w http.ResponseWriter, r *http.Request, i account.Invitation, s *session.Session) error {
	password := r.PostForm.Get("password")
	if problem := account.PasswordProblem(i.Email, password); problem != "" {
		return h.show(w, r, i, problem)
	}
	hash, err := h.Passwords.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	return h.SignIn.Complete(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), signin.Proof{
		Methods: s.Methods, PasswordHash: hash,
	}, func(tx *db.Tx) (string, error) {
		if err := h.Accounts.Claim(tx, r.PathValue("token"), s.UserID, hash); err != nil {
			return "", err
		}
		return s.UserID, h.Accounts.Changed(tx, s.UserID, signin.ActionPassword, mail.PasswordChanged)
	})
}
