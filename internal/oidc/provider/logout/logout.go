// Package logout owns RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0).
//
// A client that presents an ID token of the signed-in user signs the user out at once. In every other
// case the user is asked first, since any site can send a browser here.
package logout

import (
	"context"
	"errors"
	"fmt"
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

// Handler serves the end-session endpoint.
type Handler struct {
	Clients  *oidc.Store
	Tokens   *jwt.Issuer
	Sessions *session.Manager
	Pages    *pages.Renderer
}

// request is a validated logout request.
type request struct {
	// client is nil if the request names none.
	client *oidc.Registered
	// redirectURI is registered by the client, or empty.
	redirectURI string
	state       string
	// subject is the user of the id_token_hint; empty if there was none.
	subject string
}

// EndSession serves GET and POST /end_session.
func (h *Handler) EndSession(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		if err := oauth.ReadForm(w, r); err != nil {
			return err
		}
		form = r.PostForm
	}
	req, err := h.parse(r.Context(), form)
	if err != nil {
		return err
	}
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil || req.subject == s.UserID {
		return h.finish(w, r, s, req)
	}
	view := &pages.SignOut{Email: user.Email, Query: form.Encode()}
	if req.client != nil {
		view.Client = req.client.Name
	}
	return h.Pages.Render(w, r, http.StatusOK, view)
}

// Confirm serves POST /end_session/confirm, the form of the page that asks the user.
func (h *Handler) Confirm(w http.ResponseWriter, r *http.Request) error {
	form, err := url.ParseQuery(r.PostForm.Get("query"))
	if err != nil {
		return flow.ErrExpired
	}
	req, err := h.parse(r.Context(), form)
	if err != nil {
		return err
	}
	s, err := h.Sessions.Current(r)
	if err != nil {
		return err
	}
	if r.PostForm.Get("action") != "approve" {
		return h.Pages.Message(w, r, http.StatusOK, "You are still signed in", "You can close this page.")
	}
	return h.finish(w, r, s, req)
}

// parse validates a logout request. Its errors are shown on a page: without a redirect URI that the
// client has registered, the browser is redirected nowhere.
func (h *Handler) parse(ctx context.Context, form url.Values) (*request, error) {
	params := map[string]string{}
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		value, err := oauth.Param(form, name)
		if err != nil {
			return nil, err
		}
		params[name] = value
	}
	req := &request{state: params["state"], redirectURI: params["post_logout_redirect_uri"]}
	clientID := params["client_id"]
	if hint := params["id_token_hint"]; hint != "" {
		claims, err := h.verifyHint(ctx, hint, clientID)
		if err != nil {
			return nil, err
		}
		req.subject = claims.Subject
		clientID = claims.Audience[0]
	}
	if clientID != "" {
		c, err := h.Clients.Lookup(ctx, clientID)
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return nil, err
		}
		req.client = c
	}
	if req.redirectURI != "" && (req.client == nil || !req.client.MayRedirectAfterLogout(req.redirectURI)) {
		return nil, oauth.NewError(oauth.InvalidRequest, "post_logout_redirect_uri is not registered for this client")
	}
	return req, nil
}

// verifyHint returns the claims of an ID token, which must be issued to the client if that is named.
func (h *Handler) verifyHint(ctx context.Context, hint, clientID string) (*jwt.IDClaims, error) {
	refused := oauth.NewError(oauth.InvalidRequest, "id_token_hint is not an ID token of this client")
	claims, err := h.Tokens.VerifyIDHint(ctx, hint)
	if errors.Is(err, jwt.ErrInvalid) {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if len(claims.Audience) == 0 || clientID != "" && !slices.Contains(claims.Audience, clientID) {
		return nil, refused
	}
	return claims, nil
}

// finish ends the session, if there is one, and sends the browser back to the client.
func (h *Handler) finish(w http.ResponseWriter, r *http.Request, s *session.Session, req *request) error {
	if err := h.Sessions.End(r.Context(), w, s); err != nil {
		return err
	}
	if req.redirectURI == "" {
		return h.Pages.Message(w, r, http.StatusOK, "You are signed out", "You can close this page.")
	}
	u, err := url.Parse(req.redirectURI)
	if err != nil {
		return fmt.Errorf("parse post_logout_redirect_uri: %w", err)
	}
	if req.state != "" {
		query := u.Query()
		query.Set("state", req.state)
		u.RawQuery = query.Encode()
	}
	http.Redirect(w, r, u.String(), http.StatusSeeOther)
	return nil
}
