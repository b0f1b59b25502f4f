package signin

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Upstreams signs users in with the providers of their organizations.
type Upstreams struct {
	Store  *upstream.Store
	Client *relying.Client
	Members
	// FirstOrg returns the oldest organization, and whether it is the only one, whose providers everybody is
	// offered.
	FirstOrg func(ctx context.Context) (orgID string, only bool, err error)
}

// While a browser is at a provider, what is known of the sign-in travels sealed in the parameter state. A
// cookie, which is deleted when the browser comes back, binds it to the browser and to one use.
const (
	upstreamCookie  = "steward_upstream"
	upstreamPurpose = "oidc.upstream"
	cookieSize      = 32
)

// visitToProvider is what is known of a sign-in while the browser is at a provider.
type visitToProvider struct {
	UpstreamID string          `json:"upstream"`
	Issuer     string          `json:"issuer"`
	Attempt    relying.Attempt `json:"attempt"`
	Flow       *flow.Flow      `json:"flow"`
	// Cookie is the hash of the browser's cookie.
	Cookie []byte `json:"cookie"`
	// Session is the session of a user who links the account, or "".
	Session string `json:"session,omitempty"`
}

var (
	errNoUpstream = &oauth.Error{
		Status: http.StatusNotFound, Code: oauth.InvalidRequest,
		Description: "this sign-in provider does not exist or is switched off",
	}
	errOtherBrowser = oauth.NewError(oauth.InvalidRequest,
		"this sign-in was completed already, has expired, or was started in another browser: start again")
)

// upstreamLimit is the limit for starting sign-ins at providers from one address.
func upstreamLimit(address string) oauth.Limit {
	return oauth.Limit{Key: "upstream " + oauth.Network(address), Burst: 60, Every: time.Second}
}

// buttons returns the providers that the sign-in page of a flow offers: those of the organization of the
// application or invitation that the user continues to. If there is only one organization, those of it.
// Nobody else sees which providers an organization has.
func (h *Handler) buttons(ctx context.Context, f *flow.Flow) ([]pages.Provider, error) {
	if h.Upstreams == nil {
		return nil, nil
	}
	orgID, err := h.orgOf(ctx, f)
	if err != nil || orgID == "" {
		return nil, err
	}
	list, err := h.Upstreams.Store.Enabled(ctx, orgID)
	if err != nil {
		return nil, err
	}
	return providerButtons(list), nil
}

func providerButtons(list []upstream.Upstream) []pages.Provider {
	shown := make([]pages.Provider, len(list))
	for i, u := range list {
		shown[i] = pages.Provider{ID: u.ID, Name: u.Name}
	}
	return shown
}

// orgOf returns the organization that a flow leads to, or "" if that is not known.
func (h *Handler) orgOf(ctx context.Context, f *flow.Flow) (string, error) {
	if f.Request != nil {
		c, err := clientauth.Find(ctx, h.Clients, f.Request.ClientID)
		if err != nil {
			return "", err
		}
		return c.OrgID, nil
	}
	if token, ok := invitationToken(f); ok {
		i, err := h.Users.Invitation(ctx, token)
		if err == nil || errs.KindOf(err) != errs.NotFound {
			return i.OrgID, err
		}
	}
	orgID, only, err := h.Upstreams.FirstOrg(ctx)
	if !only {
		return "", err
	}
	return orgID, err
}

// setProviders adds the providers with which a new person can accept an invitation to its page.
func (h *Handler) setProviders(ctx context.Context, view *pages.Invitation, i Invitation) (err error) {
	if h.Upstreams == nil {
		return nil
	}
	list, err := h.Upstreams.Store.Enabled(ctx, i.OrgID)
	if err != nil {
		return err
	}
	view.Upstreams = providerButtons(list)
	view.Flow = h.Flows.Seal(h.Flows.ToPath(oauth.PathAccount))
	view.Only, err = h.onlyUpstream(ctx, i)
	return err
}

// StartUpstream serves POST /sign-in/upstream: it sends the browser to a provider that the page has
// offered, or to that of the domain of an e-mail address.
func (h *Handler) StartUpstream(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	if upstreamID := r.PostForm.Get("upstream"); upstreamID != "" {
		u, err := h.upstream(r.Context(), upstreamID)
		if err != nil {
			return err
		}
		return h.toProvider(w, r, u, f)
	}
	email := strings.TrimSpace(r.PostForm.Get("email"))
	email = email[:min(len(email), maxEmail)]
	u, err := h.upstreamOf(r.Context(), email)
	if errs.KindOf(err) == errs.NotFound {
		return h.showSignIn(w, r, http.StatusBadRequest, signInForm{flow: f, email: email, problem: noSingleSignOn})
	}
	if err != nil {
		return err
	}
	return h.toProvider(w, r, u, f)
}

const noSingleSignOn = "There is no single sign-on for this email address. Sign in with your password."

// upstream returns an enabled upstream, or errNoUpstream.
func (h *Handler) upstream(ctx context.Context, upstreamID string) (upstream.Upstream, error) {
	if h.Upstreams == nil {
		return upstream.Upstream{}, errNoUpstream
	}
	u, err := h.Upstreams.Store.ByID(ctx, upstreamID)
	if errs.KindOf(err) == errs.NotFound {
		return upstream.Upstream{}, errNoUpstream
	}
	return u, err
}

// upstreamOf returns the provider that an e-mail address leads to, or NotFound.
func (h *Handler) upstreamOf(ctx context.Context, email string) (upstream.Upstream, error) {
	if h.Upstreams == nil {
		return upstream.Upstream{}, errs.New(errs.NotFound, "there are no upstreams")
	}
	return h.Upstreams.Store.ForDomain(ctx, upstream.DomainOf(email))
}

// UpstreamLink serves GET /sign-in/upstream/{id}, a link that administrators hand out. It leads to the
// console.
func (h *Handler) UpstreamLink(w http.ResponseWriter, r *http.Request) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	if s != nil {
		http.Redirect(w, r, oauth.PathConsole, http.StatusSeeOther)
		return nil
	}
	u, err := h.upstream(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return h.toProvider(w, r, u, h.Flows.ToPath(oauth.PathConsole))
}

// toProvider sends the browser to a provider. A user who is signed in, or whose application demands it,
// must authenticate there again.
func (h *Handler) toProvider(w http.ResponseWriter, r *http.Request, u upstream.Upstream, f *flow.Flow) error {
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	demanded := f.Request != nil && (f.Request.MaxAge != nil || f.Request.Prompt(flow.PromptLogin))
	return h.leave(w, r, u, visitToProvider{Flow: f, Attempt: h.Upstreams.Client.NewAttempt(demanded || s != nil)})
}

// leave sends the browser to a provider.
func (h *Handler) leave(w http.ResponseWriter, r *http.Request, u upstream.Upstream, v visitToProvider) error {
	if wait := h.throttle.Take(h.Now(), upstreamLimit(web.Request(r.Context()).RemoteAddr)); wait > 0 {
		setRetryAfter(w, wait)
		return &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
			Description: "too many attempts: wait a minute, then try again",
		}
	}
	reg, err := h.registration(u)
	if err != nil {
		return err
	}
	cookie := id.Secret(cookieSize)
	v.UpstreamID = u.ID
	v.Issuer = u.Issuer
	v.Cookie = seal.Hash(cookie)
	location, err := h.Upstreams.Client.AuthURL(r.Context(), reg, v.Attempt, h.sealVisit(v))
	if err != nil {
		return err
	}
	h.Pages.Remember(w, r) // a form may follow when the browser comes back
	h.Pages.Cookies.Set(w, upstreamCookie, cookie, 0)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, location, http.StatusSeeOther)
	return nil
}

// registration returns how Steward is registered at a provider.
func (h *Handler) registration(u upstream.Upstream) (relying.Registration, error) {
	secret, err := h.Upstreams.Store.Secret(u)
	return relying.Registration{
		Issuer: u.Issuer, ClientID: u.ClientID, ClientSecret: secret, Scopes: u.Scopes, GroupsClaim: u.GroupsClaim,
	}, err
}

func (h *Handler) sealVisit(v visitToProvider) string {
	plain, err := json.Marshal(v)
	if err != nil {
		panic(err) // it can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(h.Flows.Ring.Seal(upstreamPurpose, plain))
}

// openVisit returns what the state of a request says, if it belongs to the browser and has not expired.
func (h *Handler) openVisit(r *http.Request) (visitToProvider, error) {
	var v visitToProvider
	sealed, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("state"))
	if err != nil {
		return v, errOtherBrowser
	}
	plain, err := h.Flows.Ring.Open(upstreamPurpose, sealed)
	if err != nil {
		return v, errOtherBrowser
	}
	if err := json.Unmarshal(plain, &v); err != nil {
		return v, errOtherBrowser
	}
	cookie, ok := h.Pages.Cookies.Get(r, upstreamCookie)
	if !ok || subtle.ConstantTimeCompare(seal.Hash(cookie), v.Cookie) != 1 || v.Flow.ExpiresAt < stamp.Of(h.Now()) {
		return v, errOtherBrowser
	}
	return v, nil
}

// UpstreamCallback serves GET /sign-in/upstream/callback, where the browser comes back from a provider.
func (h *Handler) UpstreamCallback(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openVisit(r)
	if err != nil {
		return err
	}
	h.Pages.Cookies.Set(w, upstreamCookie, "", -1)
	u, err := h.upstream(r.Context(), v.UpstreamID)
	if err != nil {
		return err
	}
	if u.Issuer != v.Issuer {
		return errOtherBrowser
	}
	reg, err := h.registration(u)
	if err != nil {
		return err
	}
	claims, err := h.Upstreams.Client.Finish(r.Context(), reg, v.Attempt, r.URL.Query())
	if err != nil {
		return err
	}
	if v.Session != "" {
		return h.link(w, r, v.Session, identity(u, claims))
	}
	a, err := h.arrive(r.Context(), u, claims)
	if err != nil {
		return err
	}
	v.Flow.Upstream = u.OrgID
	v.Flow.AuthTime = 0
	if claims.AuthTime < h.Now().Unix() {
		v.Flow.AuthTime = stamp.Of(time.Unix(claims.AuthTime, 0))
	}
	err = h.signIn(w, r, v.Flow, proof{
		methods: claims.Methods,
		commit:  func(tx *db.Tx) (string, error) { return h.admit(tx, a) },
	})
	if errors.Is(err, errNotAdmitted) {
		return h.showSignIn(w, r, http.StatusForbidden, signInForm{flow: v.Flow, problem: notAdmitted})
	}
	return err
}

// identity returns the identity of a user of a provider.
func identity(u upstream.Upstream, c relying.Claims) upstream.Identity {
	return upstream.Identity{OrgID: u.OrgID, Issuer: u.Issuer, Subject: c.Subject}
}
