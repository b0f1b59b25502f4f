// Package walk uses a real installation in Chromium once, from the sign-in to the sign-out. The tests in e2e/long
// look at every page.
package walk

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/oauth2"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }

// TestConsole has the first owner sign in to the console, receive and deliver an event, create a bucket, a store and
// an API key, look at the members, and sign out.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	b := chromium.New(t)
	b.LoadAxe()
	b.Watch()
	visit := func(path string) {
		b.Clean()
		b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/console"+path))
		b.Wait("a page", `document.querySelector('#app h1')`)
	}
	visit("/")
	b.Press("Sign in")
	b.Wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	b.See("Receive your first webhook")
	b.Check("walk-overview")

	visit("/webhooks")
	b.Press("New webhook")
	b.Fill("name", "orders")
	b.Press("Create")
	b.See("The webhook was created")
	address := strings.TrimSpace(b.Text("dialog pre"))
	b.Press("Add a destination")
	b.Press("Add destination")
	b.Fill("url", k.URL+"/hooks")
	b.Press("Add")
	b.See("Signing secret")
	b.Press("Done")
	b.Press("Receipts")
	b.Wait("the stream", `document.querySelector('.dot.live')`)
	res, err := installation.Client.Post(address, "application/json", strings.NewReader(`{"order": 1042}`))
	s.Must(err)
	s.Must(res.Body.Close())
	b.See(`"order":1042`)
	if got := k.Wait("/hooks", 1)[0]; got.Body != `{"order": 1042}` {
		t.Errorf("the destination gets %s", got.Body)
	}
	b.Do(chromedp.Click(chromedp.CSS(`.stream a`)))
	b.See("POST request")
	b.See("success")
	b.Check("walk-receipt")
	visit("/webhooks/" + strings.Split(address, "/")[4] + "?tab=settings")
	b.Press("Show the URL")
	b.See(address)

	for _, c := range []struct{ path, button, name, shows string }{
		{"/storage", "New bucket", "photos", "S3_SECRET_ACCESS_KEY="},
		{"/key-value", "New store", "carts", "REDIS_URL="},
		{"/keys", "New API key", "deploy", "The API key was created"},
	} {
		visit(c.path)
		b.Press(c.button)
		b.Fill("name", c.name)
		b.Press("Create")
		b.See(c.shows)
	}
	s.As(b.Text(".secret pre")).Call("GET", "/webhook/list", nil).Want(200)
	visit("/storage/photos")
	b.See("The bucket is empty")
	visit("/key-value/local/carts")
	b.See("No keys yet")
	visit("/members")
	b.See(installation.AdminEmail)
	b.Do(chromedp.Click(chromedp.CSS(`.who`)))
	b.Press("Sign out")
	b.See("Sign in to the console")
	b.Clean()
}

// TestSignIn signs a user in at a relying party: with a password and consent, and then with a passkey.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := installation.StartOnLocalhost(t, "postgres")
	codes := make(chan string, 1)
	rp := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			codes <- code
		}
	}))
	t.Cleanup(rp.Close)
	scopes := []string{"openid", "email", "webhook:write"}
	a := s.NewApplication(map[string]any{"redirect_uris": []string{rp.URL + "/callback"}, "scopes": scopes})
	p := s.NewRelyingParty(a, scopes...)
	p.Config.RedirectURL = rp.URL + "/callback"
	b := chromium.New(t)
	b.LoadAxe()
	b.DisableAutofill()
	authenticator := b.NewAuthenticator()

	verifier := oauth2.GenerateVerifier()
	request := p.Config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))
	// wantToken exchanges the code that the browser brings to the relying party.
	wantToken := func() {
		t.Helper()
		code := waittest.Receive(t, "the browser at the relying party", codes)
		token, err := p.Config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		s.Must(err)
		if status := s.UserinfoStatus(token.AccessToken); status != http.StatusOK {
			t.Errorf("/userinfo responds with %d", status)
		}
		if scope := token.Extra("scope"); scope != "openid email" {
			t.Errorf("the token has the scopes %q, of which the user has declined webhook:write", scope)
		}
	}

	b.Open(request)
	b.Check("walk-sign-in")
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	b.Do(chromedp.Click(chromedp.CSS(`input[value="webhook:write"]`)), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	wantToken()

	b.Open(s.URL + "/account/passkeys")
	b.Do(chromedp.Click(chromedp.CSS(`#passkey button`)))
	b.See("Your account")
	if held := authenticator.Passkeys(); len(held) != 1 || held[0].UserName != installation.AdminEmail {
		t.Fatalf("the authenticator holds %v", held)
	}
	b.Open(s.URL + "/end_session")
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)), chromedp.WaitNotPresent(chromedp.CSS(`form`)))
	b.Open(request)
	b.Do(chromedp.Click(chromedp.CSS(`#passkey button`))) // without another question for consent
	wantToken()
}
