package provider

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	rp "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// A real relying party signs a user in, reads the ID token and userinfo, and refreshes.
func TestRelyingParty(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		discovered, err := rp.NewProvider(t.Context(), h.url)
		must(t, err)
		config := oauth2.Config{
			ClientID: a.id, ClientSecret: a.secret, Endpoint: discovered.Endpoint(), RedirectURL: callback,
			Scopes: []string{"openid", "profile", "email", "offline_access"},
		}
		pkce := oauth2.GenerateVerifier()
		b := h.browser()
		answer := b.through(b.get(config.AuthCodeURL("st", oauth2.S256ChallengeOption(pkce), rp.Nonce("nn"))))
		if answer.Get("state") != "st" || answer.Get("iss") != h.url {
			t.Fatalf("got %v", answer)
		}
		token, err := config.Exchange(t.Context(), answer.Get("code"), oauth2.VerifierOption(pkce))
		must(t, err)
		raw, _ := token.Extra("id_token").(string)
		idToken, err := discovered.Verifier(&rp.Config{ClientID: a.id, Now: h.clock.Now}).Verify(t.Context(), raw)
		must(t, err)
		must(t, idToken.VerifyAccessToken(token.AccessToken))
		if idToken.Subject != h.userID || idToken.Nonce != "nn" {
			t.Fatalf("got subject %s, nonce %s", idToken.Subject, idToken.Nonce)
		}
		info, err := discovered.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		must(t, err)
		if info.Subject != h.userID || info.Email != ownerEmail {
			t.Fatalf("got %+v", info)
		}
		token.Expiry = time.Now().Add(-time.Hour)
		again, err := config.TokenSource(t.Context(), token).Token()
		must(t, err)
		if again.RefreshToken == token.RefreshToken || again.AccessToken == token.AccessToken {
			t.Fatal("the tokens were not turned")
		}
		h.userinfo(again.AccessToken).want(http.StatusOK)
	})
}

// The second sign-in in the same browser asks for nothing; a wider one asks for what is new only.
func TestConsentIsRememberedAndAsksOnlyForWhatIsNew(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		if b.through(b.get(a.authorizeURL("scope", "openid email"))).Get("code") == "" {
			t.Fatal("no code")
		}
		b.get(a.authorizeURL("scope", "openid email")).want(http.StatusSeeOther)
		b.get(a.authorizeURL("scope", "openid", "prompt", "none")).want(http.StatusSeeOther)
		wider := b.get(a.authorizeURL("scope", "openid email profile webhook:read")).want(http.StatusOK)
		if strings.Contains(wider.body, `value="email"`) || !strings.Contains(wider.body, `value="profile" checked`) {
			t.Fatalf("the page does not ask for what is new only: %s", wider.body)
		}
		_, action, values := wider.form()
		values["scope"] = []string{"profile"} // declines webhook:read
		answer := b.through(b.do("POST", h.url+action, values))
		tokens := a.redeem(answer.Get("code")).want(http.StatusOK).json()
		if tokens["scope"] != "openid email profile" {
			t.Fatalf("got scope %v", tokens["scope"])
		}
		all := b.get(a.authorizeURL("scope", "openid email", "prompt", "consent")).want(http.StatusOK)
		if !strings.Contains(all.body, `value="email" checked`) {
			t.Fatal("prompt=consent does not ask again")
		}
	})
}

// What prompt, max_age and id_token_hint ask for is done, and prompt=none never shows a page.
func TestPrompts(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		wantError := func(r *reply, code string) {
			t.Helper()
			u, err := url.Parse(r.want(http.StatusSeeOther).header.Get("Location"))
			must(t, err)
			if got := u.Query(); got.Get("error") != code || got.Get("state") != "xyz" || got.Get("iss") != h.url {
				t.Fatalf("got %v, want %s", got, code)
			}
		}
		wantError(b.get(a.authorizeURL("prompt", "none")), "login_required")
		tokens := a.redeem(b.through(b.get(a.authorizeURL())).Get("code")).want(http.StatusOK).json()
		wantError(b.get(a.authorizeURL("prompt", "none", "scope", "openid webhook:read")), "consent_required")
		wantError(b.get(a.authorizeURL("prompt", "none login")), invalidRequest)
		b.get(a.authorizeURL("prompt", "none", "id_token_hint", tokens["id_token"].(string))).want(http.StatusSeeOther)

		h.clock.add(time.Minute)
		wantError(b.get(a.authorizeURL("prompt", "none", "max_age", "30")), "login_required")
		b.get(a.authorizeURL("max_age", "300")).want(http.StatusSeeOther)
		for _, pairs := range [][]string{{"max_age", "30"}, {"prompt", "login"}, {"max_age", "0"}} {
			page := b.get(a.authorizeURL(pairs...)).want(http.StatusOK)
			if !strings.Contains(page.body, `name="password"`) {
				t.Fatalf("%v shows no sign-in page", pairs)
			}
			if b.through(page).Get("code") == "" {
				t.Fatalf("%v: no code after signing in again", pairs)
			}
			h.clock.add(time.Minute)
		}
		hinted := b.get(a.authorizeURL("prompt", "login", "login_hint", "someone@example.com")).want(http.StatusOK)
		if !strings.Contains(hinted.body, `value="someone@example.com"`) {
			t.Fatal("login_hint is not filled in")
		}
		h.newUser("other@example.com", "another password")
		other := h.browser()
		page := other.get(a.authorizeURL("id_token_hint", tokens["id_token"].(string)))
		answer := other.throughAs(page, "other@example.com", "another password")
		if answer.Get("error") != "login_required" {
			t.Fatalf("another user than the hint's got %v", answer)
		}
	})
}

// The user may decline, which the client is told.
func TestDecliningConsent(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		page := b.follow(b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword)).want(http.StatusOK)
		answer := b.through(b.submit(page, "action", "deny"))
		if answer.Get("error") != accessDenied || answer.Get("code") != "" {
			t.Fatalf("got %v", answer)
		}
	})
}

// client_credentials gives a token without a user, for no more than the client's scopes, and writes nothing.
func TestClientCredentials(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		token := a.post("/oauth/token", "grant_type", "client_credentials", "scope", "webhook:read").want(http.StatusOK)
		if got := token.text("scope"); got != "webhook:read" || token.text("id_token")+token.text("refresh_token") != "" {
			t.Fatalf("got %s", token.body)
		}
		if token.header.Get("Cache-Control") != "no-store" {
			t.Error("the answer may be cached")
		}
		if !a.active(token.text("access_token")) {
			t.Error("the token is not active")
		}
		a.post("/oauth/token", "grant_type", "client_credentials", "scope", "oauth:write").fault(http.StatusBadRequest, invalidScope)
		h.userinfo(token.text("access_token")).fault(http.StatusForbidden, "insufficient_scope")
		var rows int
		must(t, h.db.Read(t.Context()).Row(`SELECT count(*) FROM oidc_grants`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d grants were written", rows)
		}
		a.post("/revoke", "token", token.text("access_token")).want(http.StatusOK)
		if a.active(token.text("access_token")) {
			t.Error("the revoked token is active")
		}
	})
}

// An access token opens the management API with its user's role of today and its own scopes.
func TestBearer(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		token := a.tokens("scope", "openid webhook:read")["access_token"].(string)
		caller, err := h.provider.Caller(t.Context(), token)
		must(t, err)
		if caller.UserID != h.userID || caller.OrgID != h.orgID || caller.Role != "owner" || caller.ClientID != a.id {
			t.Fatalf("got %+v", caller)
		}
		machine := a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
		if _, err := h.provider.Caller(t.Context(), machine); err == nil {
			t.Error("a token without a user became a caller")
		}
		h.newUser("guest@example.com", "guest password")
		b := h.browser()
		guest := a.redeem(b.throughAs(b.get(a.authorizeURL()), "guest@example.com", "guest password").Get("code")).want(http.StatusOK)
		if _, err := h.provider.Caller(t.Context(), guest.text("access_token")); err == nil {
			t.Error("a user who is no member became a caller")
		}
	})
}
