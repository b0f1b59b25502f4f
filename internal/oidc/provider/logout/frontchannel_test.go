package logout_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

// frontChannelApp returns an application whose client has a front-channel logout URI.
func frontChannelApp(f *providertest.Fixture, uri string) *providertest.App {
	f.T.Helper()
	return f.NewApp(strings.Replace(providertest.Confidential, "{", `{"frontchannel_logout_uri": "`+uri+`", `, 1))
}

// signInAgain signs the owner in at an application in a browser and returns the tokens.
func signInAgain(b *providertest.Browser, a *providertest.App) *providertest.Response {
	b.Fixture.T.Helper()
	code := b.Complete(b.Get(a.AuthorizeURL("scope", "openid"))).Get("code")
	return a.Redeem(code).Want(http.StatusOK)
}

// wantFrames requires that a page says that the user is signed out, and loads frames of two applications.
func wantFrames(t *testing.T, f *providertest.Fixture, page *providertest.Response, sid string) {
	t.Helper()
	page.Want(http.StatusOK)
	query := strings.ReplaceAll(url.Values{"iss": {f.URL}, "sid": {sid}}.Encode(), "&", "&amp;")
	for _, frame := range []string{"https://one.example.com/bye?x=1&amp;" + query, "http://localhost:8123/bye?" + query} {
		if !strings.Contains(page.Body, `src="`+frame+`"`) {
			t.Errorf("the page does not load %s: %s", frame, page.Body)
		}
	}
	if !strings.HasSuffix(page.Header.Get("Content-Security-Policy"), "; frame-src http://localhost:8123 https://one.example.com") {
		t.Errorf("got policy %s", page.Header.Get("Content-Security-Policy"))
	}
}

// TestSignOutLoadsTheFrontChannelOfItsSession signs out by a request of an application and on the account page.
func TestSignOutLoadsTheFrontChannelOfItsSession(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		one := frontChannelApp(f, "https://one.example.com/bye?x=1")
		two := frontChannelApp(f, "http://localhost:8123/bye")
		frontChannelApp(f, "https://unused.example.com/bye")
		plain, b := f.NewApp(providertest.Confidential), f.Browser()
		signIn := func() (tokens *providertest.Response, sid string) {
			for _, a := range []*providertest.App{plain, one, two} {
				tokens = signInAgain(b, a)
			}
			return tokens, providertest.Claims(t, tokens.Text("id_token"))["sid"].(string)
		}
		tokens, sid := signIn()
		page := b.LogOut("id_token_hint", tokens.Text("id_token"), "post_logout_redirect_uri", providertest.Bye, "state", "s")
		wantFrames(t, f, page, sid)
		if got := page.Header.Get("Refresh"); got != "3; url="+providertest.Bye+"?state=s" ||
			!strings.Contains(page.Body, `href="`+providertest.Bye+`?state=s"`) {
			t.Errorf("got refresh %q: %s", got, page.Body)
		}
		_, sid = signIn()
		page = b.Submit(b.LogOut())
		wantFrames(t, f, page, sid)
		if page.Header.Get("Refresh") != "" {
			t.Error("the browser leaves the page")
		}
		for path, session := range map[string]string{"/account/sessions": "current", "/account/sign-out": ""} {
			_, sid = signIn()
			_, _, form := b.Get(f.URL + "/account").Form()
			form.Set("session", sid)
			if session == "" {
				form.Del("session")
			}
			wantFrames(t, f, b.Do("POST", f.URL+path, form), sid)
		}
		// Without such an application nothing changes.
		tokens = signInAgain(b, plain)
		b.LogOut("id_token_hint", tokens.Text("id_token"), "post_logout_redirect_uri", providertest.Bye).Want(http.StatusSeeOther)
	})
}

func TestFramesAreBounded(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	for i := range 22 {
		signInAgain(b, frontChannelApp(f, fmt.Sprintf("https://app%d.example.com/bye", i)))
	}
	page := b.Submit(b.LogOut()).Want(http.StatusOK)
	if n := strings.Count(page.Body, "<iframe"); n != 20 {
		t.Errorf("the page has %d frames, want 20", n)
	}
}
