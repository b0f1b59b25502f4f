package signin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
)

const stalePage = "/account/passkeys"

// TestPasswordDoesNotRenewTheSessionOfAPasskey has somebody who knows the password find a browser in which the
// user signed in with a passkey. It is neither asked for nor enough.
func TestPasswordDoesNotRenewTheSessionOfAPasskey(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := f.WithPasskey()
		b := f.Browser()
		b.UsePasskey(b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		f.Clock.Add(11 * time.Minute)
		again := b.Get(f.URL + stalePage).Want(http.StatusForbidden)
		if strings.Contains(again.Body, `name="password"`) || strings.Contains(again.Body, "with your password") {
			t.Errorf("the page asks for a password: %s", again.Body)
		}
		_, form, _ := again.Ceremony()
		form.Set("email", providertest.OwnerEmail)
		form.Set("password", providertest.OwnerPassword)
		for range 2 { // with the form of the page, and with one that nobody was asked for
			refused := b.Do("POST", f.URL+oauth.PathSignIn, form).Want(http.StatusForbidden)
			if !strings.Contains(refused.Body, "A passkey is required") {
				t.Errorf("got %s", refused.Body)
			}
			b.Get(f.URL + stalePage).Want(http.StatusForbidden)
			_, _, fresh := f.Browser().Get(f.URL + "/account").Form()
			form.Set("flow", fresh.Get("flow"))
		}
		b.UsePasskey(b.Get(f.URL+stalePage), key).Want(http.StatusSeeOther)
		b.Get(f.URL + stalePage).Want(http.StatusOK)
	})
}

// TestCodeAloneRenewsNoSession signs a user in again who has an authenticator app: the password comes first, and
// is not enough.
func TestCodeAloneRenewsNoSession(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	app := f.OwnersApp()
	b := f.Browser()
	f.Clock.Add(time.Minute)
	b.Submit(b.SignIn(b.Get(f.URL+"/account")), "code", app.Code())
	f.Clock.Add(11 * time.Minute)
	again := b.Get(f.URL + stalePage).Want(http.StatusForbidden)
	_, _, form := again.Form()
	form.Set("code", app.Code())
	b.Do("POST", f.URL+oauth.PathSignInFactor, form).Want(http.StatusBadRequest)
	b.Get(f.URL + stalePage).Want(http.StatusForbidden)
	code := b.Submit(again, "password", providertest.OwnerPassword)
	if !code.IsCode() {
		t.Fatalf("the password alone: %d %s", code.Status, code.Body)
	}
	b.Get(f.URL + stalePage).Want(http.StatusForbidden)
	b.Submit(code, "code", app.Code()).Want(http.StatusSeeOther)
	b.Get(f.URL + stalePage).Want(http.StatusOK)
}

// TestProviderRenewsItsSession signs a user in again who has nothing but the provider.
func TestProviderRenewsItsSession(t *testing.T) {
	f := providertest.OnSQLite(t)
	there := f.NewStranger()
	u := f.NewUpstream(there.Welcoming())
	b := f.Browser()
	b.WantIn(there.Enter(b, u))
	at, err := url.Parse(f.URL)
	providertest.Must(t, err)
	page := func() *providertest.Response {
		r := httptest.NewRequest("GET", "/console/sign-in?recent=1", nil)
		for _, c := range b.HTTP.Jar.Cookies(at) {
			r.AddCookie(c)
		}
		rec := httptest.NewRecorder()
		f.Provider.RequireSignIn(func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusNoContent)
		}).ServeHTTP(rec, r)
		return &providertest.Response{T: t, Status: rec.Code, Body: rec.Body.String()}
	}
	f.Clock.Add(11 * time.Minute)
	again := page().Want(http.StatusOK)
	if strings.Contains(again.Body, `name="password"`) || strings.Contains(again.Body, `id="passkey"`) {
		t.Errorf("the page asks for what the user does not have: %s", again.Body)
	}
	_, _, form := again.Form()
	if form.Get("upstream") != u.ID {
		t.Fatalf("the page does not lead to the provider: %s", again.Body)
	}
	_, _, own := b.Get(f.URL + "/account").Form()
	form.Set("csrf", own.Get("csrf"))
	left := b.Do("POST", f.URL+upstream.PathSignIn, form)
	there.Say(map[string]any{"auth_time": f.Clock.Now().Unix()})
	if got := b.Get(there.Back(f, there.Receive(left))).Want(http.StatusSeeOther).Header.Get("Location"); got != "/console/sign-in?recent=1" {
		t.Errorf("the sign-in leads to %s", got)
	}
	page().Want(http.StatusNoContent)
}
