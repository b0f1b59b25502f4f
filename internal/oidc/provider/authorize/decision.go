package authorize

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/seal"
)

// authorization is a client's request, with the signed-in user.
type authorization struct {
	flow    *flow.Flow
	client  *oidc.Registered
	session *session.Session
	user    *account.User
}

// authorize sends a code if the user may use the client and has decided on everything it requests.
// Otherwise it shows the consent page or refuses.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request, a authorization) error {
	req := a.flow.Request
	if req.Subject != "" && req.Subject != a.user.ID {
		return h.refuse(w, r, req, oauth.NewError(oauth.LoginRequired, "another user is signed in"))
	}
	admitted, err := h.Clients.Admits(r.Context(), a.client, a.user.ID)
	if err != nil {
		return err
	}
	if !admitted {
		return h.refuse(w, r, req, oauth.NewError(oauth.AccessDenied, "the user may not use this application"))
	}
	q, err := h.consentRequest(r.Context(), a)
	if err != nil {
		return err
	}
	if q.Given != nil && len(q.Asked()) == 0 {
		return h.sendCode(w, r, req, h.newGrant(a, q.Granted(), q.Given))
	}
	if req.Prompt(flow.PromptNone) {
		return h.refuse(w, r, req, consentRequired(a.client, req, q.Given))
	}
	a.flow.UserID = a.user.ID
	view := pages.Consent{
		Flow: h.Flows.Seal(a.flow), Action: oauth.PathConsent, Redirect: pages.NewRedirect(req.RedirectURI),
	}
	if req.Resource != h.Issuer {
		view.Resource = req.Resource
	}
	return h.Consents.Show(w, r, view, q)
}

func (h *Handler) consentRequest(ctx context.Context, a authorization) (grant.ConsentRequest, error) {
	given, err := h.Clients.Consent(ctx, a.client.ID, a.user.ID)
	if err != nil {
		return grant.ConsentRequest{}, err
	}
	req := a.flow.Request
	return grant.ConsentRequest{
		Client: a.client, User: a.user, Scopes: req.Scopes, Given: given, Ask: askFor(a.client, req, given),
	}, nil
}

// askFor selects the requested scopes that we ask the user about. given is nil if there is no consent.
func askFor(c *oidc.Registered, req *flow.Request, given *oidc.Consent) grant.Ask {
	switch {
	case req.Prompt(flow.PromptConsent):
		return grant.AskAll
	case c.AsksEachTime(req.RedirectURI) || given != nil && !c.Covers(given, req.RedirectURI):
		return grant.AskAgain
	}
	return grant.AskNew
}

// consentRequired returns the error for a request with prompt=none that needs the consent page.
func consentRequired(c *oidc.Registered, req *flow.Request, given *oidc.Consent) *oauth.Error {
	if c.AsksEachTime(req.RedirectURI) {
		return oauth.NewError(oauth.InteractionRequired, "users of this application are asked each time")
	}
	if given != nil && !c.Covers(given, req.RedirectURI) {
		return oauth.NewError(oauth.ConsentRequired, "redirect_uri was registered after the user had consented")
	}
	return oauth.NewError(oauth.ConsentRequired, "the user has not consented to all scopes")
}

// Consent serves POST /consent, the user's decision.
func (h *Handler) Consent(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.OpenRequest(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	req := f.Request
	c, err := h.client(r.Context(), req)
	if err != nil {
		return err
	}
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if user == nil || user.ID != f.UserID || !s.Opens(c.OrgID) { // another user has signed in since the page was shown
		return h.proceed(w, r, f)
	}
	admitted, err := h.Clients.Admits(r.Context(), c, user.ID)
	if err != nil {
		return err
	}
	if !admitted {
		return h.proceed(w, r, f)
	}
	if !grant.Approved(r) {
		return h.refuse(w, r, req, oauth.NewError(oauth.AccessDenied, "the user has declined"))
	}
	a := authorization{flow: f, client: c, session: s, user: user}
	q, err := h.consentRequest(r.Context(), a)
	if err != nil {
		return err
	}
	scopes, saved, err := h.Consents.Save(r, q)
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		return h.refuse(w, r, req, oauth.NewError(oauth.AccessDenied, "the user has declined all scopes"))
	}
	return h.sendCode(w, r, req, h.newGrant(a, scopes, saved))
}

// newGrant returns a grant for scopes, without a code.
func (h *Handler) newGrant(a authorization, scopes []string, consent *oidc.Consent) *grant.Grant {
	req := a.flow.Request
	g := grant.New(h.Now(), a.client, consent, scopes)
	g.AuthTime = a.session.AuthTime
	g.Methods = a.session.Methods
	g.RedirectURI = &req.RedirectURI
	g.Nonce = db.Null(req.Nonce)
	g.Challenge = db.Null(req.Challenge)
	g.JKT = db.Null(req.JKT)
	g.Resource = db.Null(req.Resource)
	g.SignInSessionID = &a.session.ID
	if !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		g.SessionID = &a.session.ID
	}
	return g
}

// sendCode stores a grant and redirects the browser to the client with its code.
func (h *Handler) sendCode(w http.ResponseWriter, r *http.Request, req *flow.Request, g *grant.Grant) error {
	code := id.Secret(43)
	expires := g.CreatedAt.Add(grant.CodeLifetime)
	g.CodeHash = seal.Hash(code)
	g.CodeExpiresAt = &expires
	if err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return grant.Insert(tx, g) }); err != nil {
		return err
	}
	return h.send(w, r, recipient{req.RedirectURI, req.State, req.ResponseMode}, url.Values{"code": {code}})
}

type recipient struct {
	uri   string
	state string
	// mode is flow.FormPost; otherwise the response goes into the URI's query.
	mode string
}

// recipientOf returns the recipient for an error. The request may be invalid.
func recipientOf(redirectURI string, form url.Values) recipient {
	to := recipient{uri: redirectURI, state: form.Get("state")}
	if mode := form.Get("response_mode"); mode == flow.FormPost && acceptsForms(redirectURI) {
		to.mode = mode
	}
	return to
}

// acceptsForms reports whether a browser can send a form to a redirect URI. It cannot send one to an
// application with a private-use scheme.
func acceptsForms(redirectURI string) bool {
	return strings.HasPrefix(redirectURI, "https:") || strings.HasPrefix(redirectURI, "http:")
}

// refuse sends the browser to the client with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, req *flow.Request, e *oauth.Error) error {
	return h.sendError(w, r, recipient{req.RedirectURI, req.State, req.ResponseMode}, e)
}

func (h *Handler) sendError(w http.ResponseWriter, r *http.Request, to recipient, e *oauth.Error) error {
	return h.send(w, r, to, url.Values{"error": {e.Code}, "error_description": {e.Description}})
}

// send sends the browser to the client with an authorization response.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, to recipient, params url.Values) error {
	params.Set("iss", h.Issuer)
	if to.state != "" {
		params.Set("state", to.state)
	}
	if to.mode == flow.FormPost {
		return h.Pages.Render(w, r, http.StatusOK, pages.NewFormPost(to.uri, params))
	}
	location, err := oauth.AddQuery(to.uri, params)
	if err != nil {
		return err
	}
	http.Redirect(w, r, location, http.StatusSeeOther) // 303 turns a POST into a GET, so that the browser does not pass the form on
	return nil
}
