package signin

import (
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
	"steward/internal/web"
)

// visit is a request of a user who is signed in.
type visit struct {
	*http.Request
	session *session.Session
	user    *oidc.User
}

// SignedIn returns the handler of a page that requires a signed-in user. Others see the sign-in page,
// and continue to the account page.
func (h *Handler) SignedIn(next func(w http.ResponseWriter, v visit) error) pages.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, user, err := h.Sessions.SignedIn(r)
		if err != nil {
			return err
		}
		if s == nil {
			return h.ShowSignIn(w, r, h.Flows.ToPath(oauth.PathAccount), "")
		}
		if err := checkConfined(r, s); err != nil {
			return err
		}
		return next(w, visit{r, s, user})
	}
}

// Account serves GET /account.
func (h *Handler) Account(w http.ResponseWriter, v visit) error {
	return h.showAccount(w, v, http.StatusOK, pages.Account{})
}

// toAccount sends the browser to the account page after a change.
func toAccount(w http.ResponseWriter, v visit) error {
	http.Redirect(w, v.Request, oauth.PathAccount, http.StatusSeeOther)
	return nil
}

// showAccount renders the account page. The view has what the form says, if one was sent.
func (h *Handler) showAccount(w http.ResponseWriter, v visit, status int, view pages.Account) (err error) {
	view.Email = v.user.Email
	view.FirstName = v.user.FirstName
	view.LastName = v.user.LastName
	view.PhotoURL = v.user.PhotoURL
	view.MinPassword = h.Users.MinPassword
	view.HasPassword = v.user.PasswordHash != ""
	view.NoPasskeys = h.Passkeys.Unavailable()
	if view.Passkeys, err = h.passkeys(v); err != nil {
		return err
	}
	view.CanChangeEmail = h.Users.Mailed != nil
	if view.Apps, err = h.apps(v); err != nil {
		return err
	}
	if view.Orgs, view.Keys, err = h.keys(v); err != nil {
		return err
	}
	if view.Sessions, err = h.sessions(v); err != nil {
		return err
	}
	if view.Authenticator, err = h.authenticator(v); err != nil {
		return err
	}
	view.Upstream = v.session.OrgID != ""
	if view.Providers, err = h.providers(v); err != nil {
		return err
	}
	return h.Pages.Render(w, v.Request, status, &view)
}

// showProblem renders the account page with a problem of the form that was sent.
func (h *Handler) showProblem(w http.ResponseWriter, v visit, status int, problem string) error {
	var view pages.Account
	view.Problem = problem
	return h.showAccount(w, v, status, view)
}

// date returns the day of a time for people.
func date(t stamp.Time) string { return t.Std().Format("2 January 2006") }

func (h *Handler) sessions(v visit) (list []pages.Session, err error) {
	sessions, err := h.Sessions.List(v.Context(), v.user.ID)
	if err != nil {
		return nil, err
	}
	const layout = "2 January 2006, 15:04"
	for _, s := range sessions {
		list = append(list, pages.Session{
			ID: s.ID, Agent: browserName(s.UserAgent), Address: s.RemoteAddr, Current: s.ID == v.session.ID,
			Since: s.CreatedAt.Std().Format(layout), Seen: s.LastSeenAt.Std().Format(layout),
		})
	}
	return list, nil
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

// ChangePassword serves POST /account/password. It ends everything of the user but the current session:
// other sessions, and what applications and devices may do without one. A user who has passkeys only must
// have signed in recently instead of knowing the password.
func (h *Handler) ChangePassword(w http.ResponseWriter, v visit) error {
	if v.user.PasswordHash == "" {
		if !h.isRecent(v) {
			return h.showSignInAgain(w, v)
		}
		return h.replacePassword(w, v)
	}
	network := oauth.Network(web.Request(v.Context()).RemoteAddr)
	limits := deviceLimits(v.session.ID, network) // the session shows that this browser has signed in
	if wait := h.throttle.Take(h.Now(), limits...); wait > 0 {
		setRetryAfter(w, wait)
		return h.showProblem(w, v, http.StatusTooManyRequests, tooManyAttempts)
	}
	correct, err := h.checkPassword(v.Context(), *v.user, v.PostForm.Get("password"))
	if err != nil {
		return err
	}
	if !correct {
		return h.showProblem(w, v, http.StatusBadRequest, "The current password is wrong.")
	}
	h.throttle.Refund(limits...)
	return h.replacePassword(w, v)
}

// replacePassword sets the new password of a form.
func (h *Handler) replacePassword(w http.ResponseWriter, v visit) error {
	password := v.PostForm.Get("new_password")
	if problem := h.Users.PasswordProblem(v.user.Email, password); problem != "" {
		return h.showProblem(w, v, http.StatusBadRequest, problem)
	}
	hash, err := h.hashPassword(v.Context(), password)
	if err != nil {
		return err
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := h.Users.SetPassword(tx, v.user.ID, hash); err != nil {
			return err
		}
		if err := h.signOut(tx, v.user.ID, v.session.ID); err != nil {
			return err
		}
		if err := h.notify(tx, v.user.ID, NoticePassword); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionPassword, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	v.user.PasswordHash = hash
	h.setDevice(w, v.user.ID, hash)
	return h.showAccount(w, v, http.StatusOK, pages.Account{
		Done: "Your password was changed, and you were signed out everywhere else.",
	})
}

// ChangeProfile serves POST /account/profile.
func (h *Handler) ChangeProfile(w http.ResponseWriter, v visit) error {
	p := Profile{
		FirstName: strings.TrimSpace(v.PostForm.Get("first_name")),
		LastName:  strings.TrimSpace(v.PostForm.Get("last_name")),
		PhotoURL:  strings.TrimSpace(v.PostForm.Get("photo_url")),
	}
	if problem := h.Users.ProfileProblem(p); problem != "" {
		return h.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err := h.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := h.Users.SetProfile(tx, v.user.ID, p); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionProfile, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

// EndSession serves POST /account/sessions: it ends a session of the user, or the current one.
func (h *Handler) EndSession(w http.ResponseWriter, v visit) error {
	if sessionID := v.PostForm.Get("session"); sessionID != v.session.ID {
		if err := h.Sessions.Remove(v.Context(), v.user.ID, sessionID); err != nil {
			return err
		}
		return toAccount(w, v)
	}
	frames, err := h.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	if err := h.Sessions.End(v.Context(), w, v.session); err != nil {
		return err
	}
	return h.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title: "You are signed out", Text: "You can close this page.", Frames: frames,
	})
}

// SignOutEverywhere serves POST /account/sign-out: it ends all sessions of the user, and what
// applications and devices may do without one.
func (h *Handler) SignOutEverywhere(w http.ResponseWriter, v visit) error {
	frames, err := h.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error { return h.signOut(tx, v.user.ID, "") })
	if err != nil {
		return err
	}
	if err := h.Sessions.End(v.Context(), w, nil); err != nil {
		return err
	}
	return h.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title:  "You are signed out everywhere",
		Text:   "Applications and devices must ask you to sign in again. You can close this page.",
		Frames: frames,
	})
}
