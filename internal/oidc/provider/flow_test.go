package provider

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	rp "github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"steward/internal/auth"
	"steward/internal/oidc/provider/oauth"
)

// TestRelyingPartySignsIn signs in, reads the ID token and userinfo, and refreshes with the
// libraries of a real relying party.
func TestRelyingPartySignsIn(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		discovered, err := rp.NewProvider(t.Context(), f.url)
		must(t, err)
		config := oauth2.Config{
			ClientID: a.id, ClientSecret: a.secret, Endpoint: discovered.Endpoint(), RedirectURL: callback,
			Scopes: []string{"openid", "profile", "email", "offline_access"},
		}
		pkce := oauth2.GenerateVerifier()
		b := f.browser()
		result := b.complete(b.get(config.AuthCodeURL("st", oauth2.S256ChallengeOption(pkce), rp.Nonce("nn"))))
		if result.Get("state") != "st" || result.Get("iss") != f.url {
			t.Fatalf("got %v", result)
		}
		token, err := config.Exchange(t.Context(), result.Get("code"), oauth2.VerifierOption(pkce))
		must(t, err)
		raw, _ := token.Extra("id_token").(string)
		idToken, err := discovered.Verifier(&rp.Config{ClientID: a.id, Now: f.clock.Now}).Verify(t.Context(), raw)
		must(t, err)
		must(t, idToken.VerifyAccessToken(token.AccessToken))
		if idToken.Subject != f.userID || idToken.Nonce != "nn" {
			t.Fatalf("got subject %s, nonce %s", idToken.Subject, idToken.Nonce)
		}
		info, err := discovered.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		must(t, err)
		if info.Subject != f.userID || info.Email != ownerEmail {
			t.Fatalf("got %+v", info)
		}
		token.Expiry = time.Now().Add(-time.Hour)
		again, err := config.TokenSource(t.Context(), token).Token()
		must(t, err)
		if again.RefreshToken == token.RefreshToken || again.AccessToken == token.AccessToken {
			t.Fatal("the tokens were not rotated")
		}
		f.userinfo(again.AccessToken).want(http.StatusOK)
	})
}

func TestConsentIsRememberedAndOnlyNewScopesAreAsked(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		if b.complete(b.get(a.authorizeURL("scope", "openid email"))).Get("code") == "" {
			t.Fatal("no code")
		}
		b.get(a.authorizeURL("scope", "openid email")).want(http.StatusSeeOther)
		b.get(a.authorizeURL("scope", "openid", "prompt", "none")).want(http.StatusSeeOther)
		wider := b.get(a.authorizeURL("scope", "openid email profile webhook:read")).want(http.StatusOK)
		if strings.Contains(wider.body, `value="email"`) || !strings.Contains(wider.body, `value="profile" checked`) {
			t.Fatalf("the page does not ask for the new scopes only: %s", wider.body)
		}
		_, action, values := wider.form()
		values["scope"] = []string{"profile"} // declines webhook:read
		result := b.complete(b.do("POST", f.url+action, values))
		tokens := a.redeem(result.Get("code")).want(http.StatusOK).json()
		if tokens["scope"] != "openid email profile" {
			t.Fatalf("got scope %v", tokens["scope"])
		}
		all := b.get(a.authorizeURL("scope", "openid email", "prompt", "consent")).want(http.StatusOK)
		if !strings.Contains(all.body, `value="email" checked`) {
			t.Fatal("prompt=consent does not ask again")
		}
	})
}

// TestPromptMaxAgeAndHintAreHonoured also checks that prompt=none never shows a page.
func TestPromptMaxAgeAndHintAreHonoured(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		wantRedirect := func(r *response, code string) {
			t.Helper()
			u, err := url.Parse(r.want(http.StatusSeeOther).header.Get("Location"))
			must(t, err)
			if got := u.Query(); got.Get("error") != code || got.Get("state") != "xyz" || got.Get("iss") != f.url {
				t.Fatalf("got %v, want %s", got, code)
			}
		}
		wantRedirect(b.get(a.authorizeURL("prompt", "none")), "login_required")
		tokens := a.redeem(b.complete(b.get(a.authorizeURL())).Get("code")).want(http.StatusOK).json()
		wantRedirect(b.get(a.authorizeURL("prompt", "none", "scope", "openid webhook:read")), "consent_required")
		wantRedirect(b.get(a.authorizeURL("prompt", "none login")), oauth.InvalidRequest)
		b.get(a.authorizeURL("prompt", "none", "id_token_hint", tokens["id_token"].(string))).want(http.StatusSeeOther)

		f.clock.add(time.Minute)
		wantRedirect(b.get(a.authorizeURL("prompt", "none", "max_age", "30")), "login_required")
		b.get(a.authorizeURL("max_age", "300")).want(http.StatusSeeOther)
		for _, pairs := range [][]string{{"max_age", "30"}, {"prompt", "login"}, {"max_age", "0"}} {
			page := b.get(a.authorizeURL(pairs...)).want(http.StatusOK)
			if !strings.Contains(page.body, `name="password"`) {
				t.Fatalf("%v shows no sign-in page", pairs)
			}
			if b.complete(page).Get("code") == "" {
				t.Fatalf("%v: no code after signing in again", pairs)
			}
			f.clock.add(time.Minute)
		}
		hinted := b.get(a.authorizeURL("prompt", "login", "login_hint", "someone@example.com")).want(http.StatusOK)
		if !strings.Contains(hinted.body, `value="someone@example.com"`) {
			t.Fatal("login_hint is not filled in")
		}
		f.newUser("other@example.com", "another password")
		other := f.browser()
		page := other.get(a.authorizeURL("id_token_hint", tokens["id_token"].(string)))
		result := other.completeAs(page, "other@example.com", "another password")
		if result.Get("error") != "login_required" {
			t.Fatalf("a user who is not that of the hint got %v", result)
		}
	})
}

func TestDeclinedConsentIsReportedToTheClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		page := b.signIn(b.get(a.authorizeURL())).want(http.StatusOK)
		result := b.complete(b.submit(page, "action", "deny"))
		if result.Get("error") != oauth.AccessDenied || result.Get("code") != "" {
			t.Fatalf("got %v", result)
		}
	})
}

func TestClientCredentialsTokenHasNoUserAndStoresNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.post("/oauth/token", "grant_type", "client_credentials", "scope", "webhook:read").want(http.StatusOK)
		if got := token.text("scope"); got != "webhook:read" || token.text("id_token")+token.text("refresh_token") != "" {
			t.Fatalf("got %s", token.body)
		}
		if token.header.Get("Cache-Control") != "no-store" {
			t.Error("the response may be cached")
		}
		if !a.active(token.text("access_token")) {
			t.Error("the token is not active")
		}
		a.post("/oauth/token", "grant_type", "client_credentials", "scope", "oauth:write").wantRefused(oauth.InvalidScope)
		f.userinfo(token.text("access_token")).wantError(http.StatusForbidden, "insufficient_scope")
		var rows int
		must(t, f.db.Read(t.Context()).Row(`SELECT count(*) FROM oidc_grants`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d grants were stored", rows)
		}
		a.post("/revoke", "token", token.text("access_token")).want(http.StatusOK)
		if a.active(token.text("access_token")) {
			t.Error("the revoked token is active")
		}
	})
}

// TestAccessTokenCallsManagementAPI checks the caller of the management API: the user of the token
// with the current role, and the scopes of the token.
func TestAccessTokenCallsManagementAPI(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.tokens("scope", "openid webhook:read")["access_token"].(string)
		caller, err := f.provider.Caller(t.Context(), token)
		must(t, err)
		want := &auth.Caller{
			UserID: f.userID, OrgID: f.orgID, Role: auth.Owner, ClientID: a.id, Scopes: []string{"openid", "webhook:read"},
		}
		if diff := cmp.Diff(want, caller); diff != "" {
			t.Error(diff)
		}
		f.newUser("guest@example.com", "guest password")
		b := f.browser()
		result := b.completeAs(b.get(a.authorizeURL()), "guest@example.com", "guest password")
		guest := a.redeem(result.Get("code")).want(http.StatusOK)
		if _, err := f.provider.Caller(t.Context(), guest.text("access_token")); err == nil {
			t.Error("a user who is not a member became a caller")
		}
	})
}
