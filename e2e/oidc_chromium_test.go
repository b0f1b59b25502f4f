package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"golang.org/x/oauth2"

	"steward/internal/waittest"
)

// In a real browser a user signs in by keyboard, agrees, and is sent to the application, with the pages' own policy in force. What the
// pages look like is kept in e2e/artifacts.
func TestSignInInChromium(t *testing.T) {
	s := beginSignIn(t, "sqlite")
	came := make(chan string, 1)
	rp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			came <- code
		}
		w.Write([]byte("<title>arrived</title>"))
	}))
	defer rp.Close()
	a := s.application(map[string]any{
		"redirect_uris": []string{rp.URL + "/callback"},
		"scopes":        []string{"openid", "profile", "email", "offline_access", "storage:read", "webhook:write"},
	})
	p := s.party(a, "openid", "profile", "email", "offline_access", "storage:read", "webhook:write")
	p.config.RedirectURL = rp.URL + "/callback"
	verifier := oauth2.GenerateVerifier()

	b := newChromium(t)
	b.do(chromedp.EmulateViewport(900, 940), chromedp.Navigate(p.config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))))
	b.shoot("sign-in")
	// The first field has the focus: type, tab, type, enter.
	b.do(chromedp.KeyEvent(adminEmail), chromedp.KeyEvent("\t"), chromedp.KeyEvent(adminPassword), chromedp.KeyEvent("\r"))
	b.do(chromedp.WaitVisible(chromedp.CSS(`button[value="approve"]`)))
	b.shoot("consent")
	b.dark(true)
	b.shoot("consent-dark")
	b.dark(false)
	b.do(chromedp.Click(chromedp.CSS(`input[value="webhook:write"]`)), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	code := waittest.Receive(t, "the browser at the application", came)
	token, err := p.config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	s.must(err)
	if scope, _ := token.Extra("scope").(string); strings.Contains(scope, "webhook:write") || !strings.Contains(scope, "storage:read") {
		t.Errorf("the scopes are %q, although the user declined webhook:write", scope)
	}
	b.do(chromedp.Navigate(s.URL+"/account"), chromedp.WaitVisible(chromedp.CSS(`.sessions`)))
	b.shoot("account")
	b.do(chromedp.Navigate(s.URL+"/device"), chromedp.WaitVisible(chromedp.CSS(`input.code`)))
	b.shoot("device")
	b.do(chromedp.Navigate(s.URL+"/end_session"), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	b.do(chromedp.WaitNotPresent(chromedp.CSS(`form`)), chromedp.WaitVisible(chromedp.CSS(`h1`)))
	b.shoot("signed-out")
}

// chromium is a browser. It ends when one action takes longer than actionTimeout.
type chromium struct {
	t        *testing.T
	ctx      context.Context
	watchdog *time.Timer
}

const actionTimeout = 3 * time.Minute

func newChromium(t *testing.T) *chromium {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"),
		chromedp.WSURLReadTimeout(actionTimeout))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &chromium{t, ctx, time.AfterFunc(actionTimeout, cancel)}
}

func (b *chromium) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, a := range actions {
		b.watchdog.Reset(actionTimeout)
		if _, err := chromedp.Run(b.ctx, a); err != nil {
			b.t.Fatal(err)
		}
	}
}

// dark has the page think that the user likes it dark, or not.
func (b *chromium) dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// shoot keeps a picture of the page.
func (b *chromium) shoot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll("artifacts", 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("artifacts", name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
