// Package authorize owns the authorization endpoint and pushed authorization requests (RFC 9126).
//
// GET /authorize finds the client and its redirect URI. Until then we show errors on a page and never
// redirect them. We validate the rest of the request into a flow.Request (request.go), and redirect its
// errors. Then the browser gets the page that is still missing: the sign-in page, the consent page, or
// none. Finally we store a grant and send its code to the client (decision.go).
package authorize

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
)

// Handler serves the authorization endpoint.
type Handler struct {
	DB  *db.DB
	Now func() time.Time
	// Issuer goes into each authorization response (RFC 9207).
	Issuer string
	// RequirePKCE makes PKCE mandatory for confidential clients too.
	RequirePKCE bool
	Clients     *oidc.Store
	Tokens      *jwt.Issuer
	Proofs      *clientauth.ProofVerifier
	Sessions    *session.Manager
	Consents    *grant.ConsentPage
	Flows       *flow.Sealer
	Pages       *pages.Renderer
	Audiences   *grant.Audiences
	// Documents requests the documents that describe clients; nil if clients cannot register
	// themselves.
	Documents *clientauth.Keys
	SignIn    *signin.Handler

	throttle oauth.Throttle
}

// Get serves GET /authorize.
func (h *Handler) Get(w http.ResponseWriter, r *http.Request) error {
	return h.start(w, r, r.URL.Query())
}

// Continue serves GET /authorize/continue, where a flow returns from the sign-in page. It has its own
// path, so that no client's parameter can pass for a flow.
func (h *Handler) Continue(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.OpenRequest(r.URL.Query().Get("flow"))
	if err != nil {
		return err
	}
	return h.proceed(w, r, f)
}

// Post serves POST /authorize. Any site may send it, so it continues as a GET.
func (h *Handler) Post(w http.ResponseWriter, r *http.Request) error {
	if err := oauth.ReadForm(w, r); err != nil {
		return err
	}
	return h.start(w, r, r.PostForm)
}

func (h *Handler) start(w http.ResponseWriter, r *http.Request, form url.Values) error {
	clientID, err := oauth.Required(form, "client_id")
	if err != nil {
		return err
	}
	c, err := h.named(w, r, form, clientID)
	if err != nil || c == nil {
		return err
	}
	uri, err := oauth.Param(form, "request_uri")
	if err != nil {
		return err
	}
	pushed := strings.HasPrefix(uri, pushedPrefix)
	if pushed {
		form, err = h.takePushed(r.Context(), c, uri)
		if err != nil {
			return err
		}
	}
	redirectURI, err := redirectURIOf(c, form)
	if err != nil {
		return err
	}
	req, err := h.parse(r.Context(), c, redirectURI, form)
	if refused, ok := errors.AsType[*oauth.Error](err); ok {
		return h.sendError(w, r, recipientOf(redirectURI, form), refused)
	}
	if err != nil {
		return err
	}
	f := h.Flows.ForRequest(req)
	if pushed || r.Method == http.MethodPost {
		// A pushed request is now used up. With the flow in the URL, the user can still reload the
		// page.
		http.Redirect(w, r, h.Flows.Location(f), http.StatusSeeOther)
		return nil
	}
	return h.proceed(w, r, f)
}

// named returns the client with a client_id, or nil if it has sent the browser a page instead.
func (h *Handler) named(w http.ResponseWriter, r *http.Request, form url.Values, clientID string) (*oidc.Registered, error) {
	if oidc.IsDocumentURI(clientID) {
		return h.documented(w, r, form, clientID)
	}
	c, err := clientauth.Find(r.Context(), h.Clients, clientID)
	if err == nil && c.ProtocolID() != clientID {
		return nil, clientauth.ErrUnknown
	}
	return c, err
}

// proceed shows the sign-in page if the user has to sign in, and otherwise continues with authorize.
func (h *Handler) proceed(w http.ResponseWriter, r *http.Request, f *flow.Flow) error {
	req := f.Request
	c, err := h.client(r.Context(), req)
	if err != nil {
		return err
	}
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	signedIn := user != nil && s.Opens(c.OrgID) && !h.needsSignIn(f, s)
	if signedIn && !req.Prompt(flow.PromptNone) {
		stronger, err := h.wantsStronger(r.Context(), f, s)
		if err != nil {
			return err
		}
		signedIn = !stronger
	}
	if signedIn {
		return h.authorize(w, r, authorization{flow: f, client: c, session: s, user: user})
	}
	if req.Prompt(flow.PromptNone) {
		return h.refuse(w, r, req, oauth.NewError(oauth.LoginRequired, "the user is not signed in"))
	}
	return h.SignIn.ShowSignIn(w, r, f, req.LoginHint)
}

// client returns a request's client, which may have changed since we validated the request.
func (h *Handler) client(ctx context.Context, req *flow.Request) (*oidc.Registered, error) {
	c, err := clientauth.Find(ctx, h.Clients, req.ClientID)
	if err != nil {
		return nil, err
	}
	if !c.MayRedirect(req.RedirectURI) {
		return nil, errRedirectURI
	}
	return c, nil
}

// needsSignIn reports whether the user has to sign in despite having a session: the request demands it,
// the last sign-in was too long ago, or the request expects another user.
func (h *Handler) needsSignIn(f *flow.Flow, s *session.Session) bool {
	if f.SignedIn == s.ID {
		return false
	}
	req := f.Request
	tooOld := req.MaxAge != nil && h.Now().Sub(s.AuthTime.Std()) > time.Duration(*req.MaxAge)*time.Second
	otherUser := req.Subject != "" && req.Subject != s.UserID
	return tooOld || otherUser || req.Prompt(flow.PromptLogin) || req.Prompt(flow.PromptSelectAccount)
}

// wantsStronger reports whether the request asks for a stronger sign-in than the session's, and the
// user can provide it. Such a request is voluntary: we do not ask users who cannot, and acr tells the
// truth.
func (h *Handler) wantsStronger(ctx context.Context, f *flow.Flow, s *session.Session) (bool, error) {
	if f.SignedIn == s.ID || s.Methods.Reach(f.Request.Level) {
		return false, nil
	}
	reachable, err := h.SignIn.ReachableLevel(ctx, s.UserID)
	if err != nil {
		return false, err
	}
	levels := oauth.Levels()
	return slices.Index(levels, reachable) >= slices.Index(levels, f.Request.Level), nil
}
