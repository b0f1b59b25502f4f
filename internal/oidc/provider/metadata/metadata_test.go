package metadata_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/providertest"
)

func TestCORSIsAllowedForEndpointsAndNotForPages(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	for _, path := range []string{
		"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/jwks", "/oauth/token",
		"/userinfo", "/revoke", "/.well-known/oauth-protected-resource",
	} {
		r := b.Do("OPTIONS", f.URL+path, nil, "Origin", "https://spa.example.com",
			"Access-Control-Request-Method", "POST")
		r.Want(http.StatusNoContent)
		if r.Header.Get("Access-Control-Allow-Origin") != "*" ||
			r.Header.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "DPoP") {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
	if r := b.Get(f.URL + "/authorize"); r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("CORS is allowed for a page")
	}
	set := b.Get(f.URL + "/jwks").Want(http.StatusOK)
	if set.Header.Get("Cache-Control") != "public, max-age=45" || strings.Contains(set.Body, `"d":`) {
		t.Errorf("%v %s", set.Header, set.Body)
	}
	if r := b.Get(f.URL + "/userinfo").Want(http.StatusUnauthorized); r.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("got %v", r.Header)
	}
}

// TestKeysArePublishedBeforeTheySign rotates keys while a relying party caches the key set for as
// long as it may. A token must name a key of the cached set, even if a replica served it that
// learned of the new key late.
func TestKeysArePublishedBeforeTheySign(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		cached := f.Browser().Get(f.URL + "/jwks").Want(http.StatusOK)
		age, err := time.ParseDuration(strings.TrimPrefix(cached.Header.Get("Cache-Control"),
			"public, max-age=") + "s")
		providertest.Must(t, err)
		if age > keys.PublishTime-5*time.Second {
			t.Errorf("the set may be cached for %s, and a key signs after %s", age, keys.PublishTime)
		}
		a := f.NewApp(providertest.Confidential)
		seen := map[any]bool{}
		for range 6 {
			token := a.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK).Text("access_token")
			kid := providertest.Header(t, token)["kid"]
			if !strings.Contains(cached.Body, kid.(string)) {
				t.Errorf("a token names %s, which the cached set lacks", kid)
			}
			seen[kid] = true
			cached = f.Browser().Get(f.URL + "/jwks")
			f.Clock.Add(age)
			if _, err := f.Keys.Rotate(f.Ctx); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) < 4 {
			t.Errorf("%d keys signed", len(seen))
		}
	})
}

func TestDiscoveryDocument(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	one := b.Get(f.URL + "/.well-known/openid-configuration").Want(http.StatusOK).JSON()
	if two := b.Get(f.URL + "/.well-known/oauth-authorization-server").Want(http.StatusOK).JSON(); len(two) != len(one) {
		t.Error("the two documents differ")
	}
	paths := map[string]string{
		"authorization_endpoint": "/authorize", "token_endpoint": "/oauth/token",
		"userinfo_endpoint": "/userinfo", "jwks_uri": "/jwks",
		"introspection_endpoint": "/introspect", "revocation_endpoint": "/revoke", "end_session_endpoint": "/end_session",
		"pushed_authorization_request_endpoint": "/par", "device_authorization_endpoint": "/device_authorization",
	}
	for name := range paths {
		if one[name] != f.URL+paths[name] {
			t.Errorf("%s is %v", name, one[name])
		}
	}
	for name, want := range map[string]string{
		"issuer": `"` + f.URL + `"`, "response_types_supported": `["code"]`, "code_challenge_methods_supported": `["S256"]`,
		"id_token_signing_alg_values_supported": `["RS256"]`, "authorization_response_iss_parameter_supported": `true`,
		"grant_types_supported": `["authorization_code","refresh_token","client_credentials",` +
			`"urn:ietf:params:oauth:grant-type:device_code","urn:ietf:params:oauth:grant-type:token-exchange"]`,
		"backchannel_logout_supported": `true`, "backchannel_logout_session_supported": `true`,
		"frontchannel_logout_supported": `true`, "frontchannel_logout_session_supported": `true`,
	} {
		if got, _ := json.Marshal(one[name]); string(got) != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}
