package links

import (
	"net/http"
	"strings"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

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
