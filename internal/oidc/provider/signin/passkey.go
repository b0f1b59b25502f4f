package signin

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/web"
)

// The actions with passkeys in the audit log.
const (
	actionPasskey        = "user.passkey"
	actionPasskeyName    = "user.passkey_rename"
	actionPasskeyRemove  = "user.passkey_remove"
	actionPasskeyCopy    = "user.passkey_copy"
	actionPasswordRemove = "user.password_remove"
)

// maxPasskeyName is the length of a passkey's name in characters.
const maxPasskeyName = 64

// passkeyMethods are those of a sign-in with a passkey: a key that the user has, and that the
// authenticator lets only the user use.
func passkeyMethods() oauth.Methods {
	return oauth.Methods{oauth.MethodPossession, oauth.MethodUserVerified, oauth.MethodSeveral}
}

// SignInPasskey serves POST /sign-in/passkey: a user signs in with a passkey, which says who that is.
func (h *Handler) SignInPasskey(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	limit := addressLimit(oauth.Network(web.Request(r.Context()).RemoteAddr))
	if wait := h.throttle.Take(h.Now(), limit); wait > 0 {
		setRetryAfter(w, wait)
		return h.showSignIn(w, r, http.StatusTooManyRequests, signInForm{flow: f, problem: tooManyAttempts})
	}
	err = h.usePasskey(w, r, f)
	var problem passkey.Problem
	if errors.As(err, &problem) {
		return h.showSignIn(w, r, http.StatusBadRequest, signInForm{flow: f, problem: string(problem)})
	}
	if err == nil {
		h.throttle.Refund(limit)
	}
	return err
}

// usePasskey signs in the user of the passkey that has answered. It returns a passkey.Problem if the
// answer is not accepted.
func (h *Handler) usePasskey(w http.ResponseWriter, r *http.Request, f *flow.Flow) error {
	assertion, err := h.Passkeys.Asserted(r.Context(), answer(r))
	if err != nil {
		return err
	}
	user, err := h.userOf(r.Context(), f, assertion.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return passkey.ErrRefused
	}
	if err != nil {
		return err
	}
	err = h.signIn(w, r, f, proof{
		passwordHash: user.PasswordHash, methods: passkeyMethods(),
		commit: func(tx *db.Tx) (string, error) { return user.ID, h.Passkeys.Use(tx, assertion) },
	})
	if !errors.Is(err, passkey.ErrCounter) {
		return err
	}
	if err := h.DB.Write(r.Context(), func(tx *db.Tx) error {
		return h.Users.Audit(tx, actionPasskeyCopy, user.ID, "")
	}); err != nil {
		return err
	}
	return passkey.ErrCounter
}

// answer returns what a form says of a passkey.
func answer(r *http.Request) passkey.Answer {
	return passkey.Answer{Challenge: r.PostForm.Get("challenge"), Credential: r.PostForm.Get("credential")}
}

// passkeyName returns the name that a form gives to a passkey, or one after the browser. It returns false
// if the name cannot be stored.
func passkeyName(r *http.Request) (string, bool) {
	chosen := strings.TrimSpace(r.PostForm.Get("name"))
	if chosen == "" {
		return defaultName(r.UserAgent()), true
	}
	return chosen, name.Valid(chosen) && utf8.RuneCountInString(chosen) <= maxPasskeyName
}

// defaultName returns the name of a passkey that was created in a browser.
func defaultName(userAgent string) string {
	for _, b := range browsers {
		if strings.Contains(userAgent, b.product) {
			return "Passkey of " + b.name
		}
	}
	return "Passkey"
}

// SignedInRecently is SignedIn for what changes how a user signs in, so that nobody can do it at a
// browser that was left open. A user who signed in longer ago signs in again.
func (h *Handler) SignedInRecently(next func(w http.ResponseWriter, v visit) error) pages.Handler {
	return h.SignedIn(func(w http.ResponseWriter, v visit) error {
		if h.isRecent(v) {
			return next(w, v)
		}
		return h.showSignInAgain(w, v)
	})
}

func (h *Handler) isRecent(v visit) bool { return v.session.Recent(h.Now()) }

// showSignInAgain renders the sign-in page, after which the user sees the page of the request, or the
// account page if it was a form.
func (h *Handler) showSignInAgain(w http.ResponseWriter, v visit) error {
	next := oauth.PathAccount
	if v.Method == http.MethodGet {
		next = v.URL.Path
	}
	return h.showSignIn(w, v.Request, http.StatusForbidden, signInForm{
		flow: h.Flows.ToPath(next), email: v.user.Email,
		problem: "Sign in again before you change how you sign in.",
	})
}
