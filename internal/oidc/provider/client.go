package provider

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"steward/internal/errs"
	"steward/internal/web"
)

// maxForm is the most that a form of the protocol may hold.
const maxForm = 64 << 10

// readForm reads a POST's form from its body alone: a credential in the address is in logs and histories.
func readForm(w http.ResponseWriter, r *http.Request) *fault {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return refuse(invalidRequest, "the body must be application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return refuse(invalidRequest, "the form cannot be read, or is too large")
	}
	return nil
}

// forClients makes a handler of an endpoint that clients use by themselves: they send a form, prove who they are, and get JSON.
func forClients[T any](p *Provider, status int, serve func(*http.Request, *client) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := p.proven(w, r)
		if err != nil {
			sendFault(w, r, err)
			return
		}
		answer, err := serve(r, c)
		if err != nil {
			sendFault(w, r, err)
			return
		}
		sendJSON(w, status, answer)
	}
}

// proven reads a client's form and gives the client, which has proved who it is.
func (p *Provider) proven(w http.ResponseWriter, r *http.Request) (*client, error) {
	if f := readForm(w, r); f != nil {
		return nil, f
	}
	if r.URL.Query().Has("client_secret") {
		return nil, refuse(invalidRequest, "credentials do not belong into the address")
	}
	return p.authenticate(r)
}

// credentials are what a client sent to prove itself.
type credentials struct {
	id, secret string
	// none is true when no secret was sent.
	none bool
}

// authenticate gives the client that sends a request. The answer is the same for one that is unknown and one whose secret is wrong.
func (p *Provider) authenticate(r *http.Request) (*client, error) {
	c, f := presented(r)
	if f != nil {
		return nil, f
	}
	if c.none {
		return p.publicClient(r, c.id)
	}
	found, err := p.Clients.CheckSecret(r.Context(), c.id, c.secret)
	switch errs.KindOf(err) {
	case "":
		web.Request(r.Context()).Who = found.ID
		return found, nil
	case errs.Unauthorized, errs.NotFound, errs.Invalid:
		return nil, badClient()
	}
	return nil, err
}

func (p *Provider) publicClient(r *http.Request, clientID string) (*client, error) {
	found, err := p.Clients.Lookup(r.Context(), clientID)
	if errs.KindOf(err) == errs.NotFound || err == nil && !isPublic(found) {
		return nil, badClient()
	}
	if err == nil {
		web.Request(r.Context()).Who = found.ID
	}
	return found, err
}

// presented reads the credentials: Basic, whose two parts are form-encoded (RFC 6749 section 2.3.1), or the body, and never both.
func presented(r *http.Request) (credentials, *fault) {
	inBody, f := single(r.PostForm, "client_id")
	if f != nil {
		return credentials{}, f
	}
	secret, f := single(r.PostForm, "client_secret")
	if f != nil {
		return credentials{}, f
	}
	if r.Header.Get("Authorization") == "" {
		if inBody == "" {
			return credentials{}, badClient()
		}
		return credentials{id: inBody, secret: secret, none: secret == ""}, nil
	}
	basic, err := basicAuth(r)
	switch {
	case err != nil:
		return credentials{}, badClient()
	case secret != "":
		return credentials{}, refuse(invalidRequest, "use one way of client authentication")
	case inBody != "" && inBody != basic.id:
		return credentials{}, refuse(invalidRequest, "client_id is not the client that authenticates")
	}
	return basic, nil
}

func basicAuth(r *http.Request) (credentials, error) {
	user, password, ok := r.BasicAuth()
	if !ok {
		return credentials{}, errors.New("not Basic")
	}
	clientID, err1 := url.QueryUnescape(user)
	secret, err2 := url.QueryUnescape(password)
	if strings.ContainsRune(clientID, 0) {
		return credentials{}, errors.New("not an id")
	}
	return credentials{id: clientID, secret: secret, none: secret == ""}, errors.Join(err1, err2)
}
