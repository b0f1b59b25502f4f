package links

import (
	"net/http"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

// Resets serves the links that let users who have lost their password set a new one, and has them
// mailed.
type Resets struct {
	DB        *db.DB
	Now       func() time.Time
	SignIn    *signin.Handler
	Accounts  *account.Store
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Passwords *signin.Hasher
	Attempts  *signin.Limiter
}

// errReset is the same for links that never existed, were used or replaced, or have expired.
var errReset = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this link was used or has expired: ask for a new one",
}

// Page serves GET /reset/{token}: a user who has lost the password sets a new one.
func (h *Resets) Page(w http.ResponseWriter, r *http.Request) error {
	user, err := h.user(w, r)
	if err != nil {
		return err
	}
	return h.show(w, r, user, "")
}

func (h *Resets) show(w http.ResponseWriter, r *http.Request, user account.User, problem string) error {
	view := &pages.Reset{Email: user.Email, Path: oauth.PathReset + r.PathValue("token"), MinPassword: account.MinPassword}
	return h.Pages.RenderForm(w, r, view, problem)
}

// user returns the user for the request's link, or errReset.
func (h *Resets) user(w http.ResponseWriter, r *http.Request) (account.User, error) {
	limit, err := h.Attempts.Link(w, r)
	if err != nil {
		return account.User{}, err
	}
	user, err := h.Accounts.ResetOf(r.Context(), r.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound {
		return account.User{}, errReset
	}
	if err != nil {
		return account.User{}, err
	}
	h.Attempts.Refund(limit)
	return user, nil
}

// Use serves POST /reset/{token}. It signs the user out everywhere else and in here.
func (h *Resets) Use(w http.ResponseWriter, r *http.Request) error {
	user, err := h.user(w, r)
	if err != nil {
		return err
	}
	refused, err := h.SignIn.RefusesPassword(r.Context(), user)
	if err != nil {
		return err
	}
	if refused {
		return h.show(w, r, user, signin.NoPassword)
	}
	password := r.PostForm.Get("password")
	if problem := account.PasswordProblem(user.Email, password); problem != "" {
		return h.show(w, r, user, problem)
	}
	hash, err := h.Passwords.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	f := h.Flows.ToPath(oauth.PathConsoleSignIn)
	err = h.SignIn.Complete(w, r, f, signin.Proof{
		Methods: oauth.Methods{oauth.MethodPassword}, PasswordHash: hash,
	}, func(tx *db.Tx) (string, error) {
		userID, mailed, err := h.Accounts.UseReset(tx, r.PathValue("token"), hash)
		if err != nil {
			return "", err
		}
		if mailed {
			f.Mailed = userID
		}
		if err := signin.SignOut(tx, userID, "", h.Now()); err != nil {
			return "", err
		}
		return userID, h.Accounts.Changed(tx, userID, signin.ActionPassword, mail.PasswordChanged)
	})
	if errs.KindOf(err) == errs.NotFound {
		return errReset // another request has used it
	}
	return err
}

// Forgot serves GET /forgot-password.
func (h *Resets) Forgot(w http.ResponseWriter, r *http.Request) error {
	if h.Accounts.Mail == nil {
		return signin.ErrNoMail
	}
	return h.showForgot(w, r, http.StatusOK, "")
}

func (h *Resets) showForgot(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	view := &pages.Forgot{Email: r.PostForm.Get("email")}
	view.Problem = problem
	return h.Pages.Render(w, r, status, view)
}

// Request serves POST /forgot-password. It does the same for all addresses; we only look the account up
// when we send the mail.
func (h *Resets) Request(w http.ResponseWriter, r *http.Request) error {
	if h.Accounts.Mail == nil {
		return signin.ErrNoMail
	}
	email := strings.ToLower(strings.TrimSpace(r.PostForm.Get("email")))
	if problem := account.EmailProblem(email); problem != "" {
		return h.showForgot(w, r, http.StatusBadRequest, problem)
	}
	limits := signin.MailLimits(email, signin.Network(r))
	if wait := h.Attempts.Take(limits...); wait > 0 {
		signin.SetRetryAfter(w, wait)
		return h.showForgot(w, r, http.StatusTooManyRequests,
			"Too many links were asked for. Look into your mailbox, or try again later.")
	}
	err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Accounts.RequestReset(tx, email) })
	if err != nil {
		return err
	}
	return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
		Title: "Look into your mailbox",
		Text: "If " + email + " has an account here, you get a message with a link to choose a new password. " +
			"It can take a minute, and it may be in the folder for spam.",
		Next: oauth.PathAccount, NextText: "Back to sign-in",
	})
}
