// Package chromium uses pages in a real browser, and checks that they are accessible.
package chromium

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// Browser is a real browser. It is closed when an action takes longer than actionTimeout.
type Browser struct {
	T        *testing.T
	Ctx      context.Context // of the tab
	watchdog *time.Timer
	axe      string // the source of axe-core
}

const actionTimeout = 3 * time.Minute

// New returns a browser that is closed when the test ends.
func New(t *testing.T) *Browser {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"),
		chromedp.WSURLReadTimeout(actionTimeout))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &Browser{T: t, Ctx: ctx, watchdog: time.AfterFunc(actionTimeout, cancel)}
}

// NewTab returns another tab of the browser, which is closed when the test ends.
func (b *Browser) NewTab() *Browser {
	ctx, cancel := chromedp.NewContext(b.Ctx)
	b.T.Cleanup(cancel)
	return &Browser{T: b.T, Ctx: ctx, watchdog: b.watchdog}
}

// TrustAll has the tab accept every TLS certificate.
func (b *Browser) TrustAll() {
	b.T.Helper()
	call(b, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
}

// KeepOpen gives the browser its full time again. Do and Evaluate call it before each action.
func (b *Browser) KeepOpen() { b.watchdog.Reset(actionTimeout) }

// Do runs actions one after the other. It fails the test if one of them fails.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	for _, a := range actions {
		b.KeepOpen()
		if _, err := chromedp.Run(b.Ctx, a); err != nil {
			b.T.Fatal(err)
		}
	}
}

// Evaluate returns the value of a JavaScript expression on the page.
func Evaluate[T any](b *Browser, expression string) T {
	b.T.Helper()
	b.KeepOpen()
	value, err := chromedp.Run(b.Ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.T.Fatal(err)
	}
	return value
}

// Open opens a page.
func (b *Browser) Open(address string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS(`h1`)))
}

// Submit fills in fields and submits the first form with its first button.
func (b *Browser) Submit(fields ...string) {
	b.T.Helper()
	for i := 0; i < len(fields); i += 2 {
		b.Do(chromedp.SetValue(chromedp.CSS(fmt.Sprintf(`form input[name=%q]`, fields[i])), fields[i+1]))
	}
	b.Do(chromedp.Evaluate[chromedp.Void](`document.body.id = "before"; undefined`))
	b.Do(chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`body:not(#before) h1`)))
}

// ColorScheme sets the color scheme that the user prefers.
func (b *Browser) ColorScheme(scheme string) {
	b.T.Helper()
	_, err := chromedp.Call(b.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

// Screenshot writes a picture of the page to e2e/artifacts.
func (b *Browser) Screenshot(name string) {
	b.T.Helper()
	picture, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.T.Fatal(err)
	}
	artifacts := b.path("artifacts")
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		b.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(artifacts, name+".png"), picture, 0o644); err != nil {
		b.T.Fatal(err)
	}
}

// path returns the path of a file below e2e. A test runs in the folder of its package.
func (b *Browser) path(name string) string {
	b.T.Helper()
	dir, err := os.Getwd()
	if err != nil {
		b.T.Fatal(err)
	}
	for filepath.Base(dir) != "e2e" {
		if dir == filepath.Dir(dir) {
			b.T.Fatal("the test does not run below e2e")
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, name)
}
