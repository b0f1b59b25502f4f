// Package signin owns how users prove who they are and what they can see and end on their own: the
// sign-in page, passwords and passkeys, the links of invitations and resets with which they are set,
// what is required beside them, and the account page with connected applications, API keys and
// sessions. Besides base packages it imports clientauth, factor, flow, grant, oauth, oidc,
// oidc/upstream, pages, passkey, session and upstream.
//
// Other packages send a browser here with ShowSignIn and a flow, which says where it continues.
package signin

import (
	"context"
	"errors"
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
	"steward/internal/oidc/provider/factor"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
)

// Handler serves the pages of this package.
type Handler struct {
	DB       *db.DB
	Now      func() time.Time
	Key      oauth.Key
	Users    Directory
	APIKeys  APIKeys
	Setup    Setup
	Clients  *oidc.Store
	Sessions *session.Manager
	Flows    *flow.Sealer
	Pages    *pages.Renderer
	Hashing  *Slots
	// Frames returns what a browser loads when its session ends, to tell applications.
	Frames   func(ctx context.Context, s *session.Session) ([]string, error)
	Passkeys *passkey.Manager
	Factors  *factor.Store
	// Upstreams are the providers with which users can sign in. It is nil if there cannot be any.
	Upstreams *Upstreams

	throttle oauth.Throttle
	failures failures
}

const (
	// wrongPassword is the same for an unknown email address and for a wrong password.
	wrongPassword   = "The email address or the password is wrong."
	tooManyAttempts = "Too many attempts. Wait a minute, then try again."
	tooManySignIns  = "Many people are signing in right now. Wait a few seconds, then try again."

	maxEmail = 254
)

// The actions in the audit log.
const (
	actionSignIn       = "user.sign_in"
	actionSignInFailed = "user.sign_in_failed"
	actionPassword     = "user.password"
	actionProfile      = "user.update"

	actionFactorAdd     = "user.factor_add"
	actionFactorRemove  = "user.factor_remove"
	actionRecoveryCodes = "user.recovery_codes"
)

// ShowSignIn renders the sign-in page. The flow says where the browser continues, and email fills in the
// form.
func (h *Handler) ShowSignIn(w http.ResponseWriter, r *http.Request, f *flow.Flow, email string) error {
	return h.showSignIn(w, r, http.StatusOK, signInForm{flow: f, email: email})
}

// signInForm is what the form of the sign-in page is filled in with. The problem is that of the last try, or
// empty.
type signInForm struct {
	flow           *flow.Flow
	email, problem string
}

func (h *Handler) showSignIn(w http.ResponseWriter, r *http.Request, status int, form signInForm) error {
	form.flow.Upstream = "" // whoever signs in on this page does so here, from the beginning
	form.flow.Proved = nil
	view := &pages.SignIn{Flow: h.Flows.Seal(form.flow), Email: form.email}
	view.Problem = form.problem
	_, view.Invited = invitationToken(form.flow)
	var err error
	if view.Passkey, err = h.Passkeys.SignIn(); err != nil {
		return err
	}
	view.Forgot = h.Users.Mailed != nil
	if req := form.flow.Request; req != nil {
		c, err := clientauth.Find(r.Context(), h.Clients, req.ClientID)
		if err != nil {
			return err
		}
		view.Client = c.Name
	}
	if view.Upstreams, err = h.buttons(r.Context(), form.flow); err != nil {
		return err
	}
	view.SingleSignOn = h.Upstreams != nil && len(h.Upstreams.Store.Domains.Granted) > 0
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
	user, err := h.userByEmail(r.Context(), f, email)
	if err != nil {
		return err
	}
	taken, wait, err := h.takeTry(r, email, user)
	if err != nil {
		return err
	}
	if wait > 0 {
		setRetryAfter(w, wait)
		return h.showSignIn(w, r, http.StatusTooManyRequests, signInForm{flow: f, email: email, problem: tooManyAttempts})
	}
	correct, err := h.checkPassword(r.Context(), user, r.PostForm.Get("password"))
	if errors.Is(err, errBusy) {
		h.throttle.Refund(taken...)
		setRetryAfter(w, maxWait)
		return h.showSignIn(w, r, http.StatusTooManyRequests, signInForm{flow: f, email: email, problem: tooManySignIns})
	}
	if err != nil {
		return err
	}
	if !correct {
		h.noteFailure(r, user)
		return h.showSignIn(w, r, http.StatusBadRequest, signInForm{flow: f, email: email, problem: wrongPassword})
	}
	h.throttle.Refund(taken...)
	_, known := h.device(r, user)
	refused, err := h.refusesPassword(r.Context(), user)
	if err != nil {
		return err
	}
	if refused {
		return h.showSignIn(w, r, http.StatusForbidden, signInForm{flow: f, email: email, problem: noPassword})
	}
	return h.signIn(w, r, f, proof{
		passwordHash: user.PasswordHash, methods: oauth.Methods{oauth.MethodPassword},
		commit: func(tx *db.Tx) (string, error) {
			if known {
				return user.ID, nil
			}
			return user.ID, h.notify(tx, user.ID, NoticeDevice)
		},
	})
}

// setRetryAfter says when a request that was refused can be sent again.
func setRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// userByEmail returns the user with an email address, or the zero User. On the way to an invitation
// that is also its user, who may have left all organizations.
func (h *Handler) userByEmail(ctx context.Context, f *flow.Flow, email string) (oidc.User, error) {
	if !utf8.ValidString(email) || strings.ContainsRune(email, 0) {
		return oidc.User{}, nil
	}
	user, err := h.Users.ByEmail(ctx, email)
	if token, ok := invitationToken(f); ok && errs.KindOf(err) == errs.NotFound {
		user, err = h.Users.Invited(ctx, token, email)
	}
	if errs.KindOf(err) == errs.NotFound {
		return oidc.User{}, nil
	}
	return user, err
}

// proof is what a user has shown to be signed in.
type proof struct {
	methods oauth.Methods
	// passwordHash is that of the current password. It ties the browser to it.
	passwordHash string
	// commit returns the id of the user, and may create or change the user before. It is called in the
	// transaction of the session.
	commit func(tx *db.Tx) (userID string, err error)
}

// signIn starts a session of the user who has given a proof, remembers the browser, and continues the
// flow. If the proof is not enough, it shows the page on which the user gives the rest. Every way to sign in
// ends here.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request, f *flow.Flow, p proof) error {
	left, err := h.start(w, r, f, p)
	if err != nil {
		return err
	}
	if left.step != stepNone {
		return h.showStep(w, r, f, left)
	}
	http.Redirect(w, r, h.Flows.Location(f), http.StatusSeeOther)
	return nil
}

// start starts a session of the user who has given a proof, and remembers the browser. If the proof is not
// enough, what it changes is committed all the same, there is no session, and start returns what remains.
func (h *Handler) start(w http.ResponseWriter, r *http.Request, f *flow.Flow, p proof) (left remaining, err error) {
	started := session.WithOrigin(r, session.Origin{OrgID: f.Upstream, AuthTime: f.AuthTime})
	s, err := h.Sessions.Start(w, started, p.methods, func(tx *db.Tx) (string, error) {
		userID, err := p.commit(tx)
		if err != nil {
			return "", err
		}
		left, err = h.remaining(tx, userID, p.methods)
		if err != nil || left.step != stepNone {
			return "", err
		}
		return userID, h.Users.Audit(tx, actionSignIn, userID, userID)
	})
	if err != nil {
		return left, err
	}
	if s == nil {
		f.Proved = h.proved(r, left.userID, p)
		return left, nil
	}
	f.Proved = nil
	if p.passwordHash != "" {
		h.setDevice(w, s.UserID, p.passwordHash)
	}
	f.SignedIn = s.ID
	return left, nil
}
