package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// newKey returns a private key as JSON, and its public half.
func newKey(t *testing.T, generate func() (crypto.Signer, error)) (private, public string) {
	t.Helper()
	key, err := generate()
	must(t, err)
	encoded := func(k any) string {
		text, err := json.Marshal(jose.JSONWebKey{Key: k, KeyID: "a"})
		must(t, err)
		return string(text)
	}
	return encoded(key), encoded(key.Public())
}

func onCurve(c elliptic.Curve) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return ecdsa.GenerateKey(c, rand.Reader) }
}

func ofBits(bits int) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, bits) }
}

func edwards() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

func keysOf(keys ...string) string { return `"jwks": {"keys": [` + strings.Join(keys, ",") + `]}` }

// with adds settings to a minimal request.
func with(settings ...string) string {
	return minimal[:len(minimal)-1] + ", " + strings.Join(settings, ", ") + "}"
}

const (
	byKey = `"token_endpoint_auth_method": "private_key_jwt"`
	byURI = `"jwks_uri": "https://a.example/jwks"`
)

func TestKeysOfClientsArePublic(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	api := f.api()
	ecPrivate, ec := newKey(t, onCurve(elliptic.P256()))
	rsaPrivate, rsaPublic := newKey(t, ofBits(2048))
	edPrivate, ed := newKey(t, edwards)
	_, p384 := newKey(t, onCurve(elliptic.P384()))
	short := `{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("A", 10) + strings.Repeat("x", 160) + `"}`
	primes := strings.Replace(rsaPublic, "{", `{"p":"AQAB","q":"AQAB",`, 1)
	many := make([]string, 11)
	for i := range many {
		many[i] = ec
	}
	for why, c := range map[string]struct {
		settings string
		at       string // "" if it is valid
	}{
		"all kinds":               {keysOf(ec, rsaPublic, ed), ""},
		"unknown members":         {keysOf(strings.Replace(ec, "{", `{"x-note":[1],"key_ops":["verify"],`, 1)), ""},
		"URI":                     {byURI, ""},
		"URI on this machine":     {`"jwks_uri": "http://127.0.0.1:8080/jwks"`, ""},
		"neither":                 {`"icon": null`, "body.token_endpoint_auth_method"},
		"both":                    {keysOf(ec) + "," + byURI, "body.jwks_uri"},
		"private EC key":          {keysOf(ec, ecPrivate), "body.jwks.keys[1]"},
		"private RSA key":         {keysOf(rsaPrivate), "body.jwks.keys[0]"},
		"private Ed25519 key":     {keysOf(edPrivate), "body.jwks.keys[0]"},
		"primes of a public key":  {keysOf(primes), "body.jwks.keys[0]"},
		"hidden private part":     {keysOf(strings.Replace(ec, "{", `{"d":"AQAB","d":null,`, 1)), "body.jwks.keys[0]"},
		"shared secret":           {keysOf(`{"kty":"oct","k":"c2VjcmV0"}`), "body.jwks.keys[0]"},
		"other curve":             {keysOf(p384), "body.jwks.keys[0]"},
		"short RSA key":           {keysOf(short), "body.jwks.keys[0]"},
		"not on the curve":        {keysOf(`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}`), "body.jwks.keys[0]"},
		"no key":                  {keysOf(`null`), "body.jwks.keys[0]"},
		"no keys":                 {keysOf(), "body.jwks.keys"},
		"many keys":               {keysOf(many...), "body.jwks.keys"},
		"no set":                  {`"jwks": {}`, "body.jwks.keys"},
		"large":                   {keysOf(strings.Replace(ec, "{", `{"x-note":"`+strings.Repeat("x", 16<<10)+`",`, 1)), "body.jwks"},
		"URI without TLS":         {`"jwks_uri": "http://a.example/jwks"`, "body.jwks_uri"},
		"URI with a user":         {`"jwks_uri": "https://a@a.example/jwks"`, "body.jwks_uri"},
		"URI of a file":           {`"jwks_uri": "file:///etc/passwd"`, "body.jwks_uri"},
		"URI with a fragment":     {`"jwks_uri": "https://a.example/#a"`, "body.jwks_uri"},
		"type that does not fit":  {byURI + `, "client_type": "public"`, "body.token_endpoint_auth_method"},
		"keys are not text":       {`"jwks": "x"`, "body.jwks"},
		"keys are not in a list":  {`"jwks": {"keys": {}}`, "body.jwks.keys"},
		"keys with another case":  {`"jwks": {"Keys": []}`, "body.jwks.keys"},
		"the last of two members": {`"jwks": {"keys": [` + ecPrivate + `], "keys": [` + ec + `]}`, ""},
	} {
		status, value, _ := f.call(api, "POST /oidc/clients", with(byKey, c.settings))
		text := fmt.Sprint(value)
		switch {
		case c.at == "" && status != 201 && status != 200:
			t.Errorf("%s: %d %v", why, status, value)
		case c.at != "" && (status != 422 || !strings.Contains(text, "location:"+c.at+" ")):
			t.Errorf("%s: %d %v, want a fault at %s", why, status, value, c.at)
		}
	}
	rows, err := f.DB.Read(t.Context()).Query(`SELECT jwks FROM oidc_clients WHERE jwks LIKE '%"d"%'`)
	must(t, err)
	defer rows.Close()
	if rows.Next() {
		t.Error("a private key was stored")
	}
}

// TestMethodDecidesAboutTheSecret changes the method of a client in all ways, on both databases.
func TestMethodDecidesAboutTheSecret(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		api := f.api()
		_, ec := newKey(t, onCurve(elliptic.P256()))
		_, value, _ := f.call(api, "POST /oidc/clients", with(byKey, keysOf(ec)))
		created := value.(map[string]any)
		if secret, has := created["client_secret"]; !has || secret != "" {
			t.Errorf("the secret of a client with keys is %v", secret)
		}
		path := "/oidc/clients/" + created["client"].(map[string]any)["id"].(string)
		var want any
		must(t, json.Unmarshal([]byte(`{"keys": [`+ec+`]}`), &want))
		for _, step := range []struct {
			patch                 string
			typ, method           string
			secret, jwks, jwksURI bool
		}{
			{`{"name": "b"}`, "confidential", "private_key_jwt", false, true, false},
			{`{` + byKey + `}`, "confidential", "private_key_jwt", false, true, false},
			{`{"client_type": "confidential"}`, "confidential", "private_key_jwt", false, true, false},
			{`{` + byURI + `}`, "confidential", "private_key_jwt", false, false, true},
			{`{` + keysOf(ec) + `}`, "confidential", "private_key_jwt", false, true, false},
			{`{"token_endpoint_auth_method": "client_secret_post"}`, "confidential", "client_secret_post", true, false, false},
			{`{"token_endpoint_auth_method": "client_secret_basic"}`, "confidential", "client_secret_basic", false, false, false},
			{`{` + byKey + `, ` + byURI + `}`, "confidential", "private_key_jwt", false, false, true},
			{`{"client_type": "public"}`, "public", "none", false, false, false},
			{`{"client_type": "confidential"}`, "confidential", "client_secret_basic", true, false, false},
			{`{"token_endpoint_auth_method": "none"}`, "public", "none", false, false, false},
			{`{` + byKey + `, ` + keysOf(ec) + `}`, "confidential", "private_key_jwt", false, true, false},
			{`{"token_endpoint_auth_method": "client_secret_basic"}`, "confidential", "client_secret_basic", true, false, false},
		} {
			status, value, _ := f.call(api, "PUT "+path, step.patch)
			updated, _ := value.(map[string]any)
			secret, _ := updated["client_secret"].(string)
			if status != 200 || (secret != "") != step.secret {
				t.Fatalf("%s: %d %v", step.patch, status, value)
			}
			_, value, _ = f.call(api, "GET "+path, "")
			c := value.(map[string]any)
			_, hasURI := c["jwks_uri"]
			if c["client_type"] != step.typ || c["token_endpoint_auth_method"] != step.method || hasURI != step.jwksURI ||
				step.jwks != cmp.Equal(c["jwks"], want) || step.jwks != (c["jwks"] != nil) {
				t.Errorf("%s: %v", step.patch, c)
			}
			status, _, _ = f.call(api, "POST "+path+"/rotate-secret", "")
			if rotates := status == 200; rotates != strings.HasPrefix(step.method, "client_secret") {
				t.Errorf("%s: rotating the secret: %d", step.patch, status)
			}
		}
		for _, patch := range []string{
			`{` + byURI + `}`, `{` + keysOf(ec) + `}`, `{` + byKey + `}`, `{` + byKey + `, "jwks": null}`,
			`{"token_endpoint_auth_method": null}`, `{"token_endpoint_auth_method": "none", "client_type": "confidential"}`,
		} {
			if status, value, _ := f.call(api, "PUT "+path, patch); status != 422 {
				t.Errorf("%s: %d %v", patch, status, value)
			}
		}
	})
}

// TestKeysNeedTheScopesOfTheClient checks that a caller who is restricted by scopes does not get the tokens of a
// client by giving it a key.
func TestKeysNeedTheScopesOfTheClient(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	c := f.client(Settings{Scopes: some([]string{"openid", "thread:read"})}).Client
	restricted := *f.caller
	restricted.Scopes = []string{"oauth:write"}
	patch := ClientPatch{Settings: Settings{AuthMethod: some(PrivateKeyJWT), JWKSURI: some("https://a.example/jwks")}}
	_, err := f.Update(auth.With(t.Context(), &restricted), &restricted, c.ID, page.IfMatch{}, patch)
	if errs.KindOf(err) != errs.Forbidden {
		t.Errorf("set keys: %v", err)
	}
	_, err = f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, patch)
	must(t, err)
	patch = ClientPatch{Settings: Settings{JWKSURI: some("https://b.example/jwks")}}
	_, err = f.Update(auth.With(t.Context(), &restricted), &restricted, c.ID, page.IfMatch{}, patch)
	if errs.KindOf(err) != errs.Forbidden {
		t.Errorf("change keys: %v", err)
	}
}
