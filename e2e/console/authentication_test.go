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
	c.fill("jwks", "a key")
	c.see("Enter a JSON object")
	c.fill("jwks", keys(private))
	c.see("expected a public key")
	c.fill("jwks", keys(private.Public()))
	c.press("Save")
	c.see("The app was changed.")
	wantMethod("private_key_jwt")
	c.clean()

	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	choose("jwks_uri")
	c.fill("jwks_uri", "http://rp.example.com/jwks")
	c.see("expected an https URL")
	c.fill("jwks_uri", "https://rp.example.com/jwks")
	c.press("Save")
	c.see("The app was changed.")
	wantMethod("private_key_jwt")
	c.clean()
	c.visit("/oauth/clients/" + a.ID + "?tab=connect")
	c.see("PrivateKeyJwt")
	c.visit("/oauth/clients/" + a.ID)
	c.see("confidential, with keys")

	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	choose("secret")
	c.press("Save")
	c.see("New client secret")
	wantMethod("client_secret_basic")
	c.clean()
}
