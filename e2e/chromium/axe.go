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

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// Check runs axe-core on the page in both color schemes and at both widths, and takes screenshots.
func (b *Browser) Check(name string) {
	b.T.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.ColorScheme(scheme)
			b.Do(chromedp.EmulateViewport(width, 844))
			what := fmt.Sprintf("%s-%s-%d", name, scheme, width)
			b.Screenshot(what)
			for _, v := range b.violations() {
				if v.Impact == "serious" || v.Impact == "critical" {
					b.T.Errorf("%s: %s: %s: %s: %v", what, v.Impact, v.ID, v.Help, v.Nodes)
				} else {
					b.T.Logf("%s: %s: %s: %s", what, v.Impact, v.ID, v.Help)
				}
			}
			if actual := Evaluate[int64](b, `document.documentElement.scrollWidth`); actual > width {
				b.T.Errorf("%s is %d pixels wide", what, actual)
			}
		}
	}
}

func (b *Browser) violations() []violation {
	b.T.Helper()
	if Evaluate[bool](b, `!window.axe`) {
		b.Do(chromedp.Evaluate[chromedp.Void](b.axe + "; undefined"))
	}
	text := Evaluate[string](b, `axe.run({resultTypes: ['violations'], selectors: false}).then(r => JSON.stringify({violations: r.violations, passed: r.passes.length}))`)
	var found struct {
		Violations []violation
		Passed     int
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.T.Fatal(err)
	}
	if found.Passed < 10 {
		b.T.Fatalf("axe-core has applied %d rules only", found.Passed)
	}
	return found.Violations
}
