package provider

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	paging "steward/internal/page"
)

const bye = "https://rp.example.com/bye"

// endSession returns a logout request.
func endSession(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

func (b *browser) logOut(pairs ...string) *response {
	b.f.t.Helper()
	return b.get(b.f.url + "/end_session?" + endSession(pairs...).Encode())
}

// signedInAt signs the owner in at an application in a new browser and returns the ID token.
func (f *fixture) signedInAt(a *app) (b *browser, tokens *response) {
	f.t.Helper()
	b = f.browser()
	result := b.complete(b.get(a.authorizeURL("scope", "openid")))
	return b, a.redeem(result.Get("code")).want(http.StatusOK)
}

// asksToSignOut reports whether a page asks for confirmation.
func (r *response) asksToSignOut() bool {
	return r.status == http.StatusOK && strings.Contains(r.body, `action="/end_session/confirm"`)
}

func (r *response) saysSignedOut() bool {
	return r.status == http.StatusOK && strings.Contains(r.body, "You are signed out")
}

func TestLogoutWithAHintOfTheUserIsImmediate(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b, tokens := f.signedInAt(a)
		f.clock.add(3 * time.Hour) // the ID token has expired, which does not matter
		r := b.logOut("id_token_hint", tokens.text("id_token"), "post_logout_redirect_uri", bye, "state", "s &1")
		if got := r.want(http.StatusSeeOther).header.Get("Location"); got != bye+"?state=s+%261" {
			t.Errorf("got %s", got)
		}
		if b.signedIn() {
			t.Error("the user is still signed in")
		}
		// Without offline access the refresh token ends with the session.
		a.refresh(tokens.text("refresh_token")).wantRefused(oauth.InvalidGrant)
		// Nobody is signed in any more, so there is nothing to ask.
		r = b.logOut("id_token_hint", tokens.text("id_token"), "post_logout_redirect_uri", bye)
		if got := r.want(http.StatusSeeOther).header.Get("Location"); got != bye {
			t.Errorf("got %s", got)
		}
	})
}

// TestLogoutWithoutAUsableHintAsks covers hints that cannot be verified, and requests without a client.
func TestLogoutWithoutAUsableHintAsks(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, other := f.newApp(confidential), f.newApp(confidential)
		b, tokens := f.signedInAt(a)
		hint := tokens.text("id_token")
		f.newUser("other@example.com", "another password")
		elsewhere := f.browser()
		result := elsewhere.completeAs(elsewhere.get(a.authorizeURL()), "other@example.com", "another password")
		ofOther := a.redeem(result.Get("code")).want(http.StatusOK).text("id_token")
		for name, c := range map[string]struct {
			request []string
			// follows says whether the browser goes to the client afterwards.
			follows bool
		}{
			"nothing":              {nil, false},
			"no client":            {[]string{"post_logout_redirect_uri", bye, "state", "s"}, false},
			"unknown client":       {[]string{"client_id", "oac_x", "post_logout_redirect_uri", bye}, false},
			"client":               {[]string{"client_id", a.id, "post_logout_redirect_uri", bye}, true},
			"broken hint":          {[]string{"id_token_hint", hint + "x", "post_logout_redirect_uri", bye}, false},
			"broken, with client":  {[]string{"id_token_hint", "x", "client_id", a.id, "post_logout_redirect_uri", bye}, true},
			"access token as hint": {[]string{"id_token_hint", tokens.text("access_token")}, false},
			"hint of another app": {
				[]string{"id_token_hint", hint, "client_id", other.id, "post_logout_redirect_uri", bye}, false,
			},
			"hint of another user": {[]string{"id_token_hint", ofOther, "post_logout_redirect_uri", bye}, true},
		} {
			for _, method := range []string{"GET", "POST"} {
				page := b.logOut(c.request...)
				if method == "POST" {
					page = b.follow(b.do("POST", f.url+"/end_session", endSession(c.request...)))
				}
				if !page.asksToSignOut() || strings.Contains(page.body, hint) {
					t.Errorf("%s %s: %d %s", method, name, page.status, page.body)
					continue
				}
				b.submit(page, "action", "deny").want(http.StatusOK)
				if !b.signedIn() {
					t.Fatalf("%s %s: the user was signed out without having agreed", method, name)
				}
				done := b.submit(page)
				if c.follows && !strings.HasPrefix(done.header.Get("Location"), bye) || !c.follows && !done.saysSignedOut() {
					t.Errorf("%s %s: %d %s", method, name, done.status, done.header.Get("Location"))
				}
				if b.signedIn() {
					t.Errorf("%s %s: the user is still signed in", method, name)
				}
				b.complete(b.get(a.authorizeURL("scope", "openid")))
			}
		}
		b.get(f.url + "/end_session?state=1&state=2").want(http.StatusBadRequest)
		b.logOut("state", strings.Repeat("x", 3000)).want(http.StatusBadRequest)
		b.get(f.url + "/end_session/continue?flow=x").want(http.StatusBadRequest)
	})
}

func TestUnregisteredRedirectAfterLogoutIsNotFollowed(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b, tokens := f.signedInAt(a)
		for _, uri := range []string{
			"https://evil.example.com/", "https://rp.example.com/bye/", "https://rp.example.com/bye#x",
			"https://rp.example.com/bye?x", "//rp.example.com/bye", "javascript:alert(1)", "/account",
		} {
			page := b.logOut("id_token_hint", tokens.text("id_token"), "post_logout_redirect_uri", uri)
			if !page.asksToSignOut() {
				t.Errorf("%s: %d %s", uri, page.status, page.body)
			}
			if done := b.submit(page); !done.saysSignedOut() || done.header.Get("Location") != "" {
				t.Errorf("%s: %d %s", uri, done.status, done.header.Get("Location"))
			}
			if r := b.logOut("client_id", a.id, "post_logout_redirect_uri", uri); !r.saysSignedOut() {
				t.Errorf("%s, signed out: %d", uri, r.status)
			}
			b.complete(b.get(a.authorizeURL("scope", "openid")))
		}
		// A URI that is taken back while the user is asked is not followed either.
		page := b.logOut("client_id", a.id, "post_logout_redirect_uri", bye)
		var patch oidc.ClientPatch
		must(t, json.Unmarshal([]byte(`{"post_logout_redirect_uris": []}`), &patch))
		_, err := f.clients.Store.Update(f.ctx, auth.From(f.ctx), a.id, paging.IfMatch{}, patch)
		must(t, err)
		if done := b.submit(page); !done.saysSignedOut() {
			t.Errorf("%d %s", done.status, done.header.Get("Location"))
		}
	})
}

// TestLogoutByPostWithoutACookie sends the POST without cookies, as a browser does from another site, and
// what follows with them.
func TestLogoutByPostWithoutACookie(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b, tokens := f.signedInAt(a)
		post := func(pairs ...string) string {
			t.Helper()
			r := f.browser().do("POST", f.url+"/end_session", endSession(pairs...)).want(http.StatusSeeOther)
			if cookies := r.header.Values("Set-Cookie"); strings.Contains(strings.Join(cookies, " "), session.CookieName) {
				t.Fatalf("the POST changes the session: %v", cookies)
			}
			location := r.header.Get("Location")
			if !strings.HasPrefix(location, "/end_session/continue?") || len(location) > 4000 ||
				strings.Contains(location, tokens.text("id_token")) {
				t.Fatalf("got %s", location)
			}
			return f.url + location
		}
		ask := b.get(post("client_id", a.id, "post_logout_redirect_uri", bye, "state", strings.Repeat("s", 1000)))
		if !ask.asksToSignOut() || !b.signedIn() {
			t.Fatalf("%d %s", ask.status, ask.body)
		}
		r := b.get(post("id_token_hint", tokens.text("id_token"), "post_logout_redirect_uri", bye, "state", "s1"))
		if got := r.want(http.StatusSeeOther).header.Get("Location"); got != bye+"?state=s1" {
			t.Errorf("got %s", got)
		}
		if b.signedIn() {
			t.Error("the session is alive")
		}
	})
}

// TestLogoutWithAHintWhoseKeyIsGone rotates until the key of the ID token is no longer known.
func TestLogoutWithAHintWhoseKeyIsGone(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		_, tokens := f.signedInAt(a)
		for range 2 {
			f.clock.add(2 * keys.PublishTime)
			_, err := f.keys.Rotate(f.ctx)
			must(t, err)
		}
		f.clock.add(keys.RetainTime + keys.PublishTime)
		must(t, f.keys.Maintain(f.ctx))
		b, _ := f.signedInAt(a)
		page := b.logOut("id_token_hint", tokens.text("id_token"), "client_id", a.id, "post_logout_redirect_uri", bye)
		if !page.asksToSignOut() {
			t.Fatalf("%d %s", page.status, page.body)
		}
		if got := b.submit(page).want(http.StatusSeeOther).header.Get("Location"); got != bye {
			t.Errorf("got %s", got)
		}
	})
}
