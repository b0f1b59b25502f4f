package providertest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"steward/internal/oidc/registration"
	"steward/internal/webhook/send"
)

// Documents is a web server with a client's document, and a provider that trusts its certificate.
type Documents struct {
	Fixture *Fixture
	// Origin is the server's origin, URI the client_id, and Callback a redirect URI that the document
	// names.
	Origin, URI, Callback string
	// Requests counts the requests.
	Requests atomic.Int64

	serve atomic.Pointer[http.HandlerFunc]
}

// NewDocuments starts a server with the document of a public client.
func (f *Fixture) NewDocuments(egress send.Egress) *Documents {
	f.T.Helper()
	d := &Documents{Fixture: f}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.Requests.Add(1)
		(*d.serve.Load())(w, r)
	}))
	f.T.Cleanup(srv.Close)
	d.Origin, d.URI, d.Callback = srv.URL, srv.URL+"/client.json", srv.URL+"/callback"
	d.Describe("")
	transport := egress.Transport()
	f.T.Cleanup(transport.CloseIdleConnections)
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	transport.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
	p := f.NewProvider()
	p.Registration = registration.ByToken
	p.Egress = transport
	f.Serve(p)
	return d
}

// Handle makes the server answer with a handler from now on.
func (d *Documents) Handle(serve http.HandlerFunc) { d.serve.Store(&serve) }

// Describe publishes the document with more members, such as `"scope": "openid", `, and headers.
func (d *Documents) Describe(more string, headers ...string) {
	d.Publish(fmt.Sprintf(`{%s"client_id": %q, "client_name": "Editor", "redirect_uris": [%q, "http://127.0.0.1/callback"]}`,
		more, d.URI, d.Callback), headers...)
}

// Publish serves a text with headers.
func (d *Documents) Publish(text string, headers ...string) {
	d.Handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		fmt.Fprint(w, text)
	})
}

// App returns the application that the document describes.
func (d *Documents) App() *App { return &App{Fixture: d.Fixture, ID: d.URI} }

// AuthorizeURL returns the address for the application's authorization request.
func (d *Documents) AuthorizeURL(pairs ...string) string {
	return d.App().AuthorizeURL(append([]string{"redirect_uri", d.Callback}, pairs...)...)
}

// Redeem returns the parameters for redeeming a code.
func (d *Documents) Redeem(code string) []string {
	return []string{
		"grant_type", "authorization_code", "code", code, "redirect_uri", d.Callback, "code_verifier", Verifier,
	}
}
