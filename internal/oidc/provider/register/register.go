// Package register lets clients register themselves (RFC 7591), and lets such a client read, change and
// delete its registration (RFC 7592).
//
// POST /register takes a client's metadata from anyone with an initial access token. In loopback mode it
// also lets anybody register a public client on their own machine. The response contains a registration
// access token, which the client presents at /register/{client_id}. That token stays the same for as long
// as the client exists.
//
// A client gets API scopes only if it names them when it registers; an update cannot add any. Its users
// still grant them, each time, and never more than their own role allows.
package register

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/registration"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler serves the registration endpoint.
type Handler struct {
	Now func() time.Time
	// Issuer is the installation's base URL.
	Issuer string
	// Mode is not registration.Off.
	Mode    registration.Mode
	Clients *oidc.Store
	Tokens  *registration.Store
	// Accounts knows the first organization, which owns the clients that register without a token.
	Accounts *account.Store

	throttle oauth.Throttle
}

// The error codes from RFC 7591 section 3.2.2.
const (
	invalidRedirectURI = "invalid_redirect_uri"
	invalidMetadata    = "invalid_client_metadata"
)

// writeLimit bounds how often an address registers, changes and deletes clients. Registrations with an
// initial access token do not count.
func writeLimit(r *http.Request) oauth.Limit {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	return oauth.Limit{Key: network, Burst: 20, Every: 30 * time.Second}
}

// errTooMany answers an address that registers too often.
var errTooMany = &oauth.Error{
	Status: http.StatusTooManyRequests, Code: oauth.Unavailable, Description: "too many registrations; try again later",
}

// Register serves POST /register.
func (h *Handler) Register(w http.ResponseWriter, r *http.Request) {
	enrolled, err := h.register(w, r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	info := h.information(enrolled.Client, enrolled.Token)
	info.setSecret(enrolled.Secret)
	oauth.WriteJSON(w, http.StatusCreated, info)
}

func (h *Handler) register(w http.ResponseWriter, r *http.Request) (oidc.Enrolled, error) {
	limit := writeLimit(r)
	if h.throttle.Take(h.Now(), limit) > 0 {
		return oidc.Enrolled{}, errTooMany
	}
	request, err := h.authorize(r)
	if err != nil {
		return oidc.Enrolled{}, err
	}
	if request.Registration == oidc.WithToken {
		h.throttle.Refund(limit)
	}
	m, err := readMetadata(w, r)
	if err != nil {
		return oidc.Enrolled{}, err
	}
	if err := m.checkScopes(request.grant); err != nil {
		return oidc.Enrolled{}, err
	}
	request.Client = m.newClient()
	return h.Clients.Register(r.Context(), request.SelfRegistration)
}

// request is a registration, and the grant that its token gives.
type request struct {
	oidc.SelfRegistration
	grant registration.Grant
}

// authorize returns a registration that has no client yet. It checks the request's initial access token,
// which loopback mode does not require.
func (h *Handler) authorize(r *http.Request) (request, error) {
	token, sent := bearer(r)
	if !sent && h.Mode == registration.Loopback {
		orgID, _, err := h.Accounts.FirstOrg(r.Context())
		return request{SelfRegistration: oidc.SelfRegistration{OrgID: orgID, Registration: oidc.Anonymous}}, err
	}
	g, err := h.Tokens.Check(r.Context(), token)
	if err != nil {
		return request{}, err
	}
	use := func(tx *db.Tx) error { return h.Tokens.Use(tx, token) }
	return request{oidc.SelfRegistration{OrgID: g.OrgID, Registration: oidc.WithToken, Use: use}, g}, nil
}

// bearer returns a request's token, and reports whether it has an Authorization header.
func bearer(r *http.Request) (token string, sent bool) {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, oauth.Bearer) {
		return "", scheme != ""
	}
	return strings.TrimSpace(value), true
}

// Get serves GET /register/{client_id}.
func (h *Handler) Get(w http.ResponseWriter, r *http.Request) {
	c, token, err := h.client(r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	oauth.WriteJSON(w, http.StatusOK, h.information(c, token))
}

// client returns the client that a request names, with the registration access token that it presents.
func (h *Handler) client(r *http.Request) (c oidc.Client, token string, err error) {
	token, _ = bearer(r)
	c, err = h.Clients.CheckRegistration(r.Context(), r.PathValue("client_id"), token)
	return c, token, err
}

// Update serves PUT /register/{client_id}, which replaces the client's metadata.
func (h *Handler) Update(w http.ResponseWriter, r *http.Request) {
	c, token, err := h.client(r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	updated, err := h.update(w, r, c)
	if err != nil {
		writeError(w, r, err)
		return
	}
	info := h.information(updated.Client, token)
	info.setSecret(updated.ClientSecret)
	oauth.WriteJSON(w, http.StatusOK, info)
}

func (h *Handler) update(w http.ResponseWriter, r *http.Request, c oidc.Client) (oidc.Updated, error) {
	if h.throttle.Take(h.Now(), writeLimit(r)) > 0 {
		return oidc.Updated{}, errTooMany
	}
	m, err := readMetadata(w, r)
	if err != nil {
		return oidc.Updated{}, err
	}
	if err := h.checkCredentials(r.Context(), c, m); err != nil {
		return oidc.Updated{}, err
	}
	ctx := oidc.AsItself(r.Context(), c)
	updated, err := h.Clients.Update(ctx, auth.From(ctx), c.ID, page.IfMatch{}, m.patch())
	if errs.KindOf(err) == errs.Forbidden {
		return oidc.Updated{}, oauth.NewError(invalidMetadata, "scope: an update cannot add scopes of the API")
	}
	return updated, err
}

// checkCredentials checks that the id and secret in an update's metadata are the client's own (RFC 7592
// section 2.2).
func (h *Handler) checkCredentials(ctx context.Context, c oidc.Client, m metadata) error {
	if m.ClientID != c.ID {
		return oauth.NewError(invalidMetadata, "client_id: expected that of the client")
	}
	if m.ClientSecret == "" {
		return nil
	}
	_, err := h.Clients.CheckSecret(ctx, c.ID, m.ClientSecret)
	if errs.KindOf(err) == errs.Unauthorized {
		return oauth.NewError(invalidMetadata, "client_secret: expected that of the client")
	}
	return err
}

// Delete serves DELETE /register/{client_id}.
func (h *Handler) Delete(w http.ResponseWriter, r *http.Request) {
	c, _, err := h.client(r)
	if err == nil {
		err = h.Clients.Delete(oidc.AsItself(r.Context(), c), c.OrgID, c.ID, page.IfMatch{})
	}
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// writeError writes an error response as RFC 7591 defines it: a client's faults become metadata errors.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	var known *oauth.Error
	if errors.As(err, &known) {
		oauth.WriteError(w, r, known)
		return
	}
	var e *errs.Error
	if !errors.As(err, &e) {
		oauth.WriteError(w, r, err)
		return
	}
	switch e.Kind {
	case errs.Unauthorized, errs.NotFound: // a client that was just deleted no longer has a token
		refused := oauth.NewError(oauth.InvalidToken, "the token is invalid")
		oauth.WriteBearerError(w, refused, `Bearer error="invalid_token"`)
	case errs.RateLimited:
		oauth.WriteError(w, r, &oauth.Error{Status: http.StatusTooManyRequests, Code: oauth.Unavailable, Description: e.Message})
	case errs.Invalid:
		oauth.WriteError(w, r, metadataError(e))
	default:
		oauth.WriteError(w, r, err)
	}
}

// Preflight lets scripts from all origins use the registration endpoint. Wrap it in metadata.CORS.
func Preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
