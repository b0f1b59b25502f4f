package authorize

import (
	"net/http"
	"net/url"
	"slices"

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

// authorize sends a code if the user may use the client and has decided about all that it requests.
// Otherwise it shows the consent page, or refuses.
func (h *Handler) authorize(
	w http.ResponseWriter, r *http.Request, f *flow.Flow, c *oidc.Registered, s *session.Session, user *oidc.User,
) error {
	req := f.Request
	if req.Subject != "" && req.Subject != user.ID {
		return h.refuse(w, r, req, oauth.LoginRequired, "another user is signed in")
	}
	admitted, err := h.Clients.Admits(r.Context(), c, user.ID)
	if err != nil {
		return err
	}
	if !admitted {
		return h.refuse(w, r, req, oauth.AccessDenied, "the user may not use this application")
	}
	given, err := h.Clients.Consent(r.Context(), c.ID, user.ID)
	if err != nil {
		return err
	}
	asked := grant.Asked(req.Scopes, given, askFor(c, req, given))
	if given != nil && len(asked) == 0 {
		return h.sendCode(w, r, c, req, s, grant.Granted(req.Scopes, given), given)
	}
	if req.Prompt(flow.PromptNone) {
		return h.refuseConsent(w, r, c, req, given)
	}
	f.UserID = user.ID
	view := pages.Consent{
		Flow: h.Flows.Seal(f), Action: oauth.PathConsent, Redirect: pages.NewRedirect(req.RedirectURI),
	}
	if req.Resource != h.Issuer {
		view.Resource = req.Resource
	}
	return h.Consents.Show(w, r, view, c, user, asked)
}

// askFor returns which scopes of a request the user is asked for. The consent is nil if there is none.
func askFor(c *oidc.Registered, req *flow.Request, given *oidc.Consent) grant.Ask {
	switch {
	case req.Prompt(flow.PromptConsent):
		return grant.AskAll
	case c.AsksEachTime(req.RedirectURI) || given != nil && !c.Covers(given, req.RedirectURI):
		return grant.AskAgain
	}
	return grant.AskNew
}

// refuseConsent refuses a request that needs the consent page and has prompt=none.
func (h *Handler) refuseConsent(
	w http.ResponseWriter, r *http.Request, c *oidc.Registered, req *flow.Request, given *oidc.Consent,
) error {
	if c.AsksEachTime(req.RedirectURI) {
		return h.refuse(w, r, req, oauth.InteractionRequired, "users of this application are asked each time")
	}
	if given != nil && !c.Covers(given, req.RedirectURI) {
		return h.refuse(w, r, req, oauth.ConsentRequired, "redirect_uri was registered after the user had consented")
	}
	return h.refuse(w, r, req, oauth.ConsentRequired, "the user has not consented to all scopes")
}

// Consent serves POST /consent, the decision of the user.
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
	if user == nil || user.ID != f.UserID { // another user has signed in since the page was shown
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
		return h.refuse(w, r, req, oauth.AccessDenied, "the user has declined")
	}
	given, err := h.Clients.Consent(r.Context(), c.ID, user.ID)
	if err != nil {
		return err
	}
	scopes, saved, err := h.Consents.Save(r, c, user.ID, req.Scopes, given, askFor(c, req, given))
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		return h.refuse(w, r, req, oauth.AccessDenied, "the user has declined all scopes")
	}
	return h.sendCode(w, r, c, req, s, scopes, saved)
}

// sendCode stores a grant and redirects the browser to the client with its code.
func (h *Handler) sendCode(
	w http.ResponseWriter, r *http.Request, c *oidc.Registered, req *flow.Request, s *session.Session,
	scopes []string, given *oidc.Consent,
) error {
	code := id.Secret(43)
	g := grant.New(h.Now(), c, given, scopes, s.AuthTime)
	expires := g.CreatedAt.Add(grant.CodeLifetime)
	g.CodeHash = seal.Hash(code)
	g.CodeExpiresAt = &expires
	g.RedirectURI = &req.RedirectURI
	g.Nonce = db.Null(req.Nonce)
	g.Challenge = db.Null(req.Challenge)
	g.JKT = db.Null(req.JKT)
	g.Resource = db.Null(req.Resource)
	if !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		g.SessionID = &s.ID
	}
	if err := h.DB.Write(r.Context(), func(tx *db.Tx) error { return grant.Insert(tx, g) }); err != nil {
		return err
	}
	return h.send(w, r, recipient{req.RedirectURI, req.State, req.ResponseMode}, url.Values{"code": {code}})
}
