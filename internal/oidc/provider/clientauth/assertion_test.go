package clientauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// signer is a key of a client.
type signer struct {
	t   *testing.T
	alg jose.SignatureAlgorithm
	kid string
	key crypto.Signer
}

func newSigner(t *testing.T, alg jose.SignatureAlgorithm, kid string) *signer {
	t.Helper()
	s := &signer{t: t, alg: alg, kid: kid}
	var err error
	switch alg {
	case jose.ES256:
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	default:
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	providertest.Must(t, err)
	return s
}

// public returns the public key as it is registered.
func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig"}
}

// keySet returns the public keys of signers as JSON.
func keySet(t *testing.T, signers ...*signer) string {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, s := range signers {
		set.Keys = append(set.Keys, s.public())
	}
	text, err := json.Marshal(set)
	providertest.Must(t, err)
	return string(text)
}

// sign signs claims, with the options of the header.
func (s *signer) sign(claims map[string]any, options *jose.SignerOptions) string {
	s.t.Helper()
	with, err := jose.NewSigner(jose.SigningKey{
		Algorithm: s.alg, Key: jose.JSONWebKey{Key: s.key, KeyID: s.kid},
	}, options)
	providertest.Must(s.t, err)
	text, err := jwt.Signed(with).Claims(claims).Serialize()
	providertest.Must(s.t, err)
	return text
}

// keyApp is a client that authenticates with keys.
type keyApp struct {
	*providertest.App
	signer *signer
}

// newKeyApp creates a client with registered keys, or with the URI of them.
func newKeyApp(f *providertest.Fixture, s *signer, keys string) *keyApp {
	f.T.Helper()
	settings := strings.Replace(providertest.Confidential, "{", `{"token_endpoint_auth_method": "private_key_jwt", `+keys+`, `, 1)
	settings = strings.Replace(settings, `"client_credentials"`, `"client_credentials", "urn:ietf:params:oauth:grant-type:device_code"`, 1)
	a := &keyApp{App: f.NewApp(settings), signer: s}
	if a.Secret != "" {
		f.T.Error("a client with keys has got a secret")
	}
	return a
}

// registered returns the setting of the keys of signers.
func registered(t *testing.T, signers ...*signer) string { return `"jwks": ` + keySet(t, signers...) }

// claims returns the claims of a good assertion, with changes; nil removes a claim.
func (a *keyApp) claims(changes map[string]any) map[string]any {
	now := a.Fixture.Clock.Now()
	c := map[string]any{
		"iss": a.ID, "sub": a.ID, "aud": a.Fixture.URL, "jti": id.Secret(22),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// good returns a good assertion.
func (a *keyApp) good() string { return a.signer.sign(a.claims(nil), nil) }

// send sends an assertion to an endpoint.
func (a *keyApp) send(path, assertion string, pairs ...string) *providertest.Response {
	a.Fixture.T.Helper()
	form := map[string][]string{"client_assertion": {assertion}, "client_assertion_type": {assertionType}}
	for i := 0; i < len(pairs); i += 2 {
		form[pairs[i]] = []string{pairs[i+1]}
	}
	return a.Fixture.Browser().Do("POST", a.Fixture.URL+path, form)
}

// token requests a token of the client itself.
func (a *keyApp) token(assertion string) *providertest.Response {
	a.Fixture.T.Helper()
	return a.send("/oauth/token", assertion, "grant_type", "client_credentials")
}

// refused checks that an assertion does not authenticate the client.
func (a *keyApp) refused(why, assertion string) {
	a.Fixture.T.Helper()
	r := a.token(assertion)
	if r.Status != http.StatusUnauthorized || r.JSON()["error"] != oauth.InvalidClient {
		a.Fixture.T.Errorf("%s: %d %s", why, r.Status, r.Body)
	}
}

func TestAssertionsOfAllAlgorithmsAuthenticate(t *testing.T) {
	f := providertest.OnSQLite(t)
	var signers []*signer
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA} {
		signers = append(signers, newSigner(t, alg, string(alg)))
	}
	a := newKeyApp(f, nil, registered(t, signers...))
	for _, s := range signers {
		a.token(s.sign(a.claims(nil), nil)).Want(http.StatusOK)
		without := *s
		without.kid = ""
		a.token(without.sign(a.claims(nil), nil)).Want(http.StatusOK)
	}
	// A key without an id is tried whatever the assertion names.
	unnamed := newSigner(t, jose.ES256, "")
	b := newKeyApp(f, nil, registered(t, unnamed))
	b.token((&signer{t: t, alg: jose.ES256, kid: "x", key: unnamed.key}).sign(b.claims(nil), nil)).Want(http.StatusOK)
	a.signer = signers[2]
	for _, aud := range []any{f.URL, f.URL + "/oauth/token", []string{"https://other.example", f.URL}} {
		a.token(a.signer.sign(a.claims(map[string]any{"aud": aud}), nil)).Want(http.StatusOK)
	}
	// The client id may be sent as well, if it is the same.
	a.send("/oauth/token", a.good(), "grant_type", "client_credentials", "client_id", a.ID).Want(http.StatusOK)
	a.send("/oauth/token", a.good(), "grant_type", "client_credentials", "client_id", oidc.CLIClientID).
		WantRefused(oauth.InvalidRequest)
}

// TestAssertionsWorkAtEveryEndpoint checks all endpoints for clients, each with its own URL as audience.
func TestAssertionsWorkAtEveryEndpoint(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.ES256, "a")
	a := newKeyApp(f, s, registered(t, s))
	at := func(path string, pairs ...string) *providertest.Response {
		assertion := s.sign(a.claims(map[string]any{"aud": f.URL + path}), nil)
		a.send(path, "x"+assertion, pairs...).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		return a.send(path, assertion, pairs...)
	}
	var params []string
	for name, values := range a.Params() {
		params = append(params, name, values[0])
	}
	at("/par", params...).Want(http.StatusCreated)
	at("/device_authorization").Want(http.StatusOK)
	tokens := at("/oauth/token", "grant_type", "authorization_code", "code", a.Code(), "redirect_uri",
		providertest.Callback, "code_verifier", providertest.Verifier).Want(http.StatusOK)
	if r := at("/introspect", "token", tokens.Text("access_token")).Want(http.StatusOK); r.JSON()["active"] != true {
		t.Error(r.Body)
	}
	at("/revoke", "token", tokens.Text("access_token")).Want(http.StatusOK)
	if r := at("/introspect", "token", tokens.Text("access_token")).Want(http.StatusOK); r.JSON()["active"] != false {
		t.Error(r.Body)
	}
	// An assertion for one endpoint is not one for another, but for that of the token endpoint.
	r := a.send("/revoke", s.sign(a.claims(map[string]any{"aud": f.URL + "/par"}), nil), "token", "x")
	r.WantError(http.StatusUnauthorized, oauth.InvalidClient)
	a.send("/par", s.sign(a.claims(map[string]any{"aud": f.URL + "/oauth/token"}), nil), params...).Want(http.StatusCreated)
}

func TestBadAssertionsAreRefused(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := newSigner(t, jose.RS256, "a")
		a := newKeyApp(f, s, registered(t, s))
		ofOther := newSigner(t, jose.RS256, "a")
		other := newKeyApp(f, ofOther, registered(t, ofOther))
		other.token(other.good()).Want(http.StatusOK)
		now := f.Clock.Now()
		for why, changes := range map[string]map[string]any{
			"wrong audience":           {"aud": "https://other.example"},
			"audience with a slash":    {"aud": f.URL + "/"},
			"no audience":              {"aud": nil},
			"wrong issuer":             {"iss": other.ID},
			"no issuer":                {"iss": nil},
			"wrong subject":            {"sub": other.ID},
			"no subject":               {"sub": nil},
			"unknown subject":          {"sub": id.New(id.Client)},
			"expired":                  {"exp": now.Add(-time.Minute).Unix()},
			"no expiry":                {"exp": nil},
			"too far ahead":            {"exp": now.Add(7 * time.Minute).Unix()},
			"expiry of another planet": {"exp": 1e300},
			"issued in the future":     {"iat": now.Add(2 * time.Minute).Unix()},
			"issued long ago":          {"iat": now.Add(-time.Hour).Unix()},
			"not valid yet":            {"nbf": now.Add(2 * time.Minute).Unix()},
			"no jti":                   {"jti": nil},
			"empty jti":                {"jti": ""},
			"long jti":                 {"jti": strings.Repeat("x", 513)},
		} {
			a.refused(why, s.sign(a.claims(changes), nil))
		}
		replayed := a.good()
		a.token(replayed).Want(http.StatusOK)
		a.refused("replay", replayed)
		a.token(a.good()).Want(http.StatusOK)

		unknown := &signer{t: t, alg: s.alg, kid: "unknown", key: s.key}
		a.refused("unknown kid", unknown.sign(a.claims(nil), nil))
		foreign := newSigner(t, jose.RS256, "a")
		a.refused("another key with the same kid", foreign.sign(a.claims(nil), nil))
		a.refused("key of another client", ofOther.sign(a.claims(nil), nil))
		embedded := newSigner(t, jose.ES256, "")
		a.refused("embedded key", embedded.sign(a.claims(nil), &jose.SignerOptions{EmbedJWK: true}))
		a.refused("unsigned", unsigned(t, a.claims(nil)))
		a.refused("unsigned with an empty signature", unsigned(t, a.claims(nil))+"e30")
		a.refused("no JWT", "x.y.z")
		a.refused("large", a.good()+strings.Repeat("A", 10_000))
		wrongAlg := &signer{t: t, alg: jose.RS512, kid: "a", key: s.key}
		a.refused("another algorithm", wrongAlg.sign(a.claims(nil), nil))
		for _, secret := range publicTexts(t, s) {
			a.refused("HMAC with the public key", hmac(t, a.claims(nil), secret))
		}
		for why, member := range map[string]string{"key for encryption": `"use":"enc"`, "key of PS256": `"alg":"PS256"`} {
			text := strings.Replace(keySet(t, s), `"use":"sig"`, member, 1)
			restricted := newKeyApp(f, s, `"jwks": `+text)
			restricted.refused(why, restricted.good())
		}
		// A client with a secret, and a public one, have no keys.
		for _, settings := range []string{providertest.Confidential, providertest.Public} {
			without := &keyApp{App: f.NewApp(settings), signer: s}
			without.refused("client without keys", without.good())
		}
	})
}

// unsigned returns a token with algorithm none.
func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	providertest.Must(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","kid":"a"}`)) + "." + encode(payload) + "."
}

// publicTexts returns a public key in the forms in which it could be taken for a shared secret.
func publicTexts(t *testing.T, s *signer) [][]byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	providertest.Must(t, err)
	return [][]byte{
		der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), []byte(keySet(t, s)),
		s.key.Public().(*rsa.PublicKey).N.Bytes(),
	}
}

func hmac(t *testing.T, claims map[string]any, secret []byte) string {
	t.Helper()
	with, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "a"},
	}, nil)
	providertest.Must(t, err)
	text, err := jwt.Signed(with).Claims(claims).Serialize()
	providertest.Must(t, err)
	return text
}

// TestOneMethodOfAuthentication checks that a client with keys has no other way, and that methods are not
// mixed.
func TestOneMethodOfAuthentication(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.EdDSA, "a")
	before := f.NewApp(providertest.Confidential)
	secret := before.Secret
	before.Update(patchOf(t, `{"token_endpoint_auth_method": "private_key_jwt", `+registered(t, s)+`}`))
	a := &keyApp{App: before, signer: s}
	a.token(a.good()).Want(http.StatusOK)

	a.Post("/oauth/token", "grant_type", "client_credentials").WantError(http.StatusUnauthorized, oauth.InvalidClient)
	post := func(pairs ...string) *providertest.Response {
		return a.send("/oauth/token", a.good(), append(pairs, "grant_type", "client_credentials")...)
	}
	post("client_secret", secret).WantRefused(oauth.InvalidRequest)
	post("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer").WantRefused(oauth.InvalidRequest)
	post("client_assertion_type", "").WantRefused(oauth.InvalidRequest)
	post("client_assertion", "").WantRefused(oauth.InvalidRequest)
	a.PostAs(f.Browser(), "/oauth/token", []string{"client_assertion", a.good(), "client_assertion_type", assertionType}).
		WantRefused(oauth.InvalidRequest)
	inURL := f.URL + "/oauth/token?client_assertion=" + a.good()
	f.Browser().Do("POST", inURL, map[string][]string{"client_id": {a.ID}}).Want(http.StatusBadRequest)
	public := a.WithSecret("")
	public.Post("/oauth/token", "grant_type", "client_credentials").WantError(http.StatusUnauthorized, oauth.InvalidClient)

	_, err := f.Clients.RotateSecret(f.Ctx, &oidc.ClientPath{ID: a.ID})
	if errs.KindOf(err) != errs.Invalid {
		t.Errorf("rotate the secret of a client with keys: %v", err)
	}
	// Another method brings a new secret, and ends the keys.
	back := patchOf(t, `{"token_endpoint_auth_method": "client_secret_post"}`)
	updated, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), a.ID, page.IfMatch{}, back)
	providertest.Must(t, err)
	if updated.ClientSecret == "" || updated.ClientSecret == secret || updated.Client.JWKS != nil {
		t.Errorf("%+v", updated)
	}
	a.refused("client with a secret", a.good())
	a.WithSecret(updated.ClientSecret).Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK)
	a.WithSecret(secret).Post("/oauth/token", "grant_type", "client_credentials").
		WantError(http.StatusUnauthorized, oauth.InvalidClient)
}

func patchOf(t *testing.T, text string) (p oidc.ClientPatch) {
	t.Helper()
	providertest.Must(t, json.Unmarshal([]byte(text), &p))
	return p
}

// TestNewKeysWorkAtOnceOnAnotherReplica changes the keys behind the cache of the provider.
func TestNewKeysWorkAtOnceOnAnotherReplica(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		old, next := newSigner(t, jose.ES256, "a"), newSigner(t, jose.ES256, "a")
		a := newKeyApp(f, old, registered(t, old))
		a.token(a.good()).Want(http.StatusOK)
		// Without an invalidation, as before another replica gets to know of it.
		_, err := f.DB.Exec(t.Context(),
			`UPDATE oidc_clients SET jwks = $2, version = version + 1 WHERE id = $1`, a.ID, keySet(t, next))
		providertest.Must(t, err)
		a.signer = next
		a.token(a.good()).Want(http.StatusOK)
		a.signer = old
		a.refused("key that was removed", a.good())
	})
}

// TestEarlierVersionLeavesNoSecret stores a secret for a client with keys, as an earlier version of the program
// does.
func TestEarlierVersionLeavesNoSecret(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := newSigner(t, jose.ES256, "a")
		a := newKeyApp(f, s, registered(t, s))
		b := f.NewApp(providertest.Confidential)
		_, err := f.DB.Exec(t.Context(), `UPDATE oidc_clients SET version = version + 1,
			secret_hash = (SELECT secret_hash FROM oidc_clients WHERE id = $2) WHERE id = $1`, a.ID, b.ID)
		providertest.Must(t, err)
		a.WithSecret(b.Secret).Post("/oauth/token", "grant_type", "client_credentials").
			WantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.token(a.good()).Want(http.StatusOK)
	})
}
