package clientauth_test

import (
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/webhook/send"
)

// TestDocumentWithKeys has a client authenticate with a key that its document publishes.
func TestDocumentWithKeys(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		d := f.NewDocuments(send.Egress{Loopback: true})
		s, thief := newSigner(t, jose.ES256, "a"), newSigner(t, jose.ES256, "a")
		d.Describe(`"token_endpoint_auth_method": "private_key_jwt", ` + registered(t, s) + `, `)
		a := &keyApp{App: d.App(), signer: s}
		a.send("/oauth/token", a.good(), d.Redeem("x")...).WantError(http.StatusUnauthorized, oauth.InvalidClient) // not known yet
		b := f.Browser()
		code := b.Complete(b.Get(d.AuthorizeURL())).Get("code")
		a.Post("/oauth/token", d.Redeem(code)...).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.send("/oauth/token", thief.sign(a.claims(nil), nil), d.Redeem(code)...).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		tokens := a.send("/oauth/token", a.good(), d.Redeem(code)...).Want(http.StatusOK)
		next := a.send("/oauth/token", a.good(), "grant_type", "refresh_token", "refresh_token", tokens.Text("refresh_token")).Want(http.StatusOK)
		for _, token := range []string{next.Text("access_token"), next.Text("refresh_token")} {
			described := a.send("/introspect", a.good(), "token", token).Want(http.StatusOK).JSON()
			if described["active"] != true || described["client_id"] != d.URI {
				t.Errorf("introspection returns %v", described)
			}
		}
	})
}
