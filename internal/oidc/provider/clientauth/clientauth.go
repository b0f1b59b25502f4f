// Package clientauth authenticates OAuth clients: with client_secret_basic, client_secret_post and
// private_key_jwt (RFC 7523) for confidential clients, and none for public ones. It also verifies DPoP
// proofs (RFC 9449), with which a client shows that it holds the key that a token is bound to.
//
// ProofVerifier.Verify checks a proof without a write. Use stores it, so that we accept it once; call it as
// late as possible, after accepting the rest of the request. If the installation demands nonces (WithNonce),
// a proof must also contain one that this server has issued recently.
package clientauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// Authenticator authenticates the clients that send requests.
type Authenticator struct {
	DB      *db.DB
	Now     func() time.Time
	Clients *oidc.Store
	// Issuer is the base URL of the endpoints that assertions are made for.
	Issuer string
	// Keys has the keys that clients publish.
	Keys *Keys
}

// Handler returns the http.HandlerFunc for an endpoint where clients send a form, authenticate, and get
// JSON.
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

// Authenticate parses a request's form into r.PostForm and returns the client that sent it. An unknown
// client and a wrong secret get the same error.
func (a *Authenticator) Authenticate(w http.ResponseWriter, r *http.Request) (*oidc.Registered, error) {
	if err := oauth.ReadForm(w, r); err != nil {
		return nil, err
	}
	for _, name := range []string{"client_secret", "client_assertion"} {
		if r.URL.Query().Has(name) { // URLs are logged
			return nil, oauth.NewError(oauth.InvalidRequest, name+" must not be in the URL")
		}
	}
	sent, err := readCredentials(r)
	if err != nil {
		return nil, err
	}
	c, err := a.verify(r, sent)
	if err != nil {
		return nil, err
	}
	if c.Suspended {
		return nil, oauth.ErrClient
	}
	meta := web.Request(r.Context())
	meta.Who = c.ID
	meta.OrgID = c.OrgID
	return c, nil
}

func (a *Authenticator) verify(r *http.Request, sent credentials) (*oidc.Registered, error) {
	ctx := r.Context()
	if sent.assertion != "" {
		return a.verifyAssertion(r, sent)
	}
	if sent.secret == "" {
		c, err := a.Clients.Lookup(ctx, sent.id)
		if errs.KindOf(err) == errs.NotFound || err == nil && (c.ClientType != oidc.Public || c.ProtocolID() != sent.id) {
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

// credentials are sent by a client to authenticate. A public client has neither a secret nor an
// assertion. With an assertion, the id may be empty.
type credentials struct{ id, secret, assertion string }

var errMethods = oauth.NewError(oauth.InvalidRequest, "use only one method of client authentication")

// readCredentials reads the credentials from the Authorization header or from the form. It refuses both
// together.
func readCredentials(r *http.Request) (credentials, error) {
	form, err := formCredentials(r.PostForm)
	if err != nil {
		return credentials{}, err
	}
	if r.Header.Get("Authorization") == "" {
		if form.id == "" && form.assertion == "" {
			return credentials{}, oauth.ErrClient
		}
		return form, nil
	}
	basic, err := basicAuth(r)
	switch {
	case form.assertion != "":
		return credentials{}, errMethods
	case err != nil:
		return credentials{}, oauth.ErrClient
	case form.secret != "":
		return credentials{}, errMethods
	case form.id != "" && form.id != basic.id:
		return credentials{}, oauth.NewError(oauth.InvalidRequest, "client_id is not the client that authenticates")
	}
	return basic, nil
}

func formCredentials(form url.Values) (sent credentials, err error) {
	var kind string
	for name, field := range map[string]*string{
		"client_id": &sent.id, "client_secret": &sent.secret, "client_assertion": &sent.assertion,
		"client_assertion_type": &kind,
	} {
		if *field, err = oauth.Param(form, name); err != nil {
			return credentials{}, err
		}
	}
	switch {
	case sent.assertion == "" && kind == "":
		return sent, nil
	case sent.assertion == "":
		return credentials{}, oauth.Missing("client_assertion")
	case kind != assertionType:
		return credentials{}, oauth.NewError(oauth.InvalidRequest, "client_assertion_type must be "+assertionType)
	case sent.secret != "":
		return credentials{}, errMethods
	}
	return sent, nil
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

// ErrUnknown tells the user on a page that a client does not exist.
var ErrUnknown = &oauth.Error{
	Status: http.StatusBadRequest, Code: oauth.InvalidClient, Description: "this application does not exist",
}

// Find returns a client that a request names without authentication. Its errors are for a page.
func Find(ctx context.Context, clients *oidc.Store, clientID string) (*oidc.Registered, error) {
	c, err := clients.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound || err == nil && c.Suspended {
		return nil, ErrUnknown
	}
	return c, err
}
