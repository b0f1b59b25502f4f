package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-jose/go-jose/v4"

	"steward/e2e/installation"
)

// TestConsoleAuthenticationOfApps gives an app keys instead of its secret, and a secret again.
func TestConsoleAuthenticationOfApps(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	a := s.NewApplication(object{"redirect_uris": []string{"https://rp.example.com/callback"}})
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	keys := func(key any) string {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: "a"}}})
		s.Must(err)
		return string(text)
	}
	c := signedIn(t, s)
	choose := func(way string) {
		c.Do(chromedp.Click(chromedp.CSS(`input[name="authentication"][value="` + way + `"]`)))
	}
	wantMethod := func(want string) {
		t.Helper()
		stored := s.Call("GET", "/oidc/clients/"+a.ID, nil).Want(200)
		if stored.Text("token_endpoint_auth_method") != want {
			t.Errorf("want %s: %s", want, stored.Body)
		}
	}
	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	choose("jwks")
	c.Fill("jwks", "a key")
	c.See("Enter a JSON object")
	c.Fill("jwks", keys(private))
	c.See("expected a public key")
	c.Fill("jwks", keys(private.Public()))
	c.Press("Save")
	c.See("The app was changed.")
	wantMethod("private_key_jwt")
	c.Clean()

	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	choose("jwks_uri")
	c.Fill("jwks_uri", "http://rp.example.com/jwks")
	c.See("expected an https URL")
	c.Fill("jwks_uri", "https://rp.example.com/jwks")
	c.Press("Save")
	c.See("The app was changed.")
	wantMethod("private_key_jwt")
	c.Clean()
	c.visit("/oauth/clients/" + a.ID + "?tab=connect")
	c.See("PrivateKeyJwt")
	c.visit("/oauth/clients/" + a.ID)
	c.See("confidential, with keys")

	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	choose("secret")
	c.Press("Save")
	c.See("New client secret")
	wantMethod("client_secret_basic")
	c.Clean()
}
