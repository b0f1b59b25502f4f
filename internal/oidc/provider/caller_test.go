package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/introspect"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/page"
)

// machineToken gets a token of the client itself.
func (a *app) machineToken() string {
	a.f.t.Helper()
	return a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
}

// update changes a client.
func (a *app) update(p oidc.ClientPatch) {
	a.f.t.Helper()
	_, err := a.f.clients.Store.Update(a.f.ctx, auth.From(a.f.ctx), a.id, page.IfMatch{}, p)
	must(a.f.t, err)
}

func TestClientCallsManagementAPIAsItself(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.machineToken()
		want := &auth.Caller{
			OrgID: f.orgID, Role: auth.Member, ClientID: a.id, Scopes: []string{"webhook:read", "webhook:write"},
		}
		check := func() {
			t.Helper()
			caller, err := f.provider.Caller(t.Context(), token)
			must(t, err)
			if diff := cmp.Diff(want, caller); diff != "" {
				t.Error(diff)
			}
		}
		check()
		a.update(oidc.ClientPatch{Settings: oidc.Settings{ProjectID: page.Some("prj_1")}})
		want.ProjectID = "prj_1"
		check()
		must(t, f.clients.Store.RevokeAll(f.ctx, f.orgID, a.id))
		check() // it has no user
		grants := []string{oidc.AuthorizationCode}
		a.update(oidc.ClientPatch{Settings: oidc.Settings{GrantTypes: page.Some(grants)}})
		if _, err := f.provider.Caller(t.Context(), token); errs.KindOf(err) != errs.Unauthorized || a.active(token) {
			t.Errorf("a token of a client that may not act as itself: %v", err)
		}
	})
}

// TestClientOfADeletedProjectDoesNotActForTheOrganization checks that a client which was confined to a
// project gets no more rights when the project is gone.
func TestClientOfADeletedProjectDoesNotActForTheOrganization(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(strings.Replace(confidential, "{", `{"project_id": "prj_1",`, 1))
		token := a.machineToken()
		if caller, err := f.provider.Caller(t.Context(), token); err != nil || caller.ProjectID != "prj_1" {
			t.Fatalf("got %+v, %v", caller, err)
		}
		must(t, f.db.Write(f.ctx, func(tx *db.Tx) error { return f.clients.Store.ForgetProject(tx, f.orgID, "prj_1") }))
		if _, err := f.provider.Caller(t.Context(), token); errs.KindOf(err) != errs.Unauthorized {
			t.Errorf("its token: %v", err)
		}
		a.post("/oauth/token", "grant_type", "client_credentials").wantRefused(oauth.UnauthorizedClient)
		a.tokens() // users can sign in as before
	})
}

// TestTokenForAnotherAudienceIsRefused signs a token as the token endpoint does, for another audience.
func TestTokenForAnotherAudienceIsRefused(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		c, err := f.clients.Store.Lookup(t.Context(), a.id)
		must(t, err)
		for audience, want := range map[string]errs.Kind{f.url: "", "https://api.example.com": errs.Unauthorized} {
			claims := f.provider.token.Tokens.NewAccess(c, c.ID, []string{"webhook:read"}, "")
			claims.Audience = []string{audience}
			token, err := f.provider.token.Tokens.SignAccess(t.Context(), claims)
			must(t, err)
			if _, err := f.provider.Caller(t.Context(), token); errs.KindOf(err) != want {
				t.Errorf("a token for %s: %v", audience, err)
			}
		}
	})
}

// boundCaller presents a token with a proof on the management API.
func boundCaller(h *introspect.Handler, target, token, proof string) (*auth.Caller, http.Header, error) {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("DPoP", proof)
	header := http.Header{}
	caller, err := h.BoundCaller(header, r, token)
	return caller, header, err
}

func TestBoundTokenCallsManagementAPIWithItsProof(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		key, other := newProofMaker(t), newProofMaker(t)
		token := a.postAs(f.browser(), "/oauth/token", []string{"grant_type", "client_credentials"},
			"DPoP", key.proof("1", "POST", f.url+"/oauth/token", "", f.clock.Now())).want(http.StatusOK).text("access_token")
		h := f.provider.introspect
		uri := f.url + "/sdk/webhook/list"
		path := "/sdk/webhook/list?limit=1"
		good := key.proof("2", "GET", uri, token, f.clock.Now().Add(29*time.Second))
		caller, _, err := boundCaller(h, path, token, good)
		must(t, err)
		if caller.ClientID != a.id || caller.Role != auth.Member {
			t.Errorf("got %+v", caller)
		}
		for name, test := range map[string]struct{ token, proof, challenge string }{
			"used again":          {token, good, oauth.InvalidDPoPProof},
			"from the future":     {token, key.proof("3", "GET", uri, token, f.clock.Now().Add(32*time.Second)), oauth.InvalidDPoPProof},
			"of another key":      {token, other.proof("4", "GET", uri, token, f.clock.Now()), oauth.InvalidDPoPProof},
			"for another path":    {token, key.proof("5", "GET", f.url+"/webhook/list", token, f.clock.Now()), oauth.InvalidDPoPProof},
			"for another token":   {token, key.proof("6", "GET", uri, "another", f.clock.Now()), oauth.InvalidDPoPProof},
			"for another method":  {token, key.proof("7", "PUT", uri, token, f.clock.Now()), oauth.InvalidDPoPProof},
			"without an ath":      {token, key.proof("8", "GET", uri, "", f.clock.Now()), oauth.InvalidDPoPProof},
			"with a Bearer token": {a.machineToken(), key.proof("9", "GET", uri, token, f.clock.Now()), "Bearer error"},
		} {
			_, _, err := boundCaller(h, path, test.token, test.proof)
			wantChallenge(t, name, err, test.challenge)
		}
		_, err = f.provider.Caller(t.Context(), token)
		wantChallenge(t, "as Bearer", err, `DPoP error="invalid_token"`)
		wantChallenge(t, "as Bearer", err, `algs="ES256 `)
	})
}

// wantChallenge requires an Unauthorized with a part of a challenge.
func wantChallenge(t *testing.T, what string, err error, part string) {
	t.Helper()
	var e *errs.Error
	if !errors.As(err, &e) || e.Kind != errs.Unauthorized || !strings.Contains(e.Challenge, part) {
		t.Errorf("proof %s: got %#v, want a challenge with %s", what, err, part)
	}
}

func TestWeakRSAKeysAreRefusedInProofs(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		for bits, status := range map[int]int{1024: http.StatusBadRequest, 2048: http.StatusOK} {
			key, err := rsa.GenerateKey(rand.Reader, bits)
			must(t, err)
			proof := (&proofMaker{t, key, jose.RS256, ""}).proof("1", "POST", f.url+"/oauth/token", "", f.clock.Now())
			r := a.postAs(f.browser(), "/oauth/token", []string{"grant_type", "client_credentials"}, "DPoP", proof)
			if r.want(status); status != http.StatusOK {
				r.wantRefused(oauth.InvalidDPoPProof)
			}
		}
	})
}

// TestNonceIsDemanded covers the token endpoint, pushed requests, userinfo and the management API.
func TestNonceIsDemanded(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.provider.proofs.NonceKey = f.provider.token.Grants.Key
		a := f.newApp(confidential)
		key := newProofMaker(t)
		tokenURL := f.url + "/oauth/token"
		machine := func(jti string) *response {
			return a.postAs(f.browser(), "/oauth/token", []string{"grant_type", "client_credentials"},
				"DPoP", key.proof(jti, "POST", tokenURL, "", f.clock.Now()))
		}
		refused := machine("1").wantRefused(oauth.UseDPoPNonce)
		if refused.header.Get("Access-Control-Expose-Headers") != "WWW-Authenticate, DPoP-Nonce" {
			t.Error("scripts cannot read the nonce")
		}
		key.nonce = refused.header.Get("DPoP-Nonce")
		token := machine("2").want(http.StatusOK).text("access_token")

		a.postAs(f.browser(), "/par", nil, "DPoP", (&proofMaker{t, key.key, jose.ES256, "other"}).
			proof("3", "POST", f.url+"/par", "", f.clock.Now())).want(http.StatusBadRequest)
		info := f.browser().do("GET", f.url+"/userinfo", nil, "Authorization", "DPoP "+token,
			"DPoP", (&proofMaker{t, key.key, jose.ES256, "other"}).proof("4", "GET", f.url+"/userinfo", token, f.clock.Now()))
		info.wantError(http.StatusUnauthorized, oauth.UseDPoPNonce)
		if !strings.Contains(info.header.Get("WWW-Authenticate"), `error="use_dpop_nonce"`) || info.header.Get("DPoP-Nonce") == "" {
			t.Errorf("got %v", info.header)
		}

		h := f.provider.introspect
		call := func(jti string) (http.Header, error) {
			_, header, err := boundCaller(h, "/webhook/list", token, key.proof(jti, "GET", f.url+"/webhook/list", token, f.clock.Now()))
			return header, err
		}
		_, err := call("5")
		must(t, err)
		f.clock.add(6 * time.Minute)
		header, err := call("6")
		wantChallenge(t, "with an old nonce", err, oauth.UseDPoPNonce)
		key.nonce = header.Get("DPoP-Nonce")
		f.clock.add(2 * time.Minute) // the next interval
		_, err = call("7")
		must(t, err)
	})
}
