package selfservice

import (
	"net/http"
	"strings"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

// actionEmail records a new address in the audit log.
const actionEmail = "user.email"

// Email is the section with a user's address.
type Email struct {
	*Page
	Confirmation
	DB       *db.DB
	Accounts *account.Store
}

func (s *Email) fill(_ visit, view *pages.Account) error {
	view.CanChangeEmail = s.Accounts.Mail != nil
	return nil
}

// Change serves POST /account/email: it mails a link to the new address. The user must show the
// password, so that a stranger at an open browser cannot take the account over.
func (s *Email) Change(w http.ResponseWriter, v visit) error {
	if s.Accounts.Mail == nil {
		return signin.ErrNoMail
	}
	email := strings.ToLower(strings.TrimSpace(v.PostForm.Get("new_email")))
	if problem := account.EmailProblem(email); problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	if email == v.user.Email {
		return s.showProblem(w, v, http.StatusBadRequest, "This is your email address already.")
	}
	network := signin.Network(v.Request)
	limits := append(signin.MailLimits(email, network), signin.DeviceLimits(v.session.ID, network)...)
	if wait := s.Attempts.Take(limits...); wait > 0 {
		signin.SetRetryAfter(w, wait)
		return s.showProblem(w, v, http.StatusTooManyRequests, signin.TooMany)
	}
	problem, err := s.identityProblem(v)
	if err != nil {
		return err
	}
	if problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error { return s.Accounts.RequestEmail(tx, v.user.ID, email) })
	if err != nil {
		return err
	}
	return s.show(w, v, http.StatusOK, pages.Account{
		Done: "A message with a link was sent to " + email + ". Your address changes when you open it.",
	})
}

// identityProblem says, in a sentence, why we cannot be sure that the user sits at the browser, or
// returns "". The user must show the password, or have just signed in without one.
func (s *Email) identityProblem(v visit) (string, error) {
	if v.user.PasswordHash == "" {
		if !s.isRecent(v) {
			return "Sign out and in again before you change your email address.", nil
		}
		return "", nil
	}
	correct, err := s.Passwords.Check(v.Context(), v.user.PasswordHash, v.PostForm.Get("password"))
	if err != nil || correct {
		return "", err
	}
	return "The current password is wrong.", nil
}

// errEmail is the same for links that were used or replaced, are void, have expired or never existed,
// and for other users' links.
var errEmail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this link was used, has expired, or is for another user: ask for a new one on your account page",
}

// Link serves GET /account/email/{token}. The user who asked for the change must be signed in, so that
// a stranger who gets the mail by mistake cannot take the account over. The page asks first, since mail
// programs open links on their own.
func (s *Email) Link(w http.ResponseWriter, r *http.Request) error {
	current, user, err := s.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	path := oauth.PathAccountEmail + "/" + r.PathValue("token")
	if current == nil {
		return s.SignIn.ShowSignIn(w, r, s.Flows.ToPath(path), "")
	}
	if err := checkConfined(r, current); err != nil {
		return err
	}
	change, err := s.change(w, visit{r, current, user})
	if err != nil {
		return err
	}
	return s.Pages.Render(w, r, http.StatusOK, &pages.Email{Old: user.Email, New: change.Email, Path: path})
}

// change returns the change behind the request's link, or errEmail.
func (s *Email) change(w http.ResponseWriter, v visit) (account.EmailChange, error) {
	if s.Accounts.Mail == nil {
		return account.EmailChange{}, signin.ErrNoMail
	}
	limit, err := s.Attempts.Link(w, v.Request)
	if err != nil {
		return account.EmailChange{}, err
	}
	change, err := s.Accounts.EmailChangeOf(v.Context(), v.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound || err == nil && change.UserID != v.user.ID {
		return account.EmailChange{}, errEmail
	}
	if err != nil {
		return account.EmailChange{}, err
	}
	s.Attempts.Refund(limit)
	return change, nil
}

// Use serves POST /account/email/{token}. The notice goes to the old address.
func (s *Email) Use(w http.ResponseWriter, v visit) error {
	change, err := s.change(w, v)
	if err != nil {
		return err
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := s.Accounts.Tell(tx, v.user.ID, mail.EmailChanging); err != nil {
			return err
		}
		if err := s.Accounts.UseEmailChange(tx, v.PathValue("token"), v.user.ID); err != nil {
			return err
		}
		return s.Accounts.Audit.RecordUser(tx, actionEmail, v.user.ID, v.user.ID)
	})
	if errs.KindOf(err) == errs.NotFound {
		return errEmail // another request has used it
	}
	if err != nil {
		return err
	}
	v.user.Email = change.Email
	return s.show(w, v, http.StatusOK, pages.Account{Done: "Your email address is " + change.Email + " now."})
}
