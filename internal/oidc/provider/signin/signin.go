// Package signin owns how users prove who they are: the sign-in page, their passwords, the invitation
// with which they set the first one, and the account page on which they change it.
//
// Other packages send a browser here with ShowSignIn and a flow, which says where it continues.
package signin

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/throttle"
	"steward/internal/oidc/provider/users"
	"steward/internal/web"
)

// Handler serves the pages of this package.
type Handler struct {
	DB       *db.DB
	Now      func() time.Time
	Users    users.Directory
	Clients  *oidc.Store
	Sessions *session.Manager
	Flows    *flow.Sealer
	Pages    *pages.Renderer
	Hashing  Slots

	limiter throttle.Limiter
}

const (
	// wrongPassword is the same for an unknown email address and for a wrong password.
	wrongPassword   = "The email address or the password is wrong."
	tooManyAttempts = "Too many attempts. Wait a minute, then try again."

	maxEmail = 254
)

// ShowSignIn renders the sign-in page. The flow says where the browser continues, and email fills in the
// form.
func (h *Handler) ShowSignIn(w http.ResponseWriter, r *http.Request, f *flow.Flow, email string) error {
	return h.showSignIn(w, r, http.StatusOK, f, email, "")
}

func (h *Handler) showSignIn(
	w http.ResponseWriter, r *http.Request, status int, f *flow.Flow, email, problem string,
) error {
	view := &pages.SignIn{Flow: h.Flows.Seal(f), Email: email}
	view.Problem = problem
	if f.Request != nil {
		c, err := clientauth.Find(r.Context(), h.Clients, f.Request.ClientID)
		if err != nil {
			return err
		}
		view.Client = c.Name
	}
	return h.Pages.Render(w, r, status, view)
}

// SignIn serves POST /sign-in. An unknown email address takes the same time and gets the same response as
// a wrong password.
func (h *Handler) SignIn(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	email := strings.ToLower(strings.TrimSpace(r.PostForm.Get("email")))
	email = email[:min(len(email), maxEmail)]
	limits := passwordLimits(email, web.Request(r.Context()).RemoteAddr)
	if wait := h.limiter.Take(h.Now(), limits...); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return h.showSignIn(w, r, http.StatusTooManyRequests, f, email, tooManyAttempts)
	}
	userID, err := h.authenticate(r.Context(), email, r.PostForm.Get("password"))
	if err != nil {
		return err
	}
	if userID == "" {
		return h.showSignIn(w, r, http.StatusBadRequest, f, email, wrongPassword)
	}
	h.limiter.Refund(limits...)
	s, err := h.Sessions.Start(w, r, userID)
	if err != nil {
		return err
	}
	f.SignedIn = s.ID
	http.Redirect(w, r, h.Flows.Location(f), http.StatusSeeOther)
	return nil
}

// authenticate returns the user with an email address and a password, or "".
func (h *Handler) authenticate(ctx context.Context, email, password string) (userID string, err error) {
	var user users.User
	if utf8.ValidString(email) && !strings.ContainsRune(email, 0) {
		user, err = h.Users.ByEmail(ctx, email)
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return "", err
		}
	}
	password = password[:min(len(password), maxPassword)]
	correct := false
	// The password is checked for an unknown user as well, to take the same time.
	err = h.Hashing.Do(ctx, func() { correct = h.Users.CheckPassword(user.PasswordHash, password) })
	if err != nil || !correct {
		return "", err
	}
	return user.ID, nil
}
