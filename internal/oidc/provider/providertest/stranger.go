package providertest

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
	"steward/internal/oidc/upstream"
	"steward/internal/page"
)

// Stranger is an OpenID Connect provider whose administrator can make it say anything.
type Stranger struct {
	t      *testing.T
	URL    string
	signer jose.Signer
	now    func() time.Time

	mu sync.Mutex
	// SendsIssuer is the discovery document's answer on RFC 9207.
	SendsIssuer bool
	// said has the next ID token's claims, which replace the ordinary ones.
	said map[string]any
	// Token, if not nil, makes the ID token from its claims.
	Token func(payload []byte) string
	// challenge comes from the last authorization request.
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

// NewStranger starts a provider that knows the fixture's provider as its client.
func (f *Fixture) NewStranger() *Stranger {
	f.T.Helper()
	s := &Stranger{t: f.T, now: f.Clock.Now}
	var err error
	s.signer, err = jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: strangerKey(), KeyID: "k"},
	}, nil)
	Must(f.T, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.discovery)
	mux.HandleFunc("GET /jwks", s.jwks)
	mux.HandleFunc("POST /token", s.redeem)
	srv := httptest.NewServer(mux)
	f.T.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

func (s *Stranger) send(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (s *Stranger) discovery(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(w, map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"jwks_uri": s.URL + "/jwks", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
		"authorization_response_iss_parameter_supported": s.SendsIssuer,
	})
}

func (s *Stranger) jwks(w http.ResponseWriter, _ *http.Request) {
	key := jose.JSONWebKey{Key: strangerKey().Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}
	s.send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
}

// redeem serves the token endpoint. It accepts every code with the secret and the verifier.
func (s *Stranger) redeem(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	clientID, secret, _ := r.BasicAuth()
	if base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge || clientID != "steward" || secret != "s3cret" {
		w.WriteHeader(http.StatusBadRequest)
		s.send(w, map[string]string{"error": "invalid_grant"})
		return
	}
	said := map[string]any{
		"iss": s.URL, "aud": "steward", "sub": "anna", "nonce": s.nonce, "iat": s.now().Unix(),
		"exp": s.now().Add(time.Hour).Unix(),
	}
	maps.Copy(said, s.said)
	payload, err := json.Marshal(said)
	Must(s.t, err)
	token := s.Sign(payload)
	if s.Token != nil {
		token = s.Token(payload)
	}
	s.send(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token})
}

// Sign returns an ID token with a payload.
func (s *Stranger) Sign(payload []byte) string {
	signed, err := s.signer.Sign(payload)
	Must(s.t, err)
	token, err := signed.CompactSerialize()
	Must(s.t, err)
	return token
}

// Say sets the ID tokens' claims from now on.
func (s *Stranger) Say(claims map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = claims
}

// Settings returns a request to add the provider.
func (s *Stranger) Settings() upstream.NewUpstream {
	n := upstream.NewUpstream{Name: "Stranger", Issuer: s.URL, ClientID: "steward"}
	n.ClientSecret = page.Some("s3cret")
	return n
}

// Welcoming returns a request to add the provider with a default role.
func (s *Stranger) Welcoming() upstream.NewUpstream {
	n := s.Settings()
	n.DefaultRole = page.Some(auth.Member)
	return n
}

// Receive takes an authorization request and returns its state.
func (s *Stranger) Receive(r *Response) (state string) {
	s.t.Helper()
	location := r.Want(http.StatusSeeOther).Header.Get("Location")
	if !strings.HasPrefix(location, s.URL+"/authorize?") {
		s.t.Fatalf("the browser is sent to %s", location)
	}
	query := r.Location()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge = query.Get("code_challenge")
	s.nonce = query.Get("nonce")
	return query.Get("state")
}

// Back returns the URL where the provider sends a browser back.
func (s *Stranger) Back(f *Fixture, state string, pairs ...string) string {
	query := url.Values{"code": {"c0de"}, "state": {state}}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return f.URL + upstream.PathCallback + "?" + query.Encode()
}

// Enter signs in with an upstream's link and returns the response to coming back.
func (s *Stranger) Enter(b *Browser, u upstream.Upstream, pairs ...string) *Response {
	s.t.Helper()
	state := s.Receive(b.Get(b.Fixture.URL + upstream.PathSignIn + "/" + u.ID))
	return b.Get(s.Back(b.Fixture, state, pairs...))
}

// NewUpstream adds a provider to the fixture's organization.
func (f *Fixture) NewUpstream(n upstream.NewUpstream) upstream.Upstream {
	f.T.Helper()
	u, err := f.Provider.Upstreams.Store.Create(f.Ctx, auth.From(f.Ctx), n)
	Must(f.T, err)
	return u
}
