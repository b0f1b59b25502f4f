package signin

import (
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc/provider/endpoint"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/users"
	"steward/internal/web"
)

// Account serves GET /account.
func (h *Handler) Account(w http.ResponseWriter, r *http.Request) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil {
		return h.ShowSignIn(w, r, h.Flows.ToPath(endpoint.Account), "")
	}
	return h.showAccount(w, r, s, user, "", "")
}

// showAccount renders the account page, with a problem of its form or a confirmation.
func (h *Handler) showAccount(
	w http.ResponseWriter, r *http.Request, current *session.Session, user *users.User, problem, done string,
) error {
	sessions, err := h.Sessions.List(r.Context(), user.ID)
	if err != nil {
		return err
	}
	const layout = "2 January 2006, 15:04"
	view := &pages.Account{Email: user.Email, Done: done}
	view.Problem = problem
	for _, s := range sessions {
		view.Sessions = append(view.Sessions, pages.Session{
			ID: s.ID, Agent: browserName(s.UserAgent), Address: s.RemoteAddr, Current: s.ID == current.ID,
			Since: s.CreatedAt.Std().Format(layout), Seen: s.LastSeenAt.Std().Format(layout),
		})
	}
	return h.Pages.Render(w, r, formStatus(problem), view)
}

// browsers are the product tokens of browsers. Most send those of others as well, so the order matters.
var browsers = []struct{ product, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

// browserName returns the name of the browser that sends a User-Agent header.
func browserName(userAgent string) string {
	for _, b := range browsers {
		if strings.Contains(userAgent, b.product) {
			return b.name
		}
	}
	if userAgent == "" {
		return "Unknown browser"
	}
	return userAgent
}

// ChangePassword serves POST /account/password. It ends all other sessions of the user.
func (h *Handler) ChangePassword(w http.ResponseWriter, r *http.Request) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil {
		return h.Account(w, r)
	}
	limits := passwordLimits(user.Email, web.Request(r.Context()).RemoteAddr)
	if h.limiter.Take(h.Now(), limits...) > 0 {
		return h.showAccount(w, r, s, user, tooManyAttempts, "")
	}
	correct := false
	err = h.Hashing.Do(r.Context(), func() {
		correct = h.Users.CheckPassword(user.PasswordHash, r.PostForm.Get("password"))
	})
	if err != nil {
		return err
	}
	if !correct {
		return h.showAccount(w, r, s, user, "The current password is wrong.", "")
	}
	h.limiter.Refund(limits...)
	password := r.PostForm.Get("new_password")
	if problem := h.Users.PasswordProblem(user.Email, password); problem != "" {
		return h.showAccount(w, r, s, user, problem, "")
	}
	if err := h.setPassword(r, s, password); err != nil {
		return err
	}
	return h.showAccount(w, r, s, user, "", "Your password was changed, and you were signed out everywhere else.")
}

func (h *Handler) setPassword(r *http.Request, s *session.Session, password string) error {
	var hash string
	if err := h.Hashing.Do(r.Context(), func() { hash = h.Users.HashPassword(password) }); err != nil {
		return err
	}
	return h.DB.Write(r.Context(), func(tx *db.Tx) error {
		if err := h.Users.SetPassword(tx, s.UserID, hash); err != nil {
			return err
		}
		return session.RemoveOthers(tx, s.UserID, s.ID)
	})
}

// RevokeSession serves POST /account/sessions: it ends a session of the user, or the current one.
func (h *Handler) RevokeSession(w http.ResponseWriter, r *http.Request) error {
	s, _, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil {
		return h.Account(w, r)
	}
	if sessionID := r.PostForm.Get("session"); sessionID != s.ID {
		if err := h.Sessions.Remove(r.Context(), s.UserID, sessionID); err != nil {
			return err
		}
		http.Redirect(w, r, endpoint.Account, http.StatusSeeOther)
		return nil
	}
	if err := h.Sessions.End(r.Context(), w, s); err != nil {
		return err
	}
	return h.Pages.Message(w, r, http.StatusOK, "You are signed out", "You can close this page.")
}
