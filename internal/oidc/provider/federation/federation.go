// Package federation sends browsers to organizations' providers, and signs in the users who come back.
//
// While a browser is at a provider, the sign-in's state travels sealed in the state parameter. A cookie
// binds it to the browser and to a single use: we delete it when the browser comes back.
package federation

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/upstream"
	"steward/internal/stamp"
)

// Handler serves the sign-in with a provider.
type Handler struct {
	Now       func() time.Time
	SignIn    *signin.Handler
	Sessions  *session.Manager
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Attempts  *signin.Limiter
	Upstreams *signin.Upstreams
	// Client talks to the providers.
	Client *upstream.RelyingParty
	// Linked is called when a user whom StartLink has sent comes back, with that user's session.
	Linked func(w http.ResponseWriter, r *http.Request, sessionID string, i upstream.Identity) error
}

// Errors for requests with the wrong provider or the wrong browser.
var (
	ErrNoUpstream = &oauth.Error{
		Status: http.StatusNotFound, Code: oauth.InvalidRequest,
		Description: "this sign-in provider does not exist or is switched off",
	}
	ErrOtherBrowser = oauth.NewError(oauth.InvalidRequest,
		"this sign-in was completed already, has expired, or was started in another browser: start again")
)

const (
	// notAdmitted is the same whether the user is not invited, is disabled, or has an account that is
	// not linked: the provider's administrators must not learn which addresses have accounts.
	notAdmitted = "This account does not open the organization. Sign in another way and link it on your account page, or ask for an invitation."

	noSingleSignOn = "There is no single sign-on for this email address. Sign in with your password."
)

// startLimit limits how often one network may start sign-ins at providers.
func startLimit(network string) oauth.Limit {
	return oauth.Limit{Key: "upstream " + network, Burst: 60, Every: time.Second}
}

// Upstream returns an enabled upstream, or ErrNoUpstream.
func (h *Handler) Upstream(ctx context.Context, upstreamID string) (upstream.Upstream, error) {
	u, err := h.Upstreams.Store.ByID(ctx, upstreamID)
	if errs.KindOf(err) == errs.NotFound {
		return upstream.Upstream{}, ErrNoUpstream
	}
	return u, err
}

// Start serves POST /sign-in/upstream: it sends the browser to a provider that the page has offered, or
// to the one for an e-mail address's domain.
func (h *Handler) Start(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	if upstreamID := r.PostForm.Get("upstream"); upstreamID != "" {
		u, err := h.Upstream(r.Context(), upstreamID)
		if err != nil {
			return err
		}
		return h.startSignIn(w, r, u, f)
	}
	email := signin.ShortEmail(strings.TrimSpace(r.PostForm.Get("email")))
	u, err := h.Upstreams.ForEmail(r.Context(), email)
	if errs.KindOf(err) == errs.NotFound {
		return h.SignIn.Show(w, r, http.StatusBadRequest, signin.Form{Flow: f, Email: email, Problem: noSingleSignOn})
	}
	if err != nil {
		return err
	}
	return h.startSignIn(w, r, u, f)
}

// Link serves GET /sign-in/upstream/{id}, a link that administrators hand out. It leads to the console.
func (h *Handler) Link(w http.ResponseWriter, r *http.Request) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	if s != nil {
		http.Redirect(w, r, oauth.PathConsoleSignIn, http.StatusSeeOther)
		return nil
	}
	u, err := h.Upstream(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return h.startSignIn(w, r, u, h.Flows.ToPath(oauth.PathConsoleSignIn))
}

// startSignIn sends the browser to a provider. Users who are signed in already, or whose application
// demands it, must authenticate there again.
func (h *Handler) startSignIn(w http.ResponseWriter, r *http.Request, u upstream.Upstream, f *flow.Flow) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	demanded := f.Request != nil && (f.Request.MaxAge != nil || f.Request.Prompt(flow.PromptLogin))
	return h.leave(w, r, u, visit{Flow: f, Attempt: h.Client.NewAttempt(demanded || s != nil)})
}

// StartLink sends a session's user to a provider to link the account there.
func (h *Handler) StartLink(w http.ResponseWriter, r *http.Request, u upstream.Upstream, sessionID string) error {
	return h.leave(w, r, u, visit{
		Flow: h.Flows.ToPath(oauth.PathAccount), Session: sessionID, Attempt: h.Client.NewAttempt(false),
	})
}

// Callback serves GET /sign-in/upstream/callback, where the browser comes back from a provider.
func (h *Handler) Callback(w http.ResponseWriter, r *http.Request) error {
	v, err := h.open(r)
	if err != nil {
		return err
	}
	h.Pages.Cookies.Set(w, cookieName, "", -1)
	u, err := h.Upstream(r.Context(), v.UpstreamID)
	if err != nil {
		return err
	}
	if u.Issuer != v.Issuer {
		return ErrOtherBrowser
	}
	reg, err := h.registration(u)
	if err != nil {
		return err
	}
	claims, err := h.Client.Finish(r.Context(), reg, v.Attempt, r.URL.Query())
	if err != nil {
		return err
	}
	if v.Session != "" {
		return h.Linked(w, r, v.Session, signin.Identity(u, claims))
	}
	arrival, err := h.Upstreams.Arrive(r.Context(), u, claims)
	if err != nil {
		return err
	}
	v.Flow.Upstream = u.OrgID
	v.Flow.AuthTime = 0
	if claims.AuthTime < h.Now().Unix() {
		v.Flow.AuthTime = stamp.Of(time.Unix(claims.AuthTime, 0))
	}
	return h.admit(w, r, v.Flow, arrival)
}

// admit signs in the user who has arrived.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request, f *flow.Flow, a signin.Arrival) error {
	err := h.SignIn.Complete(w, r, f, signin.Proof{
		Methods: a.Methods(),
	}, func(tx *db.Tx) (string, error) {
		userID, known, err := h.Upstreams.Enter(tx, a)
		if errs.KindOf(err) == errs.NotFound {
			return "", ErrNoUpstream
		}
		if err != nil || !known {
			return userID, err
		}
		return userID, h.SignIn.NotifyDevice(tx, r, signin.BrowserOwner{UserID: userID, Upstream: f.Upstream})
	})
	if errors.Is(err, signin.ErrNotAdmitted) {
		return h.SignIn.Show(w, r, http.StatusForbidden, signin.Form{Flow: f, Problem: notAdmitted})
	}
	return err
}
