package signin_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
	"steward/internal/page"
)

// claims are those of an ID token.
type claims map[string]any

// stranger is an OpenID Connect provider whose administrator can make it say anything.
type stranger struct {
	t      *testing.T
	url    string
	signer jose.Signer
	now    func() time.Time

	mu sync.Mutex
	// sendsIssuer is what the discovery document says about RFC 9207.
	sendsIssuer bool
	// said are the claims of the next ID token, which replace the ordinary ones.
	said claims
	// token, if not nil, makes the ID token of its claims.
	token func(payload []byte) string
	// challenge is that of the last authorization request.
	challenge string
	nonce     string
}

var strangerKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newStranger(t *testing.T, f *providertest.Fixture) *stranger {
	t.Helper()
	s := &stranger{t: t, now: f.Clock.Now}
	var err error
	s.signer, err = jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: strangerKey(), KeyID: "k"},
	}, nil)
	providertest.Must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.discovery)
	mux.HandleFunc("GET /jwks", s.jwks)
	mux.HandleFunc("POST /token", s.redeem)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *stranger) send(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (s *stranger) discovery(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(w, map[string]any{
		"issuer": s.url, "authorization_endpoint": s.url + "/authorize", "token_endpoint": s.url + "/token",
		"jwks_uri": s.url + "/jwks", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
		"authorization_response_iss_parameter_supported": s.sendsIssuer,
	})
}

func (s *stranger) jwks(w http.ResponseWriter, _ *http.Request) {
	key := jose.JSONWebKey{Key: strangerKey().Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}
	s.send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
}

// redeem serves the token endpoint. It accepts every code with the secret and the verifier.
func (s *stranger) redeem(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	clientID, secret, _ := r.BasicAuth()
	if base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge || clientID != "steward" || secret != "s3cret" {
		w.WriteHeader(http.StatusBadRequest)
		s.send(w, map[string]string{"error": "invalid_grant"})
		return
	}
	said := claims{
		"iss": s.url, "aud": "steward", "sub": "anna", "nonce": s.nonce, "iat": s.now().Unix(),
		"exp": s.now().Add(time.Hour).Unix(),
	}
	maps.Copy(said, s.said)
	payload, err := json.Marshal(said)
	providertest.Must(s.t, err)
	token := s.sign(payload)
	if s.token != nil {
		token = s.token(payload)
	}
	s.send(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token})
}

func (s *stranger) sign(payload []byte) string {
	signed, err := s.signer.Sign(payload)
	providertest.Must(s.t, err)
	token, err := signed.CompactSerialize()
	providertest.Must(s.t, err)
	return token
}

// say sets the claims of the ID tokens from now on.
func (s *stranger) say(c claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = c
}

// settings returns a request to add the provider.
func (s *stranger) settings() upstream.NewUpstream {
	n := upstream.NewUpstream{Name: "Stranger", Issuer: s.url, ClientID: "steward"}
	n.ClientSecret = page.Some("s3cret")
	return n
}

// welcoming returns a request to add the provider with a default role.
func (s *stranger) welcoming() upstream.NewUpstream {
	n := s.settings()
	n.DefaultRole = page.Some(auth.Member)
	return n
}

// receive takes an authorization request and returns its state.
func (s *stranger) receive(r *providertest.Response) (state string) {
	s.t.Helper()
	location := r.Want(http.StatusSeeOther).Header.Get("Location")
	if !strings.HasPrefix(location, s.url+"/authorize?") {
		s.t.Fatalf("the browser is sent to %s", location)
	}
	query := r.Location()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge = query.Get("code_challenge")
	s.nonce = query.Get("nonce")
	return query.Get("state")
}

// back returns the address to which the provider sends a browser back.
func (s *stranger) back(f *providertest.Fixture, state string, pairs ...string) string {
	query := url.Values{"code": {"c0de"}, "state": {state}}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return f.URL + upstream.PathCallback + "?" + query.Encode()
}

// enter signs in with the link of an upstream and returns the response to coming back.
func (s *stranger) enter(b *providertest.Browser, u upstream.Upstream, pairs ...string) *providertest.Response {
	s.t.Helper()
	state := s.receive(b.Get(b.Fixture.URL + upstream.PathSignIn + "/" + u.ID))
	return b.Get(s.back(b.Fixture, state, pairs...))
}

// wantIn requires that a user is signed in, and returns the user's id.
func wantIn(r *providertest.Response, b *providertest.Browser) (userID string) {
	r.T.Helper()
	r.Want(http.StatusSeeOther)
	return current(b)
}

// current returns the user who is signed in in a browser.
func current(b *providertest.Browser) (userID string) {
	b.Fixture.T.Helper()
	if !b.SignedIn() {
		return ""
	}
	err := b.Fixture.DB.Read(b.Fixture.T.Context()).Row(`SELECT user_id FROM oidc_sessions
		ORDER BY created_at DESC, id DESC LIMIT 1`).Scan(&userID)
	providertest.Must(b.Fixture.T, err)
	return userID
}

// wantRefused requires that an identity is not admitted.
func wantRefused(r *providertest.Response, b *providertest.Browser) {
	r.T.Helper()
	if r.Want(http.StatusForbidden); !strings.Contains(r.Body, "does not open the organization") || b.SignedIn() {
		r.T.Fatalf("the identity was admitted: %s", r.Body)
	}
}

// roleOf returns the role of a user in the fixture's organization, or "".
func roleOf(f *providertest.Fixture, userID string) auth.Role {
	role, err := f.Accounts.Role(f.T.Context(), f.OrgID, userID)
	if err != nil {
		return ""
	}
	return role
}

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// payload returns the claims of a token.
func payload(t *testing.T, token string) (c claims) {
	t.Helper()
	plain, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	providertest.Must(t, err)
	providertest.Must(t, json.Unmarshal(plain, &c))
	return c
}
