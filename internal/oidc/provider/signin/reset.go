package signin

import (
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

// resetLimit is the limit for trying links that are not valid, from one address.
func resetLimit(address string) oauth.Limit {
	return oauth.Limit{Key: "reset " + oauth.Network(address), Burst: 30, Every: 10 * time.Second}
}

// errReset is the same for links that never existed, were used or replaced, or have expired.
var errReset = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this link was used or has expired: ask for a new one",
}

// Reset serves GET /reset/{token}: a user who has lost the password sets a new one.
func (h *Handler) Reset(w http.ResponseWriter, r *http.Request) error {
	user, err := h.resetUser(w, r)
	if err != nil {
		return err
	}
	return h.showReset(w, r, user, "")
}

func (h *Handler) showReset(w http.ResponseWriter, r *http.Request, user oidc.User, problem string) error {
	view := &pages.Reset{Email: user.Email, Path: oauth.PathReset + r.PathValue("token"), MinPassword: h.Users.MinPassword}
	view.Problem = problem
	return h.Pages.Render(w, r, formStatus(problem), view)
}

// resetUser returns the user of the request's link, or errReset.
func (h *Handler) resetUser(w http.ResponseWriter, r *http.Request) (oidc.User, error) {
	limit := resetLimit(web.Request(r.Context()).RemoteAddr)
	if wait := h.throttle.Take(h.Now(), limit); wait > 0 {
		setRetryAfter(w, wait)
		return oidc.User{}, &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
			Description: "too many attempts: wait a minute, then try again",
		}
	}
	user, err := h.Users.Reset(r.Context(), r.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound {
		return oidc.User{}, errReset
	}
	if err != nil {
		return oidc.User{}, err
	}
	h.throttle.Refund(limit)
	return user, nil
}

// UseReset serves POST /reset/{token}. It signs the user out everywhere, and in here.
func (h *Handler) UseReset(w http.ResponseWriter, r *http.Request) error {
	user, err := h.resetUser(w, r)
	if err != nil {
		return err
	}
	refused, err := h.refusesPassword(r.Context(), user)
	if err != nil {
		return err
	}
	if refused {
		return h.showReset(w, r, user, noPassword)
	}
	password := r.PostForm.Get("password")
	if problem := h.Users.PasswordProblem(user.Email, password); problem != "" {
		return h.showReset(w, r, user, problem)
	}
	hash, err := h.hashPassword(r.Context(), password)
	if err != nil {
		return err
	}
	err = h.signIn(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), proof{
		methods: oauth.Methods{oauth.MethodPassword}, passwordHash: hash,
		commit: func(tx *db.Tx) (string, error) {
			userID, err := h.Users.UseReset(tx, r.PathValue("token"), hash)
			if err != nil {
				return "", err
			}
			if err := h.signOut(tx, userID, ""); err != nil {
				return "", err
			}
			if err := h.notify(tx, userID, NoticePassword); err != nil {
				return "", err
			}
			return userID, h.Users.Audit(tx, actionPassword, userID, userID)
		},
	})
	if errs.KindOf(err) == errs.NotFound {
		return errReset // it was used in another request
	}
	return err
}
