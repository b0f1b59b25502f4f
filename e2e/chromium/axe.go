package chromium

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/chromedp/chromedp"
)

// LoadAxe reads axe-core.
func (b *Browser) LoadAxe() {
	b.T.Helper()
	source, err := os.ReadFile(b.path("oidc/node_modules/axe-core/axe.min.js"))
	if err != nil {
		b.T.Fatal("axe-core is not installed: run `make deps`")
	}
	b.axe = string(source)
}

// violation is a problem that axe-core has found.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// colorRules are the axe-core rules that depend on the color scheme. The others depend on the width
// alone.
const colorRules = `runOnly: ['color-contrast', 'link-in-text-block'],`

// widths are a wide and a narrow screen's widths in pixels.
var widths = []int64{1280, 390}

// CheckWidths fails the test if the page is wider than a screen.
func (b *Browser) CheckWidths(name string) {
	b.T.Helper()
	for _, width := range widths {
		b.checkWidth(name, width)
	}
}

func (b *Browser) checkWidth(name string, width int64) {
	b.T.Helper()
	b.Do(chromedp.EmulateViewport(width, 844))
	if actual := Evaluate[int64](b, `document.documentElement.scrollWidth`); actual > width {
		b.T.Errorf("%s is %d pixels wide on a screen of %d", name, actual, width)
		b.Screenshot(fmt.Sprintf("%s-%d", name, width))
	}
}

// Check runs axe-core on the page, on a wide and a narrow screen and in both color schemes, and fails the
// test if the page is wider than the screen. It takes screenshots of every failure, or of everything if
// STEWARD_TEST_SCREENSHOTS is set.
func (b *Browser) Check(name string) {
	b.T.Helper()
	if Evaluate[bool](b, `!window.axe`) {
		b.Do(chromedp.Evaluate[chromedp.Void](b.axe + "; undefined"))
	}
	for _, width := range widths {
		b.checkWidth(name, width)
		b.checkScheme(fmt.Sprintf("%s-light-%d", name, width), "light", "", 10)
		b.checkScheme(fmt.Sprintf("%s-dark-%d", name, width), "dark", colorRules, 1)
	}
}

// checkScheme runs axe-core's rules in a color scheme. At least this many must apply.
func (b *Browser) checkScheme(name, scheme, rules string, least int) {
	b.T.Helper()
	b.ColorScheme(scheme)
	failed := false
	for _, v := range b.violations(rules, least) {
		if v.Impact == "serious" || v.Impact == "critical" {
			b.T.Errorf("%s: %s: %s: %s: %v", name, v.Impact, v.ID, v.Help, v.Nodes)
			failed = true
		} else {
			b.T.Logf("%s: %s: %s: %s", name, v.Impact, v.ID, v.Help)
		}
	}
	if failed || os.Getenv("STEWARD_TEST_SCREENSHOTS") != "" {
		b.Screenshot(name)
	}
}

// violations returns the problems that axe-core finds on the page. It fails the test if fewer rules than
// least apply.
func (b *Browser) violations(rules string, least int) []violation {
	b.T.Helper()
	text := Evaluate[string](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))
		.then(() => axe.run({`+rules+` resultTypes: ['violations'], selectors: false}))
		.then(r => JSON.stringify({violations: r.violations, applied: r.passes.length + r.violations.length + r.incomplete.length}))`)
	var found struct {
		Violations []violation
		Applied    int
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.T.Fatal(err)
	}
	if found.Applied < least {
		b.T.Fatalf("axe-core has applied %d rules only", found.Applied)
	}
	return found.Violations
}
