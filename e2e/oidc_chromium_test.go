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

// TestSignInWithChromium signs in by keyboard, gives consent, and is redirected to the application, with
// the Content-Security-Policy of the pages in effect. Screenshots are written to e2e/artifacts.
func TestSignInWithChromium(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	codes := make(chan string, 1)
	rp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			codes <- code
		}
		w.Write([]byte("<title>arrived</title>"))
	}))
	defer rp.Close()
	scopes := []string{"openid", "profile", "email", "offline_access", "storage:read", "webhook:write"}
	a := s.application(object{"redirect_uris": []string{rp.URL + "/callback"}, "scopes": scopes})
	p := s.relyingParty(a, scopes...)
	p.config.RedirectURL = rp.URL + "/callback"
	verifier := oauth2.GenerateVerifier()

	b := newChromium(t)
	b.do(chromedp.EmulateViewport(900, 940))
	b.do(chromedp.Navigate(p.config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))))
	b.screenshot("sign-in")
	b.do(chromedp.KeyEvent(adminEmail), chromedp.KeyEvent("\t")) // the first field has the focus
	b.do(chromedp.KeyEvent(adminPassword), chromedp.KeyEvent("\r"))
	b.do(chromedp.WaitVisible(chromedp.CSS(`button[value="approve"]`)))
	b.screenshot("consent")
	b.colorScheme("dark")
	b.screenshot("consent-dark")
	b.colorScheme("light")
	b.do(chromedp.Click(chromedp.CSS(`input[value="webhook:write"]`)))
	b.do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	code := waittest.Receive(t, "the browser at the application", codes)
	token, err := p.config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	s.must(err)
	scope, _ := token.Extra("scope").(string)
	if strings.Contains(scope, "webhook:write") || !strings.Contains(scope, "storage:read") {
		t.Errorf("the scopes are %q, want storage:read and not webhook:write", scope)
	}
	b.do(chromedp.Navigate(s.URL+"/account"), chromedp.WaitVisible(chromedp.CSS(`.rows`)))
	b.screenshot("account")
	b.do(chromedp.Navigate(s.URL+"/device"), chromedp.WaitVisible(chromedp.CSS(`input.code`)))
	b.screenshot("device")
	b.do(chromedp.Navigate(s.URL+"/end_session"), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	b.do(chromedp.WaitNotPresent(chromedp.CSS(`form`)), chromedp.WaitVisible(chromedp.CSS(`h1`)))
	b.screenshot("signed-out")
}

// chromium is a real browser. It is closed when an action takes longer than actionTimeout.
type chromium struct {
	t        *testing.T
	ctx      context.Context
	watchdog *time.Timer
	axe      string // the source of axe-core
}

const actionTimeout = 3 * time.Minute

func newChromium(t *testing.T) *chromium {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"),
		chromedp.WSURLReadTimeout(actionTimeout))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &chromium{t: t, ctx: ctx, watchdog: time.AfterFunc(actionTimeout, cancel)}
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

// colorScheme sets the color scheme that the user prefers.
func (b *chromium) colorScheme(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// screenshot writes a picture of the page.
func (b *chromium) screenshot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll("artifacts", 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("artifacts", name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
