// Package signin lets users prove who they are: the sign-in page, passwords and passkeys, and the
// factors required in addition.
//
// Other packages send a browser here with ShowSignIn and a flow that says where it continues. Code that
// has a user's Proof ends with Complete, which starts the session or shows the page for a missing step.
// Until then the proof so far travels in the flow.
//
// The second factors are authenticator apps (RFC 6238) and recovery codes. Setting an app up takes two
// steps: Factors.NewSetup makes a secret, which travels sealed in the form of the page that shows it, and
// we store nothing until the user has entered a code from the app (Add). We make recovery codes together
// with the app and show them once. We accept a code from the app once, and wrong ones delay the next one,
// for all replicas together. Recovery codes are too long to guess, so that guesses at the app's codes do
// not lock the user out.
package signin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
)

// Handler serves the sign-in.
type Handler struct {
	DB        *db.DB
	Now       func() time.Time
	Key       oauth.Key
	Accounts  *account.Store
	Clients   *oidc.Store
	Sessions  *session.Manager
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Passwords *Hasher
	Browsers  *Recognizer
	Attempts  *Limiter
	Passkeys  *passkey.Manager
	Factors   *Factors
	Upstreams *Upstreams

	failures failures
}

const (
	// wrongPassword is the same for an unknown email address and for a wrong password.
	wrongPassword  = "The email address or the password is wrong."
	tooManySignIns = "Many people are signing in right now. Wait a few seconds, then try again."

	maxEmail = 254
)

// The actions in the audit log.
const (
	actionSignIn       = "user.sign_in"
	actionSignInFailed = "user.sign_in_failed"
	actionPasskeyCopy  = "user.passkey_copy"

	ActionPassword  = "user.password"
	ActionPasskey   = "user.passkey"
	ActionFactorAdd = "user.factor_add"
)

// ShowSignIn renders the sign-in page. The flow says where the browser continues, and email fills in
// the form.
func (h *Handler) ShowSignIn(w http.ResponseWriter, r *http.Request, f *flow.Flow, email string) error {
	return h.Show(w, r, http.StatusOK, Form{Flow: f, Email: email})
}

// Form fills in the sign-in page's form. Problem says why the last try failed, or is empty.
type Form struct {
	Flow           *flow.Flow
	Email, Problem string
}

// Show renders the sign-in page.
func (h *Handler) Show(w http.ResponseWriter, r *http.Request, status int, form Form) error {
	form.Flow.Upstream = "" // a sign-in on this page starts from the beginning
	form.Flow.Proved = nil
	form.Flow.Mailed = ""
	view := &pages.SignIn{Flow: h.Flows.Seal(form.Flow), Email: form.Email}
	view.Problem = form.Problem
	_, view.Invited = invitationToken(form.Flow)
	var err error
	if view.Passkey, err = h.Passkeys.SignIn(); err != nil {
		return err
	}
	view.Forgot = h.Accounts.Mail != nil
	if req := form.Flow.Request; req != nil {
		c, err := clientauth.Find(r.Context(), h.Clients, req.ClientID)
		if err != nil {
			return err
		}
		view.Client = c.Name
	}
	if view.Upstreams, err = h.buttons(r.Context(), form.Flow); err != nil {
		return err
	}
	view.SingleSignOn = len(h.Upstreams.Store.Domains.Granted) > 0
	if form.Flow.Again {
		if err := h.setAgain(r, view); err != nil {
			return err
		}
	}
	return h.Pages.Render(w, r, status, view)
}

// Password serves POST /sign-in. An unknown email address takes as long and gets the same response as a
// wrong password.
func (h *Handler) Password(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	email := ShortEmail(strings.ToLower(strings.TrimSpace(r.PostForm.Get("email"))))
	user, err := h.userByEmail(r.Context(), f, email)
	if err != nil {
		return err
	}
	taken, wait, err := h.takeTry(r, email, user)
	if err != nil {
		return err
	}
	if wait > 0 {
		SetRetryAfter(w, wait)
		return h.Show(w, r, http.StatusTooManyRequests, Form{Flow: f, Email: email, Problem: TooMany})
	}
	correct, err := h.Passwords.Check(r.Context(), user.PasswordHash, r.PostForm.Get("password"))
	if errors.Is(err, ErrBusy) {
		h.Attempts.Refund(taken...)
		SetRetryAfter(w, MaxWait)
		return h.Show(w, r, http.StatusTooManyRequests, Form{Flow: f, Email: email, Problem: tooManySignIns})
	}
	if err != nil {
		return err
	}
	if !correct {
		h.noteFailure(r, user)
		return h.Show(w, r, http.StatusBadRequest, Form{Flow: f, Email: email, Problem: wrongPassword})
	}
	h.Attempts.Refund(taken...)
	refused, err := h.RefusesPassword(r.Context(), user)
	if err != nil {
		return err
	}
	if refused {
		return h.Show(w, r, http.StatusForbidden, Form{Flow: f, Email: email, Problem: NoPassword})
	}
	return h.Complete(w, r, f, Proof{
		PasswordHash: user.PasswordHash, Methods: oauth.Methods{oauth.MethodPassword},
	}, func(tx *db.Tx) (string, error) {
		return user.ID, h.NotifyDevice(tx, r, ownerIn(f, user.ID, user.PasswordHash))
	})
}

// ShortEmail truncates an email address that a user has typed to the length that pages keep.
func ShortEmail(typed string) string { return typed[:min(len(typed), maxEmail)] }

// userByEmail returns the user with an email address, or the zero User. On the way to an invitation it
// also finds the invited user, who may have left all organizations.
func (h *Handler) userByEmail(ctx context.Context, f *flow.Flow, email string) (account.User, error) {
	if !utf8.ValidString(email) || strings.ContainsRune(email, 0) {
		return account.User{}, nil
	}
	user, err := h.Accounts.UserByEmail(ctx, email)
	if token, ok := invitationToken(f); ok && errs.KindOf(err) == errs.NotFound {
		user, err = h.Accounts.InvitedUser(ctx, token, email)
	}
	if errs.KindOf(err) == errs.NotFound {
		return account.User{}, nil
	}
	return user, err
}

// Proof is the evidence that signs a user in.
type Proof struct {
	Methods oauth.Methods
	// PasswordHash is the hash of the user's password, or "". It ties the browser to the password and
	// voids the proof once the password changes. Users who come from a provider do not need it.
	PasswordHash string
}

// Complete starts a session for the user who has given a proof, remembers the browser, and continues
// the flow. If the proof is not enough, it shows the page for the next step. Every way to sign in ends
// here.
//
// In the session's transaction it calls commit, which may create or change the user and returns the
// user's id.
func (h *Handler) Complete(
	w http.ResponseWriter, r *http.Request, f *flow.Flow, p Proof, commit func(*db.Tx) (userID string, err error),
) error {
	left, err := h.start(w, r, f, p, commit)
	if err != nil {
		return err
	}
	if left.step != stepNone {
		return h.showStep(w, r, f, left)
	}
	http.Redirect(w, r, h.Flows.Location(f), http.StatusSeeOther)
	return nil
}

// start starts a session for the user who has given a proof, and remembers the browser. If the proof is
// not enough, it still commits the proof's changes, but it starts no session and returns the remaining
// step.
func (h *Handler) start(
	w http.ResponseWriter, r *http.Request, f *flow.Flow, p Proof, commit func(*db.Tx) (userID string, err error),
) (left remaining, err error) {
	var hash string
	started := session.WithOrigin(r, session.Origin{OrgID: f.Upstream, AuthTime: f.AuthTime})
	s, err := h.Sessions.Start(w, started, p.Methods, func(tx *db.Tx, previous *session.Session) (string, error) {
		userID, err := commit(tx)
		if err != nil {
			return "", err
		}
		if hash, err = h.unchanged(tx, userID, p.PasswordHash); err != nil {
			return "", err
		}
		level, err := h.levelAgain(tx, f, userID, previous)
		if err != nil {
			return "", err
		}
		left, err = h.remaining(tx, userID, p.Methods, level)
		if err != nil || left.step != stepNone {
			return "", err
		}
		if f.Mailed == userID {
			if err := h.Accounts.ProveEmail(tx, userID); err != nil {
				return "", err
			}
		}
		return userID, h.Accounts.Audit.RecordUser(tx, actionSignIn, userID, userID)
	})
	if err != nil {
		return left, err
	}
	if s == nil {
		f.Proved = &flow.Proved{
			UserID: left.userID, Methods: p.Methods, At: stamp.Of(h.Now()),
			Password: h.passwordDigest(hash), Browser: h.Pages.Browser(r),
		}
		return left, nil
	}
	f.Proved = nil
	f.Mailed = ""
	h.Browsers.Remember(w, ownerIn(f, s.UserID, p.PasswordHash))
	f.SignedIn = s.ID
	return left, nil
}

// unchanged returns the hash of a user's password. It returns ErrExpired if a proof has a different
// one. We check passwords before the transaction; if somebody replaces one meanwhile, that ends all
// sessions, and this one must not begin.
func (h *Handler) unchanged(tx *db.Tx, userID, proved string) (hash string, err error) {
	hash, err = h.Accounts.PasswordHash(tx, userID)
	if err != nil {
		return "", err
	}
	if proved != "" && hash != proved {
		return "", flow.ErrExpired
	}
	return hash, nil
}
