package logout_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	paging "steward/internal/page"
)

// signedInAt signs the owner in at an application in a new browser and returns the ID token.
func signedInAt(f *providertest.Fixture, a *providertest.App) (b *providertest.Browser,
	tokens *providertest.Response,
) {
	f.T.Helper()
	b = f.Browser()
	result := b.Complete(b.Get(a.AuthorizeURL("scope", "openid")))
	return b, a.Redeem(result.Get("code")).Want(http.StatusOK)
}

// asksToSignOut reports whether a page asks for confirmation.
func asksToSignOut(r *providertest.Response) bool {
	return r.Status == http.StatusOK && strings.Contains(r.Body, `action="/end_session/confirm"`)
}

func saysSignedOut(r *providertest.Response) bool {
	return r.Status == http.StatusOK && strings.Contains(r.Body, "You are signed out")
}

func TestLogoutWithAHintOfTheUserIsImmediate(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		b, tokens := signedInAt(f, a)
		f.Clock.Add(3 * time.Hour) // the ID token has expired, which does not matter
		r := b.LogOut("id_token_hint", tokens.Text("id_token"), "post_logout_redirect_uri", providertest.Bye,
			"state", "s &1")
		if got := r.Want(http.StatusSeeOther).Header.Get("Location"); got != providertest.Bye+"?state=s+%261" {
			t.Errorf("got %s", got)
		}
		if b.SignedIn() {
			t.Error("the user is still signed in")
		}
		// Without offline access the refresh token ends with the session.
		a.Refresh(tokens.Text("refresh_token")).WantRefused(oauth.InvalidGrant)
		// Nobody is signed in any more, so there is nothing to ask.
		r = b.LogOut("id_token_hint", tokens.Text("id_token"), "post_logout_redirect_uri", providertest.Bye)
		if got := r.Want(http.StatusSeeOther).Header.Get("Location"); got != providertest.Bye {
			t.Errorf("got %s", got)
		}
	})
}

// TestLogoutWithoutAUsableHintAsks covers hints that cannot be verified, and requests without a client.
func TestLogoutWithoutAUsableHintAsks(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, other := f.NewApp(providertest.Confidential), f.NewApp(providertest.Confidential)
	b, tokens := signedInAt(f, a)
	hint := tokens.Text("id_token")
	f.NewUser("other@example.com", "another password")
	elsewhere := f.Browser()
	result := elsewhere.CompleteAs(elsewhere.Get(a.AuthorizeURL()), "other@example.com", "another password")
	ofOther := a.Redeem(result.Get("code")).Want(http.StatusOK).Text("id_token")
	for name, c := range map[string]struct {
		request []string
		// follows says whether the browser goes to the client afterwards.
		follows bool
	}{
		"nothing":   {nil, false},
		"no client": {[]string{"post_logout_redirect_uri", providertest.Bye, "state", "s"}, false},
		"unknown client": {[]string{
			"client_id", "oac_x", "post_logout_redirect_uri", providertest.Bye,
		}, false},
		"client": {[]string{"client_id", a.ID, "post_logout_redirect_uri", providertest.Bye}, true},
		"broken hint": {[]string{
			"id_token_hint", hint + "x", "post_logout_redirect_uri", providertest.Bye,
		}, false},
		"broken, with client": {[]string{
			"id_token_hint", "x", "client_id", a.ID, "post_logout_redirect_uri", providertest.Bye,
		}, true},
		"access token as hint": {[]string{"id_token_hint", tokens.Text("access_token")}, false},
		"hint of another app": {
			[]string{"id_token_hint", hint, "client_id", other.ID, "post_logout_redirect_uri", providertest.Bye}, false,
		},
		"hint of another user": {[]string{
			"id_token_hint", ofOther, "post_logout_redirect_uri", providertest.Bye,
		}, true},
	} {
		for _, method := range []string{"GET", "POST"} {
			page := b.LogOut(c.request...)
			if method == "POST" {
				page = b.Follow(b.Do("POST", f.URL+"/end_session", providertest.EndSession(c.request...)))
			}
			if !asksToSignOut(page) || strings.Contains(page.Body, hint) {
				t.Errorf("%s %s: %d %s", method, name, page.Status, page.Body)
				continue
			}
			b.Submit(page, "action", "deny").Want(http.StatusOK)
			if !b.SignedIn() {
				t.Fatalf("%s %s: the user was signed out without having agreed", method, name)
			}
			done := b.Submit(page)
			if c.follows && !strings.HasPrefix(done.Header.Get("Location"), providertest.Bye) || !c.follows &&
				!saysSignedOut(done) {
				t.Errorf("%s %s: %d %s", method, name, done.Status, done.Header.Get("Location"))
			}
			if b.SignedIn() {
				t.Errorf("%s %s: the user is still signed in", method, name)
			}
			b.Complete(b.Get(a.AuthorizeURL("scope", "openid")))
		}
	}
	b.Get(f.URL + "/end_session?state=1&state=2").Want(http.StatusBadRequest)
	b.LogOut("state", strings.Repeat("x", 3000)).Want(http.StatusBadRequest)
	b.Get(f.URL + "/end_session/continue?flow=x").Want(http.StatusBadRequest)
}

func TestUnregisteredRedirectAfterLogoutIsNotFollowed(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b, tokens := signedInAt(f, a)
	for _, uri := range []string{
		"https://evil.example.com/", "https://rp.example.com/bye/", "https://rp.example.com/bye#x",
		"https://rp.example.com/bye?x", "//rp.example.com/bye", "javascript:alert(1)", "/account",
	} {
		page := b.LogOut("id_token_hint", tokens.Text("id_token"), "post_logout_redirect_uri", uri)
		if !asksToSignOut(page) {
			t.Errorf("%s: %d %s", uri, page.Status, page.Body)
		}
		if done := b.Submit(page); !saysSignedOut(done) || done.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", uri, done.Status, done.Header.Get("Location"))
		}
		if r := b.LogOut("client_id", a.ID, "post_logout_redirect_uri", uri); !saysSignedOut(r) {
			t.Errorf("%s, signed out: %d", uri, r.Status)
		}
		b.Complete(b.Get(a.AuthorizeURL("scope", "openid")))
	}
	// A URI that is taken back while the user is asked is not followed either.
	page := b.LogOut("client_id", a.ID, "post_logout_redirect_uri", providertest.Bye)
	var patch oidc.ClientPatch
	providertest.Must(t, json.Unmarshal([]byte(`{"post_logout_redirect_uris": []}`), &patch))
	_, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), a.ID, paging.IfMatch{}, patch)
	providertest.Must(t, err)
	if done := b.Submit(page); !saysSignedOut(done) {
		t.Errorf("%d %s", done.Status, done.Header.Get("Location"))
	}
}

// TestLogoutByPostWithoutACookie sends the POST without cookies, as a browser does from another site, and
// what follows with them.
func TestLogoutByPostWithoutACookie(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b, tokens := signedInAt(f, a)
	post := func(pairs ...string) string {
		t.Helper()
		r := f.Browser().Do("POST", f.URL+"/end_session",
			providertest.EndSession(pairs...)).Want(http.StatusSeeOther)
		if cookies := r.Header.Values("Set-Cookie"); strings.Contains(strings.Join(cookies, " "),
			session.CookieName) {
			t.Fatalf("the POST changes the session: %v", cookies)
		}
		location := r.Header.Get("Location")
		if !strings.HasPrefix(location, "/end_session/continue?") || len(location) > 4000 ||
			strings.Contains(location, tokens.Text("id_token")) {
			t.Fatalf("got %s", location)
		}
		return f.URL + location
	}
	ask := b.Get(post("client_id", a.ID, "post_logout_redirect_uri", providertest.Bye,
		"state", strings.Repeat("s", 1000)))
	if !asksToSignOut(ask) || !b.SignedIn() {
		t.Fatalf("%d %s", ask.Status, ask.Body)
	}
	r := b.Get(post("id_token_hint", tokens.Text("id_token"),
		"post_logout_redirect_uri", providertest.Bye, "state", "s1"))
	if got := r.Want(http.StatusSeeOther).Header.Get("Location"); got != providertest.Bye+"?state=s1" {
		t.Errorf("got %s", got)
	}
	if b.SignedIn() {
		t.Error("the session is alive")
	}
}

// TestLogoutWithAHintWhoseKeyIsGone rotates until the key of the ID token is no longer known.
func TestLogoutWithAHintWhoseKeyIsGone(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		_, tokens := signedInAt(f, a)
		for range 2 {
			f.Clock.Add(2 * keys.PublishTime)
			_, err := f.Keys.Rotate(f.Ctx)
			providertest.Must(t, err)
		}
		f.Clock.Add(keys.RetainTime + keys.PublishTime)
		providertest.Must(t, f.Keys.Maintain(f.Ctx))
		b, _ := signedInAt(f, a)
		page := b.LogOut("id_token_hint", tokens.Text("id_token"), "client_id", a.ID,
			"post_logout_redirect_uri", providertest.Bye)
		if !asksToSignOut(page) {
			t.Fatalf("%d %s", page.Status, page.Body)
		}
		if got := b.Submit(page).Want(http.StatusSeeOther).Header.Get("Location"); got != providertest.Bye {
			t.Errorf("got %s", got)
		}
	})
}
