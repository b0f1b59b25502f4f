// Package clientauth owns the authentication of OAuth clients: client_secret_basic and
// client_secret_post for confidential clients, and none for public ones. Besides base packages it
// imports oauth and oidc.
package clientauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// Authenticator authenticates the clients that send requests.
type Authenticator struct {
	Clients *oidc.Store
}

// Handler returns the http.HandlerFunc of an endpoint for clients: they send a form, authenticate, and
// get JSON.
func Handler[T any](
	a *Authenticator, status int, serve func(*http.Request, *oidc.Registered) (T, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := a.Authenticate(w, r)
		if err != nil {
			oauth.WriteError(w, r, err)
			return
		}
		response, err := serve(r, c)
		if err != nil {
			oauth.WriteError(w, r, err)
			return
		}
		oauth.WriteJSON(w, status, response)
	}
}

// Authenticate parses the form of a request into r.PostForm and returns the client that sent it. It
// returns the same error for an unknown client and for a wrong secret.
func (a *Authenticator) Authenticate(w http.ResponseWriter, r *http.Request) (*oidc.Registered, error) {
	if err := oauth.ReadForm(w, r); err != nil {
		return nil, err
	}
	if r.URL.Query().Has("client_secret") { // URLs are logged
		return nil, oauth.NewError(oauth.InvalidRequest, "client_secret must not be in the URL")
	}
	sent, err := readCredentials(r)
	if err != nil {
		return nil, err
	}
	c, err := a.verify(r.Context(), sent)
	if err != nil {
		return nil, err
	}
	if c.Suspended {
		return nil, oauth.ErrClient
	}
	web.Request(r.Context()).Who = c.ID
	return c, nil
}

func (a *Authenticator) verify(ctx context.Context, sent credentials) (*oidc.Registered, error) {
	if sent.secret == "" {
		c, err := a.Clients.Lookup(ctx, sent.id)
		if errs.KindOf(err) == errs.NotFound || err == nil && c.ClientType != oidc.Public {
			return nil, oauth.ErrClient
		}
		return c, err
	}
	c, err := a.Clients.CheckSecret(ctx, sent.id, sent.secret)
	switch errs.KindOf(err) {
	case errs.Unauthorized, errs.NotFound, errs.Invalid:
		return nil, oauth.ErrClient
	}
	return c, err
}

// credentials are what a client sent to authenticate. The secret is empty for a public client.
type credentials struct{ id, secret string }

// readCredentials reads the credentials from the Authorization header or from the form. Both together
// are an error.
func readCredentials(r *http.Request) (credentials, error) {
	var form credentials
	var err error
	if form.id, err = oauth.Param(r.PostForm, "client_id"); err != nil {
		return credentials{}, err
	}
	if form.secret, err = oauth.Param(r.PostForm, "client_secret"); err != nil {
		return credentials{}, err
	}
	if r.Header.Get("Authorization") == "" {
		if form.id == "" {
			return credentials{}, oauth.ErrClient
		}
		return form, nil
	}
	basic, err := basicAuth(r)
	switch {
	case err != nil:
		return credentials{}, oauth.ErrClient
	case form.secret != "":
		return credentials{}, oauth.NewError(oauth.InvalidRequest, "use only one method of client authentication")
	case form.id != "" && form.id != basic.id:
		return credentials{}, oauth.NewError(oauth.InvalidRequest, "client_id is not the client that authenticates")
	}
	return basic, nil
}

// basicAuth reads Basic credentials, which are form-encoded (RFC 6749 section 2.3.1).
func basicAuth(r *http.Request) (credentials, error) {
	user, password, ok := r.BasicAuth()
	if !ok {
		return credentials{}, errors.New("the Authorization header is not Basic")
	}
	clientID, err := url.QueryUnescape(user)
	if err != nil {
		return credentials{}, err
	}
	secret, err := url.QueryUnescape(password)
	if err != nil {
		return credentials{}, err
	}
	if strings.ContainsRune(clientID, 0) {
		return credentials{}, errors.New("the client id contains a NUL")
	}
	return credentials{id: clientID, secret: secret}, nil
}

// Find returns a client that a request names without authentication, for a page.
func Find(ctx context.Context, clients *oidc.Store, clientID string) (*oidc.Registered, error) {
	c, err := clients.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound || err == nil && c.Suspended {
		return nil, &oauth.Error{
			Status: http.StatusBadRequest, Code: oauth.InvalidClient, Description: "this application does not exist",
		}
	}
	return c, err
}
