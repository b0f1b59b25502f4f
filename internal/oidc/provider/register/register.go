// Package register lets clients register themselves (RFC 7591), and then read, change and delete their
// registration (RFC 7592).
//
// POST /register takes a client's metadata from whoever has an initial access token. If that is
// allowed, it also takes them from anybody, for a public client on its user's machine. The response has
// a registration access token, with which the client uses /register/{client_id}. That token stays the
// same as long as the client exists.
//
// A client never registers for our API's scopes unless it names them, and an update adds none. Its
// users decide on its requests, each time, and it never gets more than their role allows.
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
	// Accounts knows the first organization, which owns clients that register without a token.
	Accounts *account.Store

	throttle oauth.Throttle
}

// The error codes in RFC 7591 section 3.2.2.
const (
	invalidRedirectURI = "invalid_redirect_uri"
	invalidMetadata    = "invalid_client_metadata"
)

// writeLimit bounds how often an address registers, changes and deletes clients. Requests with an
// initial access token do not count.
func writeLimit(r *http.Request) oauth.Limit {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	return oauth.Limit{Key: network, Burst: 20, Every: 30 * time.Second}
}

// errTooMany is the response to an address that registers too often.
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
	for _, s := range m.scopes() {
		if !request.grant.Allows(s) {
			return oidc.Enrolled{}, oauth.NewError(invalidMetadata, "scope: expected scopes that the creator of the initial access token has")
		}
	}
	request.Client = m.newClient()
	return h.Clients.Register(r.Context(), request.SelfRegistration)
}

// request is a registration together with its token's grant.
type request struct {
	oidc.SelfRegistration
	grant registration.Grant
}

// authorize returns an empty registration: with a request's initial access token, or without one.
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

// bearer returns a request's token, and whether the request has an Authorization header.
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

// checkCredentials checks that the id and the secret in an update's metadata are the client's (RFC 7592
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

// writeError writes an error response as RFC 7591 defines it: a client's faults are errors in its
// metadata.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	if known, ok := errors.AsType[*oauth.Error](err); ok {
		oauth.WriteError(w, r, known)
		return
	}
	var e *errs.Error
	if !errors.As(err, &e) {
		oauth.WriteError(w, r, err)
		return
	}
	switch e.Kind {
	case errs.Unauthorized, errs.NotFound: // a client that was just deleted has no token any more
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

// Preflight allows scripts from all origins to use the registration endpoint. Wrap it in metadata.CORS.
func Preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
