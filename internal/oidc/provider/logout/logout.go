// Package logout owns RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0) and front-channel
// logout.
//
// A client that presents the signed-in user's ID token signs the user out at once. In every other case
// we ask the user first, since any site can send a browser here. We do not refuse a request that is
// partly wrong, such as a hint whose key is gone, but ask the user as well: people who want to sign out
// must be able to.
//
// A POST request continues as a GET with its parameters sealed, because browsers do not send the
// session's cookie with a POST from another site.
package logout

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
)

// maxState bounds the state, which travels in URLs.
const maxState = 2048

// Handler serves the end-session endpoint.
type Handler struct {
	Clients  *oidc.Store
	Tokens   *jwt.Issuer
	Sessions *session.Manager
	Flows    *flow.Sealer
	Pages    *pages.Renderer
	// FrontChannel tells applications in the browser.
	FrontChannel *FrontChannel
}

// Get serves GET /end_session.
func (h *Handler) Get(w http.ResponseWriter, r *http.Request) error {
	l, err := h.parse(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	return h.proceed(w, r, l)
}

// Post serves POST /end_session. It continues as a GET, which carries the session's cookie.
func (h *Handler) Post(w http.ResponseWriter, r *http.Request) error {
	if err := oauth.ReadForm(w, r); err != nil {
		return err
	}
	l, err := h.parse(r.Context(), r.PostForm)
	if err != nil {
		return err
	}
	http.Redirect(w, r, h.Flows.Location(h.Flows.ForLogout(l)), http.StatusSeeOther)
	return nil
}

// Continue serves GET /end_session/continue, where a POST continues.
func (h *Handler) Continue(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Flows.OpenLogout(r.URL.Query().Get("flow"))
	if err != nil {
		return err
	}
	return h.proceed(w, r, l)
}

// proceed signs the user out if the request proves that it is about this user, and otherwise asks.
func (h *Handler) proceed(w http.ResponseWriter, r *http.Request, l *flow.Logout) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil || l.Subject == s.UserID {
		return h.finish(w, r, s, l)
	}
	c, err := h.client(r.Context(), l.ClientID)
	if err != nil {
		return err
	}
	view := &pages.SignOut{Flow: h.Flows.Seal(h.Flows.ForLogout(l)), Email: user.Email}
	if c != nil {
		view.Client = c.Name
	}
	return h.Pages.Render(w, r, http.StatusOK, view)
}

// Confirm serves POST /end_session/confirm, the form on the page that asks the user.
func (h *Handler) Confirm(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Flows.OpenLogout(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	if r.PostForm.Get("action") != "approve" {
		return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
			Title: "You are still signed in", Text: "You can close this page.",
		})
	}
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	return h.finish(w, r, s, l)
}

// parse returns a logout request without the parts that we cannot verify: a hint that is not the
// client's ID token, and a redirect URI that the client has not registered. Without either, we ask the
// user. It returns an error if a parameter is repeated or too long.
func (h *Handler) parse(ctx context.Context, form url.Values) (*flow.Logout, error) {
	params := map[string]string{}
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		value, err := oauth.Param(form, name)
		if err != nil {
			return nil, err
		}
		params[name] = value
	}
	if len(params["state"]) > maxState {
		return nil, oauth.NewError(oauth.InvalidRequest, "state is too long")
	}
	l := &flow.Logout{ClientID: params["client_id"], State: params["state"]}
	if hint := params["id_token_hint"]; hint != "" {
		if err := h.readHint(ctx, l, hint); err != nil {
			return nil, err
		}
	}
	return l, h.checkRedirect(ctx, l, params["post_logout_redirect_uri"])
}

// readHint sets the user and the client from an ID token. It changes nothing if it cannot verify the
// token, and clears the client if the request names another one.
func (h *Handler) readHint(ctx context.Context, l *flow.Logout, hint string) error {
	claims, err := h.Tokens.VerifyIDHint(ctx, hint)
	if errors.Is(err, jwt.ErrInvalid) || err == nil && len(claims.Audience) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if l.ClientID != "" && !slices.Contains(claims.Audience, l.ClientID) {
		l.ClientID = ""
		return nil
	}
	l.ClientID = claims.Audience[0]
	l.Subject = claims.Subject
	return nil
}

// checkRedirect sets the redirect URI if the client has registered it. Otherwise we ask the user, and
// the browser stays here.
func (h *Handler) checkRedirect(ctx context.Context, l *flow.Logout, uri string) error {
	c, err := h.client(ctx, l.ClientID)
	if err != nil {
		return err
	}
	if c == nil {
		l.ClientID = ""
	}
	if uri == "" {
		return nil
	}
	if c == nil || !c.MayRedirectAfterLogout(uri) {
		l.Subject = ""
		return nil
	}
	l.RedirectURI = uri
	return nil
}

// client returns the client with this id, or nil if there is none.
func (h *Handler) client(ctx context.Context, clientID string) (*oidc.Registered, error) {
	c, err := h.Clients.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	return c, err
}

// finish ends the session, if there is one, and sends the browser back to the client.
func (h *Handler) finish(w http.ResponseWriter, r *http.Request, s *session.Session, l *flow.Logout) error {
	frames, err := h.FrontChannel.Frames(r.Context(), s)
	if err != nil {
		return err
	}
	if s != nil {
		if err := h.Sessions.End(r.Context(), w, s); err != nil {
			return err
		}
	}
	page := &pages.SignedOut{Title: "You are signed out", Text: "You can close this page.", Frames: frames}
	c, err := h.client(r.Context(), l.ClientID) // it may have changed since we parsed the request
	if err != nil {
		return err
	}
	if c == nil || !c.MayRedirectAfterLogout(l.RedirectURI) {
		return h.Pages.Render(w, r, http.StatusOK, page)
	}
	params := url.Values{}
	if l.State != "" {
		params.Set("state", l.State)
	}
	location, err := oauth.AddQuery(l.RedirectURI, params)
	if err != nil {
		return err
	}
	page.Next = template.URL(location) // registered, so neither script nor data
	return h.goOn(w, r, c, page)
}

const (
	// maxFrames caps the applications that a browser tells.
	maxFrames = 20
	// maxClients caps the clients in a session that we look at.
	maxClients = 200
	// frameTime is the time in seconds that a browser has to tell applications before it goes on.
	frameTime = "3"
)

// FrontChannel tells applications in the browser that its user has signed out (OpenID Connect
// Front-Channel Logout 1.0).
type FrontChannel struct {
	Issuer   string
	Clients  *oidc.Store
	Sessions *session.Manager
}

// Frames returns the URLs that a browser must load when its session ends: the front-channel logout URIs
// of clients that got an ID token in it. The session may be nil.
func (f *FrontChannel) Frames(ctx context.Context, s *session.Session) (frames []string, err error) {
	if s == nil {
		return nil, nil
	}
	ids, err := f.Sessions.Clients(ctx, s.ID, maxClients)
	if err != nil {
		return nil, err
	}
	for _, clientID := range ids {
		c, err := f.Clients.Lookup(ctx, clientID)
		if errs.KindOf(err) == errs.NotFound || err == nil && c.FrontchannelLogoutURI == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		frame, err := oauth.AddQuery(*c.FrontchannelLogoutURI, url.Values{"iss": {f.Issuer}, "sid": {s.ID}})
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame)
		if len(frames) == maxFrames {
			break
		}
	}
	return frames, nil
}

// goOn sends the browser to client c's URI after a sign-out: at once, or after it has had time to load
// frames.
func (h *Handler) goOn(w http.ResponseWriter, r *http.Request, c *oidc.Registered, page *pages.SignedOut) error {
	location := string(page.Next)
	if len(page.Frames) == 0 {
		http.Redirect(w, r, location, http.StatusSeeOther)
		return nil
	}
	w.Header().Set("Refresh", frameTime+"; url="+location)
	page.Text = "You return to " + c.Name + " in a few seconds."
	page.NextText = c.Name
	return h.Pages.Render(w, r, http.StatusOK, page)
}
