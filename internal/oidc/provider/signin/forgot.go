package signin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

// MailedLinks gives access to what needs mail: links that only the owner of an address gets.
type MailedLinks struct {
	// EmailProblem returns what is wrong with an email address, as a sentence, or "".
	EmailProblem func(email string) string
	// RequestReset asks for a mail with a link to set a new password, to the user with an address. It does the
	// same whether or not there is one.
	RequestReset func(tx *db.Tx, email string) error
	// RequestEmail asks for a mail with a link to a new address of a user. It does the same whether or not the
	// address belongs to another user.
	RequestEmail func(tx *db.Tx, userID, email string) error
	// EmailChange returns what such a link stands for. It returns NotFound if the link was used or replaced,
	// is void, has expired or never existed, or if the address belongs to another user.
	EmailChange func(ctx context.Context, token string) (EmailChange, error)
	// UseEmailChange gives the user the new address. Errors are those of EmailChange, and NotFound if the link
	// is for another user.
	UseEmailChange func(tx *db.Tx, token, userID string) error
}

// errNoMail is returned for pages that need mail.
var errNoMail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this server sends no mail: ask an owner of your organization for a link",
}

// forgotLimits returns the limits for asking for links to an address, and from a network.
func forgotLimits(email, network string) []oauth.Limit {
	return []oauth.Limit{
		{Key: "forgot " + email, Burst: 3, Every: 20 * time.Minute},
		{Key: "forgot from " + network, Burst: 20, Every: time.Minute},
	}
}

// Forgot serves GET /forgot-password.
func (h *Handler) Forgot(w http.ResponseWriter, r *http.Request) error {
	if h.Users.Mailed == nil {
		return errNoMail
	}
	return h.showForgot(w, r, http.StatusOK, "")
}

func (h *Handler) showForgot(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	view := &pages.Forgot{Email: r.PostForm.Get("email")}
	view.Problem = problem
	return h.Pages.Render(w, r, status, view)
}

// RequestReset serves POST /forgot-password. It does the same for all addresses: whether one has an account
// is looked up when the mail is sent.
func (h *Handler) RequestReset(w http.ResponseWriter, r *http.Request) error {
	if h.Users.Mailed == nil {
		return errNoMail
	}
	email := strings.ToLower(strings.TrimSpace(r.PostForm.Get("email")))
	if problem := h.Users.Mailed.EmailProblem(email); problem != "" {
		return h.showForgot(w, r, http.StatusBadRequest, problem)
	}
	limits := forgotLimits(email, oauth.Network(web.Request(r.Context()).RemoteAddr))
	if wait := h.throttle.Take(h.Now(), limits...); wait > 0 {
		setRetryAfter(w, wait)
		return h.showForgot(w, r, http.StatusTooManyRequests,
			"Too many links were asked for. Look into your mailbox, or try again later.")
	}
	err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return h.Users.Mailed.RequestReset(tx, email) })
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
