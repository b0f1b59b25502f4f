package signin

import (
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/stamp"
	"steward/internal/web"
)

// EmailChange is the change of an address that a mailed link stands for.
type EmailChange struct {
	UserID, Email string
}

// actionEmail is the change of an address in the audit log.
const actionEmail = "user.email"

// recentSignIn is how long a sign-in shows who sits at the browser, for users who have no password.
const recentSignIn = 10 * time.Minute

// ChangeEmail serves POST /account/email: it has a link mailed to the new address. The user shows the
// password, so that whoever finds a browser cannot take the account over.
func (h *Handler) ChangeEmail(w http.ResponseWriter, v visit) error {
	if h.Users.Mailed == nil {
		return errNoMail
	}
	email := strings.ToLower(strings.TrimSpace(v.PostForm.Get("new_email")))
	if problem := h.Users.Mailed.EmailProblem(email); problem != "" {
		return h.showProblem(w, v, http.StatusBadRequest, problem)
	}
	if email == v.user.Email {
		return h.showProblem(w, v, http.StatusBadRequest, "This is your email address already.")
	}
	network := oauth.Network(web.Request(v.Context()).RemoteAddr)
	limits := append(forgotLimits(email, network), deviceLimits(v.session.ID, network)...)
	if wait := h.throttle.Take(h.Now(), limits...); wait > 0 {
		setRetryAfter(w, wait)
		return h.showProblem(w, v, http.StatusTooManyRequests, tooManyAttempts)
	}
	problem, err := h.identityProblem(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error { return h.Users.Mailed.RequestEmail(tx, v.user.ID, email) })
	if err != nil {
		return err
	}
	return h.showAccount(w, v, http.StatusOK, pages.Account{
		Done: "A message with a link was sent to " + email + ". Your address changes when you open it.",
	})
}

// identityProblem returns why it is not certain that the user sits at the browser, as a sentence, or "". The
// user shows the password, or has signed in just now without one.
func (h *Handler) identityProblem(v visit) (string, error) {
	if v.user.PasswordHash == "" {
		if stamp.Of(h.Now()).Sub(v.session.AuthTime) > recentSignIn {
			return "Sign out and in again before you change your email address.", nil
		}
		return "", nil
	}
	correct, err := h.checkPassword(v.Context(), *v.user, v.PostForm.Get("password"))
	if err != nil || correct {
		return "", err
	}
	return "The current password is wrong.", nil
}

// errEmail is the same for links that were used or replaced, are void, have expired or never existed, and
// for those of other users.
var errEmail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this link was used, has expired, or is for another user: ask for a new one on your account page",
}

// Email serves GET /account/email/{token}. The user of the change must be signed in: whoever gets the mail
// by mistake cannot take the account over. The page asks, since mail programs open links on their own.
func (h *Handler) Email(w http.ResponseWriter, r *http.Request) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	path := oauth.PathAccountEmail + "/" + r.PathValue("token")
	if s == nil {
		return h.ShowSignIn(w, r, h.Flows.ToPath(path), "")
	}
	change, err := h.emailChange(w, visit{r, s, user})
	if err != nil {
		return err
	}
	return h.Pages.Render(w, r, http.StatusOK, &pages.Email{Old: user.Email, New: change.Email, Path: path})
}

// emailChange returns what the request's link stands for, or errEmail.
func (h *Handler) emailChange(w http.ResponseWriter, v visit) (EmailChange, error) {
	if h.Users.Mailed == nil {
		return EmailChange{}, errNoMail
	}
	limit := resetLimit(web.Request(v.Context()).RemoteAddr)
	if wait := h.throttle.Take(h.Now(), limit); wait > 0 {
		setRetryAfter(w, wait)
		return EmailChange{}, &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
			Description: "too many attempts: wait a minute, then try again",
		}
	}
	change, err := h.Users.Mailed.EmailChange(v.Context(), v.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound || err == nil && change.UserID != v.user.ID {
		return EmailChange{}, errEmail
	}
	if err != nil {
		return EmailChange{}, err
	}
	h.throttle.Refund(limit)
	return change, nil
}

// UseEmail serves POST /account/email/{token}. The notice goes to the address of before.
func (h *Handler) UseEmail(w http.ResponseWriter, v visit) error {
	change, err := h.emailChange(w, v)
	if err != nil {
		return err
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := h.notify(tx, v.user.ID, NoticeEmail); err != nil {
			return err
		}
		if err := h.Users.Mailed.UseEmailChange(tx, v.PathValue("token"), v.user.ID); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionEmail, v.user.ID, v.user.ID)
	})
	if errs.KindOf(err) == errs.NotFound {
		return errEmail // it was used in another request
	}
	if err != nil {
		return err
	}
	v.user.Email = change.Email
	return h.showAccount(w, v, http.StatusOK, pages.Account{Done: "Your email address is " + change.Email + " now."})
}
