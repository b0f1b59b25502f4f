package token_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

func TestClientCallsManagementAPIAsItself(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.MachineToken()
		want := &auth.Caller{
			OrgID: f.OrgID, Role: auth.Member, ClientID: a.ID, Scopes: []string{"webhook:read", "webhook:write"},
		}
		check := func() {
			t.Helper()
			caller, err := f.Provider.Caller(t.Context(), token)
			providertest.Must(t, err)
			if diff := cmp.Diff(want, caller); diff != "" {
				t.Error(diff)
			}
		}
		check()
		a.Update(oidc.ClientPatch{Settings: oidc.Settings{ProjectID: page.Some("prj_1")}})
		want.ProjectID = "prj_1"
		check()
		providertest.Must(t, f.Clients.Store.RevokeAll(f.Ctx, f.OrgID, a.ID))
		check() // it has no user
		grants := []string{oidc.AuthorizationCode}
		a.Update(oidc.ClientPatch{Settings: oidc.Settings{GrantTypes: page.Some(grants)}})
		if _, err := f.Provider.Caller(t.Context(), token); errs.KindOf(err) != errs.Unauthorized || a.Active(token) {
			t.Errorf("a token of a client that may not act as itself: %v", err)
		}
	})
}

// TestClientOfADeletedProjectDoesNotActForTheOrganization checks that a client which was confined to a
// project gets no more rights when the project is gone.
func TestClientOfADeletedProjectDoesNotActForTheOrganization(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"project_id": "prj_1",`, 1))
		token := a.MachineToken()
		if caller, err := f.Provider.Caller(t.Context(), token); err != nil || caller.ProjectID != "prj_1" {
			t.Fatalf("got %+v, %v", caller, err)
		}
		providertest.Must(t, f.DB.Write(f.Ctx,
			func(tx *db.Tx) error { return f.Clients.Store.ForgetProject(tx, f.OrgID, "prj_1") }))
		if _, err := f.Provider.Caller(t.Context(), token); errs.KindOf(err) != errs.Unauthorized {
			t.Errorf("its token: %v", err)
		}
		a.Post("/oauth/token", "grant_type", "client_credentials").WantRefused(oauth.UnauthorizedClient)
		a.Tokens() // users can sign in as before
	})
}

// TestTokenForAnotherAudienceIsRefused signs a token as the token endpoint does, for another audience.
func TestTokenForAnotherAudienceIsRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	c, err := f.Clients.Store.Lookup(t.Context(), a.ID)
	providertest.Must(t, err)
	issuer := f.Issuer()
	for audience, want := range map[string]errs.Kind{f.URL: "", "https://api.example.com": errs.Unauthorized} {
		claims := issuer.NewAccess(c, c.ID, []string{"webhook:read"}, "")
		claims.Audience = []string{audience}
		token, err := issuer.SignAccess(t.Context(), claims)
		providertest.Must(t, err)
		if _, err := f.Provider.Caller(t.Context(), token); errs.KindOf(err) != want {
			t.Errorf("a token for %s: %v", audience, err)
		}
	}
}

func TestBoundTokenCallsManagementAPIWithItsProof(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	key, other := f.NewProofMaker(), f.NewProofMaker()
	token := a.PostAs(f.Browser(), "/oauth/token", []string{"grant_type", "client_credentials"},
		"DPoP", key.Proof("1", "POST", f.URL+"/oauth/token", "")).Want(http.StatusOK).Text("access_token")
	uri := f.URL + "/sdk/webhook/list"
	path := "/sdk/webhook/list?limit=1"
	good := key.Ahead(29*time.Second).Proof("2", "GET", uri, token)
	caller, _, err := f.BoundCaller(path, token, good)
	providertest.Must(t, err)
	if caller.ClientID != a.ID || caller.Role != auth.Member {
		t.Errorf("got %+v", caller)
	}
	for name, test := range map[string]struct{ token, proof, challenge string }{
		"used again": {token, good, oauth.InvalidDPoPProof},
		"from the future": {
			token, key.Ahead(32*time.Second).Proof("3", "GET", uri, token),
			oauth.InvalidDPoPProof,
		},
		"of another key": {token, other.Proof("4", "GET", uri, token), oauth.InvalidDPoPProof},
		"for another path": {
			token, key.Proof("5", "GET", f.URL+"/webhook/list", token),
			oauth.InvalidDPoPProof,
		},
		"for another token":   {token, key.Proof("6", "GET", uri, "another"), oauth.InvalidDPoPProof},
		"for another method":  {token, key.Proof("7", "PUT", uri, token), oauth.InvalidDPoPProof},
		"without an ath":      {token, key.Proof("8", "GET", uri, ""), oauth.InvalidDPoPProof},
		"with a Bearer token": {a.MachineToken(), key.Proof("9", "GET", uri, token), "Bearer error"},
	} {
		_, _, err := f.BoundCaller(path, test.token, test.proof)
		providertest.WantChallenge(t, name, err, test.challenge)
	}
	_, err = f.Provider.Caller(t.Context(), token)
	providertest.WantChallenge(t, "as Bearer", err, `DPoP error="invalid_token"`)
	providertest.WantChallenge(t, "as Bearer", err, `algs="ES256 `)
}

// TestAccessTokenCallsManagementAPI checks the caller of the management API: the user of the token
// with the current role, and the scopes of the token.
func TestAccessTokenCallsManagementAPI(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.Tokens("scope", "openid webhook:read")["access_token"].(string)
		caller, err := f.Provider.Caller(t.Context(), token)
		providertest.Must(t, err)
		want := &auth.Caller{
			UserID: f.UserID, OrgID: f.OrgID, Role: auth.Owner, ClientID: a.ID, Scopes: []string{
				"openid", "webhook:read",
			},
		}
		if diff := cmp.Diff(want, caller); diff != "" {
			t.Error(diff)
		}
		f.NewUser("guest@example.com", "guest password")
		b := f.Browser()
		result := b.CompleteAs(b.Get(a.AuthorizeURL()), "guest@example.com", "guest password")
		guest := a.Redeem(result.Get("code")).Want(http.StatusOK)
		if _, err := f.Provider.Caller(t.Context(), guest.Text("access_token")); err == nil {
			t.Error("a user who is not a member became a caller")
		}
	})
}
