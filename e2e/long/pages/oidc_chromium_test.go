package pages

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/oauth2"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestSignInWithChromium signs in by keyboard, gives consent, and is redirected to the application, with
// the Content-Security-Policy of the pages in effect. Screenshots are written to e2e/artifacts.
func TestSignInWithChromium(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	codes := make(chan string, 1)
	rp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			codes <- code
		}
		w.Write([]byte("<title>arrived</title>"))
	}))
	defer rp.Close()
	scopes := []string{"openid", "profile", "email", "offline_access", "storage:read", "webhook:write"}
	a := s.NewApplication(object{"redirect_uris": []string{rp.URL + "/callback"}, "scopes": scopes})
	p := s.NewRelyingParty(a, scopes...)
	p.Config.RedirectURL = rp.URL + "/callback"
	verifier := oauth2.GenerateVerifier()

	b := chromium.New(t)
	b.Do(chromedp.EmulateViewport(900, 940))
	b.Do(chromedp.Navigate(p.Config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))))
	b.Screenshot("sign-in")
	b.Do(chromedp.KeyEvent(installation.AdminEmail), chromedp.KeyEvent("\t")) // the first field has the focus
	b.Do(chromedp.KeyEvent(installation.AdminPassword), chromedp.KeyEvent("\r"))
	b.Do(chromedp.WaitVisible(chromedp.CSS(`button[value="approve"]`)))
	b.Screenshot("consent")
	b.ColorScheme("dark")
	b.Screenshot("consent-dark")
	b.ColorScheme("light")
	b.Do(chromedp.Click(chromedp.CSS(`input[value="webhook:write"]`)))
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	code := waittest.Receive(t, "the browser at the application", codes)
	token, err := p.Config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	s.Must(err)
	scope, _ := token.Extra("scope").(string)
	if strings.Contains(scope, "webhook:write") || !strings.Contains(scope, "storage:read") {
		t.Errorf("the scopes are %q, want storage:read and not webhook:write", scope)
	}
	waittest.True(t, "the page of the application", func() bool { return pageTitle(b) == "arrived" })
	b.Do(chromedp.Navigate(s.URL+"/account"), chromedp.WaitVisible(chromedp.CSS(`.rows`)))
	b.Screenshot("account")
	b.Do(chromedp.Navigate(s.URL+"/device"), chromedp.WaitVisible(chromedp.CSS(`input.code`)))
	b.Screenshot("device")
	b.Do(chromedp.Navigate(s.URL+"/end_session"), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	b.Do(chromedp.WaitNotPresent(chromedp.CSS(`form`)), chromedp.WaitVisible(chromedp.CSS(`h1`)))
	b.Screenshot("signed-out")
}
