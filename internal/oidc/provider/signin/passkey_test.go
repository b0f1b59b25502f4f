package signin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestPasskeySignsInWithoutNameAndPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		first, key := f.WithPasskey()
		list := first.Get(f.URL + "/account").Body
		if !strings.Contains(list, "<strong>Laptop</strong>") || !strings.Contains(list, "not used yet") {
			t.Error("the account page does not list the passkey")
		}
		app := f.NewApp(providertest.Confidential)
		b := f.Browser()
		page := b.Get(app.AuthorizeURL("scope", "openid"))
		if !strings.Contains(page.Body, `autocomplete="username webauthn"`) {
			t.Error("the email address does not offer passkeys")
		}
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "; script-src "+f.URL+"/passkey.js") {
			t.Errorf("the policy %q does not allow the script, and only that", policy)
		}
		script := b.Get(f.URL + "/passkey.js").Want(http.StatusOK)
		if got := script.Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
			t.Errorf("the script is %s", got)
		}
		b.Do("GET", f.URL+"/passkey.js", nil, "If-None-Match", script.Header.Get("ETag")).Want(http.StatusNotModified)
		consent := b.Follow(b.UsePasskey(page, key).Want(http.StatusSeeOther))
		tokens := app.Redeem(b.Complete(consent).Get("code")).Want(http.StatusOK)
		claims := providertest.Claims(t, tokens.Text("id_token"))
		methods, _ := claims["amr"].([]any)
		if claims["sub"] != f.UserID || claims["acr"] != oauth.LevelPhishingResistant ||
			!slices.Equal(methods, []any{"pop", "user", "mfa"}) {
			t.Errorf("the claims are %v", claims)
		}
		if strings.Contains(b.Get(f.URL+"/account").Body, "not used yet") {
			t.Error("the account page does not say that the passkey was used")
		}
		if !f.Audited("user.passkey") {
			t.Error("the new passkey is not in the audit log")
		}
	})
}

// TestAnswersOfPasskeysAreVerified sends answers with one thing wrong each.
func TestAnswersOfPasskeysAreVerified(t *testing.T) {
	f := providertest.OnSQLite(t)
	_, key := f.WithPasskey()
	stranger := f.NewAuthenticator()
	strangers := f.SignedInStranger()
	strangers.AddPasskey(strangers.Get(f.URL+"/account/passkeys"), stranger).Want(http.StatusOK)

	unregistered := f.NewAuthenticator()
	unregistered.Create(`{"challenge": "", "user": {"id": "AAAA"}}`)
	for what, change := range map[string]func(a *providertest.Authenticator){
		"another origin":           func(a *providertest.Authenticator) { a.Origin = "https://localhost.example.com" },
		"another port":             func(a *providertest.Authenticator) { a.Origin = "http://localhost:1" },
		"another site":             func(a *providertest.Authenticator) { a.RPID = "example.com" },
		"a user not verified":      func(a *providertest.Authenticator) { a.Unverified = true },
		"the user of another":      func(a *providertest.Authenticator) { a.Handle = stranger.Handle },
		"no user":                  func(a *providertest.Authenticator) { a.Handle = nil },
		"a key that is not stored": func(a *providertest.Authenticator) { *a = *unregistered },
	} {
		b, changed := f.Browser(), *key
		change(&changed)
		refused := b.UsePasskey(b.Get(f.URL+"/account"), &changed).Want(http.StatusBadRequest)
		if !strings.Contains(refused.Body, "not accepted") || b.SignedIn() {
			t.Errorf("%s: got %s", what, refused.Body)
		}
	}
	b := f.Browser()
	action, values, options := b.Get(f.URL + "/account").Ceremony()
	_, _, earlier := b.Get(f.URL + "/account").Ceremony()
	for what, credential := range map[string]string{
		"of another challenge": key.Get(earlier), "none": "", "no JSON": "{", "of a creation": key.Create(options),
	} {
		values.Set("credential", credential)
		if b.Do("POST", f.URL+action, values).Want(http.StatusBadRequest); b.SignedIn() {
			t.Errorf("an answer %s was accepted", what)
		}
	}
}

func TestChallengesOfPasskeysAreUsedOnceAndExpire(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		owner, key := f.WithPasskey()
		b := f.Browser()
		action, values, options := b.Get(f.URL + "/account").Ceremony()
		values.Set("credential", key.Get(options))
		b.Do("POST", f.URL+action, values).Want(http.StatusSeeOther)
		b.SignOut()
		again := b.Do("POST", f.URL+action, values).Want(http.StatusBadRequest)
		if !strings.Contains(again.Body, "used already") || b.SignedIn() {
			t.Errorf("an answer was accepted twice: %s", again.Body)
		}

		create, fields, options := owner.Get(f.URL + "/account/passkeys").Ceremony()
		fields.Set("credential", f.NewAuthenticator().Create(options))
		login, late, options := b.Get(f.URL + "/account").Ceremony()
		late.Set("credential", key.Get(options))
		late.Set("challenge", fields.Get("challenge"))
		b.Do("POST", f.URL+login, late).Want(http.StatusBadRequest) // of another ceremony

		login, late, options = b.Get(f.URL + "/account").Ceremony()
		late.Set("credential", key.Get(options))
		f.Clock.Add(10*time.Minute + time.Second)
		expired := b.Do("POST", f.URL+login, late).Want(http.StatusBadRequest)
		if !strings.Contains(expired.Body, "took too long") || b.SignedIn() {
			t.Errorf("an answer was accepted late: %s", expired.Body)
		}
		owner.Do("POST", f.URL+create, fields).Want(http.StatusForbidden) // and so did the sign-in
	})
}

func TestCopiedPasskeyIsRefusedAndRecorded(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := f.WithPasskey()
		copied := *key
		for range 2 {
			b := f.Browser()
			b.UsePasskey(b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		}
		if f.Audited("user.passkey_copy") {
			t.Fatal("a counter that went on was recorded as a copy")
		}
		for range 2 { // the second answer has the counter of the last use
			b := f.Browser()
			refused := b.UsePasskey(b.Get(f.URL+"/account"), &copied).Want(http.StatusBadRequest)
			if !strings.Contains(refused.Body, "a copy of it") || b.SignedIn() {
				t.Errorf("a copy was accepted: %s", refused.Body)
			}
		}
		if !f.Audited("user.passkey_copy") {
			t.Error("the copy is not in the audit log")
		}
	})
}

func TestPasskeysAreNotOfferedWhereBrowsersRefuseThem(t *testing.T) {
	f := providertest.OnSQLite(t) // at an IP address
	b := f.Browser()
	page := b.Get(f.URL + "/account").Want(http.StatusOK)
	if strings.Contains(page.Body, "webauthn") || strings.Contains(page.Body, "<script") ||
		strings.Contains(page.Header.Get("Content-Security-Policy"), "script-src") {
		t.Errorf("the sign-in page offers passkeys: %s", page.Body)
	}
	_, _, values := page.Form()
	b.Do("POST", f.URL+"/sign-in/passkey", values).Want(http.StatusBadRequest)
	account := b.SignIn(page)
	if !strings.Contains(account.Body, "Passkeys need a host name") || strings.Contains(account.Body, "Add a passkey") {
		t.Errorf("the account page does not say why there are no passkeys: %s", account.Body)
	}
	b.Get(f.URL + "/account/passkeys").Want(http.StatusNotFound)
}
