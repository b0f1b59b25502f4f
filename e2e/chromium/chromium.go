// Package chromium uses pages in a real browser, and checks that they are accessible.
//
// A test process starts one Chromium. Each test gets its own browser context in it, with cookies,
// storage, cache and authenticators that no other test sees.
package chromium

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// Browser is a tab of Chromium, in a browser context that it shares with the test's other tabs.
type Browser struct {
	T   *testing.T
	Ctx context.Context // the tab's
	axe string          // axe-core's source
}

// actionTimeout ends an action that hangs. No action takes this long, even on a slow machine.
const actionTimeout = 5 * time.Minute

// stop ends Chromium, if it is running.
var stop = func() {}

// start starts Chromium and returns its context, which tests derive theirs from. Chromium dies with the
// test process.
var start = sync.OnceValues(func() (context.Context, error) {
	// The address bar's pop-ups would add two more pages to each window.
	const unused = "Translate,BlinkGenPropertyTrees,WebUIOmniboxPopup,WebUIOmniboxAimPopup"
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-features", unused))
	ctx, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(ctx)
	stop = func() {
		endBrowser()
		endAllocator()
	}
	return ctx, chromedp.Do(ctx)
})

// Main is the TestMain for packages whose tests use Chromium and the binary. It ends Chromium after the
// tests.
func Main(m *testing.M) int {
	code := process.Main(m)
	stop()
	return code
}

// New returns a tab in its own browser context, which ends with the test.
func New(t *testing.T) *Browser {
	t.Helper()
	ctx, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return newTab(t, ctx, chromedp.WithNewBrowserContext())
}

// NewTab returns another tab in the same browser context. It closes when the test ends.
func (b *Browser) NewTab() *Browser {
	b.T.Helper()
	return newTab(b.T, b.Ctx)
}

// Opens runs do and returns the window that the page opens.
func (b *Browser) Opens(do func()) *Browser {
	b.T.Helper()
	opened := chromedp.WaitNewTarget(b.Ctx, func(*target.Info) bool { return true })
	do()
	return newTab(b.T, b.Ctx, chromedp.WithTargetID(waittest.Receive(b.T, "the window", opened)))
}

// Closed reports whether the window was closed.
func (b *Browser) Closed() bool {
	b.T.Helper()
	ctx, err := start()
	if err != nil {
		b.T.Fatal(err)
	}
	open, err := chromedp.Targets(ctx)
	if err != nil {
		b.T.Fatal(err)
	}
	self := chromedp.FromContext(b.Ctx).Target.TargetID
	return !slices.ContainsFunc(open, func(t *target.Info) bool { return t.TargetID == self })
}

func newTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *Browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // opens it
		t.Fatal(err)
	}
	b := &Browser{T: t, Ctx: ctx}
	// Only one window has the focus. Tabs from parallel tests must not take it from each other.
	Call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.ColorScheme("light")
	return b
}

// TrustAll makes the tab accept every TLS certificate.
func (b *Browser) TrustAll() {
	b.T.Helper()
	Call(b, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
}

// run runs an action in a tab, and ends it if it hangs.
func run[T any](b *Browser, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.Ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// Do runs actions one after the other. It fails the test if one of them fails.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	for _, a := range actions {
		if _, err := run(b, a); err != nil {
			b.T.Fatal(err)
		}
	}
}

// Call sends a command to the tab. It fails the test if the command fails.
func Call[P, R any](b *Browser, command cdp.Command[P, R], params P) R {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, actionTimeout)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.T.Fatal(err)
	}
	return result
}

// Evaluate returns a JavaScript expression's value on the page.
func Evaluate[T any](b *Browser, expression string) T {
	b.T.Helper()
	value, err := run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.T.Fatal(err)
	}
	return value
}

// Holds reports whether a JavaScript expression is true on the page. While the page is changing we cannot
// ask it, so it reports false.
func (b *Browser) Holds(expression string) bool {
	holds, err := run(b, chromedp.Evaluate[bool]("!!("+expression+")"))
	return err == nil && holds
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

// ColorScheme sets the user's preferred color scheme. Pages show no animations, so that tests need not
// wait for them.
func (b *Browser) ColorScheme(scheme string) {
	b.T.Helper()
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// Screenshot writes a picture of the page to e2e/artifacts.
func (b *Browser) Screenshot(name string) {
	b.T.Helper()
	picture, err := run(b, chromedp.FullScreenshot(100))
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

// path returns the path to a file below e2e. A test runs in its package's folder.
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
