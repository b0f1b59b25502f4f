package token_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

const (
	exchangeGrant   = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	apiAudience     = "https://api.example.com"
	otherAudience   = "https://other.example.com"
)

// The settings of clients that exchange tokens: one with an audience, and one without.
const (
	exchangingAPI = `{"grant_types": ["` + exchangeGrant + `"], "audience": "` + apiAudience + `",
		"scopes": ["openid", "profile", "webhook:read"]}`
	exchanging = `{"redirect_uris": ["https://rp.example.com/callback"], "scopes": ["openid", "email", "offline_access", "webhook:read", "webhook:write"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials", "` + exchangeGrant + `"]}`
)

// exchange exchanges a token for another one. Pairs replace parameters, or add some.
func exchange(a *providertest.App, token any, pairs ...string) *providertest.Response {
	a.Fixture.T.Helper()
	return a.Post("/oauth/token", append([]string{
		"grant_type", exchangeGrant, "subject_token", fmt.Sprint(token), "subject_token_type", accessTokenType,
	}, pairs...)...)
}

// exchanged returns the token that another one was exchanged for.
func exchanged(a *providertest.App, token any, pairs ...string) string {
	a.Fixture.T.Helper()
	return exchange(a, token, pairs...).Want(http.StatusOK).Text("access_token")
}

// TestExchangeWithinScopesAndLifetime has an API exchange a token that was issued for it.
func TestExchangeWithinScopesAndLifetime(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app, api := f.NewApp(providertest.Confidential), f.NewApp(exchangingAPI)
		f.NewApp(`{"audience": "` + otherAudience + `"}`)
		tokens := app.Tokens("resource", apiAudience, "scope", "openid profile email webhook:read webhook:write")
		subject := providertest.Claims(t, tokens["access_token"])
		f.Clock.Add(45 * time.Minute)
		f.Observed.Take()
		r := exchange(api, tokens["access_token"], "audience", otherAudience, "requested_token_type", accessTokenType).
			Want(http.StatusOK)
		body := r.JSON()
		if body["issued_token_type"] != accessTokenType || body["token_type"] != "Bearer" ||
			body["expires_in"] != 900.0 || body["scope"] != "openid profile webhook:read" ||
			body["refresh_token"] != nil || body["id_token"] != nil {
			t.Errorf("got %s", r.Body)
		}
		claims := providertest.Claims(t, body["access_token"])
		act, _ := claims["act"].(map[string]any)
		if claims["sub"] != f.UserID || claims["client_id"] != api.ID || act["sub"] != api.ID ||
			claims["exp"] != subject["exp"] || claims["aud"] != otherAudience || claims["jti"] == subject["jti"] ||
			claims["acr"] != subject["acr"] || claims["auth_time"] != subject["auth_time"] {
			t.Errorf("got %v for %v", claims, subject)
		}
		total, users := f.Activity(api.ID)
		if lines := f.Observed.Take(); total != 1 || len(users) != 1 || users[0] != f.UserID || len(lines) != 1 {
			t.Errorf("%d accesses of %v, and %v", total, users, lines)
		}
		described := api.Post("/introspect", "token", r.Text("access_token")).Want(http.StatusOK).JSON()
		if got, _ := described["act"].(map[string]any); described["active"] != true || got["sub"] != api.ID {
			t.Errorf("introspection returns %v", described)
		}
		narrow := exchange(api, tokens["access_token"], "scope", "webhook:read").Want(http.StatusOK)
		if claims := providertest.Claims(t, narrow.Text("access_token")); claims["aud"] != apiAudience || claims["scope"] != "webhook:read" {
			t.Errorf("got %v", claims)
		}
	})
}

// TestExchangedTokensOfAClientItself exchanges a token of client_credentials, and one that was exchanged before.
func TestExchangedTokensOfAClientItself(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(exchanging)
		token := a.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK).Text("access_token")
		for depth := range 4 {
			token = exchanged(a, token, "scope", "webhook:read")
			caller, err := f.Provider.Caller(t.Context(), token)
			providertest.Must(t, err)
			if caller.UserID != "" || caller.ClientID != a.ID || caller.Role != auth.Member || caller.Scopes[0] != "webhook:read" {
				t.Errorf("exchange %d: got %+v", depth, caller)
			}
		}
		exchange(a, token).WantRefused(oauth.InvalidRequest)
		act := providertest.Claims(t, token)["act"].(map[string]any)
		if before, _ := act["act"].(map[string]any); before["sub"] != a.ID {
			t.Errorf("got %v, want the actors of before", act)
		}
	})
}

func TestExchangeIsRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	app, api, other := f.NewApp(providertest.Confidential), f.NewApp(exchangingAPI), f.NewApp(exchanging)
	tokens := app.Tokens("resource", apiAudience, "scope", "openid webhook:read webhook:write")
	forAPI := tokens["access_token"].(string)
	own := other.Tokens("scope", "openid webhook:read")["access_token"].(string)
	refresh := app.Tokens()["refresh_token"]
	for name, c := range map[string]struct {
		response *providertest.Response
		code     string
	}{
		"not enabled":             {exchange(app, forAPI), oauth.UnauthorizedClient},
		"neither to nor for it":   {exchange(other, forAPI), oauth.InvalidRequest},
		"for this server":         {exchange(api, own), oauth.InvalidRequest},
		"not a token":             {exchange(api, "x"), oauth.InvalidRequest},
		"forged":                  {exchange(api, forAPI[:len(forAPI)-4]+"AAAA"), oauth.InvalidRequest},
		"an ID token":             {exchange(api, tokens["id_token"]), oauth.InvalidRequest},
		"a refresh token":         {exchange(api, refresh), oauth.InvalidRequest},
		"no subject token":        {exchange(api, ""), oauth.InvalidRequest},
		"no type":                 {exchange(api, forAPI, "subject_token_type", ""), oauth.InvalidRequest},
		"another type":            {exchange(api, forAPI, "subject_token_type", "urn:ietf:params:oauth:token-type:id_token"), oauth.InvalidRequest},
		"another type requested":  {exchange(api, forAPI, "requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"), oauth.InvalidRequest},
		"an actor":                {exchange(api, forAPI, "actor_token", own, "actor_token_type", accessTokenType), oauth.InvalidRequest},
		"scope beyond the client": {exchange(api, forAPI, "scope", "webhook:write"), oauth.InvalidScope},
		"scope beyond the token":  {exchange(api, forAPI, "scope", "profile"), oauth.InvalidScope},
		"unknown audience":        {exchange(api, forAPI, "audience", "https://unknown.example.com"), oauth.InvalidTarget},
		"two audiences":           {exchange(api, forAPI, "audience", apiAudience, "resource", f.URL), oauth.InvalidTarget},
		"to this server":          {exchange(api, forAPI, "resource", f.URL), oauth.InvalidTarget},
	} {
		t.Run(name, func(t *testing.T) { c.response.WantRefused(c.code) })
	}
	f.Clock.Add(time.Hour)
	exchange(api, forAPI).WantRefused(oauth.InvalidRequest) // it has expired
	var in oidc.NewClient
	in.Name, in.HomepageURL = "Public", "https://rp.example.com"
	in.ClientType, in.GrantTypes = page.Some(oidc.Public), page.Some([]string{exchangeGrant})
	if _, err := f.Clients.Create(f.Ctx, &oidc.CreateRequest{Body: in}); err == nil {
		t.Error("a public client may exchange tokens")
	}
}

// TestExchangeForAUserWhoMayNotUseTheClient has a client that admits no user of the token.
func TestExchangeForAUserWhoMayNotUseTheClient(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.NewApp(providertest.Confidential)
		api := f.NewApp(strings.Replace(exchangingAPI, "{", `{"allowed_user_ids": ["usr_nobody"], `, 1))
		exchange(api, app.Tokens("resource", apiAudience)["access_token"]).WantRefused(oauth.InvalidRequest)
	})
}

// TestExchangedTokenIsRevokedWithItsSubject revokes what an exchanged token is based on, in every way.
func TestExchangedTokenIsRevokedWithItsSubject(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		for name, revoke := range map[string]func(a *providertest.App, tokens map[string]any, token string){
			"the token itself": func(a *providertest.App, _ map[string]any, token string) {
				a.Post("/revoke", "token", token).Want(http.StatusOK)
			},
			"the subject token": func(a *providertest.App, tokens map[string]any, _ string) {
				a.Post("/revoke", "token", tokens["access_token"].(string)).Want(http.StatusOK)
			},
			"the grant": func(a *providertest.App, tokens map[string]any, _ string) {
				a.Post("/revoke", "token", tokens["refresh_token"].(string)).Want(http.StatusOK)
			},
			"the consent": func(a *providertest.App, _ map[string]any, _ string) {
				providertest.Must(t, f.Clients.Store.RevokeUser(f.Ctx, f.OrgID, a.ID, f.UserID))
			},
			"all users": func(a *providertest.App, _ map[string]any, _ string) {
				providertest.Must(t, f.Clients.Store.RevokeAll(f.Ctx, f.OrgID, a.ID))
			},
			"the client": func(a *providertest.App, _ map[string]any, _ string) {
				providertest.Must(t, f.Clients.Store.Delete(f.Ctx, f.OrgID, a.ID, page.IfMatch{}))
			},
			"the grant type": func(a *providertest.App, _ map[string]any, _ string) {
				var patch oidc.ClientPatch
				patch.GrantTypes = page.Some([]string{oidc.AuthorizationCode})
				_, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), a.ID, page.IfMatch{}, patch)
				providertest.Must(t, err)
			},
		} {
			a := f.NewApp(exchanging)
			tokens := a.Tokens("scope", "openid email offline_access webhook:read")
			once := exchanged(a, tokens["access_token"])
			twice := exchanged(a, once)
			for _, token := range []string{once, twice} {
				f.Userinfo(token).Want(http.StatusOK)
				caller, err := f.Provider.Caller(t.Context(), token)
				providertest.Must(t, err)
				if caller.UserID != f.UserID || caller.OrgID != f.OrgID || !a.Active(token) {
					t.Errorf("%s: the token is not valid before: %+v", name, caller)
				}
			}
			revoke(a, tokens, once)
			a.WantInvalid(once, name)
			a.WantInvalid(twice, name+", exchanged twice")
		}
	})
}

// TestExchangeKeepsTheBindingToAKey exchanges a token that is bound to a DPoP key.
func TestExchangeKeepsTheBindingToAKey(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, b := f.NewApp(exchanging), f.Browser()
	key, thief := f.NewProofMaker(), f.NewProofMaker()
	endpoint := f.URL + "/oauth/token"
	code := a.Code("scope", "openid webhook:read")
	bound := a.PostAs(b, "/oauth/token", []string{
		"grant_type", "authorization_code", "code", code, "redirect_uri", providertest.Callback,
		"code_verifier", providertest.Verifier,
	}, "DPoP", key.Proof("1", "POST", endpoint, "")).Want(http.StatusOK).Text("access_token")
	request := []string{"grant_type", exchangeGrant, "subject_token", bound, "subject_token_type", accessTokenType}
	a.PostAs(b, "/oauth/token", request).WantRefused(oauth.InvalidDPoPProof)
	a.PostAs(b, "/oauth/token", request, "DPoP", thief.Proof("2", "POST", endpoint, "")).WantRefused(oauth.InvalidDPoPProof)
	r := a.PostAs(b, "/oauth/token", request, "DPoP", key.Proof("3", "POST", endpoint, "")).Want(http.StatusOK)
	if r.Text("token_type") != "DPoP" {
		t.Errorf("got %s", r.Body)
	}
	token := r.Text("access_token")
	if _, err := f.Provider.Caller(t.Context(), token); err == nil {
		t.Error("a bound token is accepted as Bearer")
	}
	target := f.URL + "/webhook/list"
	if _, _, err := f.BoundCaller(target, token, thief.Proof("4", "GET", target, token)); err == nil {
		t.Error("a proof of another key is accepted")
	}
	_, _, err := f.BoundCaller(target, token, key.Proof("5", "GET", target, token))
	providertest.Must(t, err)
}
