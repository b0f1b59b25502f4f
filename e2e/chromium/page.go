package chromium

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"steward/internal/waittest"
)

// watch collects errors in a page. A script that was smuggled in calls smuggled.
const watch = `window.faults = [];
performance.setResourceTimingBufferSize(10000);
addEventListener('error', e => faults.push('error: ' + e.message));
addEventListener('unhandledrejection', e => faults.push('rejection: ' + e.reason));
document.addEventListener('securitypolicyviolation', e => faults.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
window.smuggled = () => faults.push('a stored text was executed');
window.alert = window.smuggled;`

// Watch collects script errors, violations of the Content-Security-Policy and executed alerts in pages
// that open from now on.
func (b *Browser) Watch() {
	b.T.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
}

// Clean fails the test if the page has had errors since it opened.
func (b *Browser) Clean() {
	b.T.Helper()
	if faults := Evaluate[[]string](b, `window.faults ?? []`); len(faults) > 0 {
		b.T.Errorf("%s: %s", Evaluate[string](b, `location.pathname`), strings.Join(faults, "\n"))
	}
}

// Wait waits until a JavaScript expression is true.
func (b *Browser) Wait(what, expression string) {
	b.T.Helper()
	held := false
	defer func() {
		if !held {
			b.Screenshot("stuck")
			b.T.Logf("%s shows\n%s", Evaluate[string](b, `location.href`), Evaluate[string](b, `document.body.innerText`))
			b.Clean()
		}
	}()
	waittest.True(b.T, what, func() bool {
		held = b.Holds(expression)
		return held
	})
}

// See waits until the page shows a text.
func (b *Browser) See(text string) {
	b.T.Helper()
	b.Wait(fmt.Sprintf("%q", text), `document.body?.innerText.includes(`+Quote(text)+`)`)
}

// Control is an expression for the visible button, link or summary with a text or label. If there are
// several, it takes the last, which belongs to an open dialog.
func Control(text string) string {
	return `[...document.querySelectorAll('button, a, summary')].filter(e => e.checkVisibility() && !e.disabled &&
		(e.innerText.trim() === ` + Quote(text) + ` || e.getAttribute('aria-label') === ` + Quote(text) + `)).at(-1)`
}

// Press clicks a button or link.
func (b *Browser) Press(text string) {
	b.T.Helper()
	b.Wait("the button "+text, Control(text))
	b.Do(chromedp.Evaluate[chromedp.Void](Control(text) + `.click(); undefined`))
}

// Fill sets the field with a name in the open dialog or on the page.
func (b *Browser) Fill(name, value string) {
	b.T.Helper()
	field := `[...document.querySelectorAll('[name="` + name + `"]')].filter(e => e.checkVisibility()).at(-1)`
	b.Wait("the field "+name, `(e => e && (e.tagName !== 'SELECT' || [...e.options].some(o => o.value === `+Quote(value)+`)))(`+field+`)`)
	b.Do(chromedp.Evaluate[chromedp.Void](`{ const e = ` + field + `; e.focus(); e.value = ` + Quote(value) +
		`; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); } undefined`))
}

// Text returns the text that the first element with a CSS selector shows.
func (b *Browser) Text(selector string) string {
	b.T.Helper()
	b.Wait(selector, `document.querySelector(`+Quote(selector)+`)`)
	return Evaluate[string](b, `document.querySelector(`+Quote(selector)+`).innerText`)
}

// Quote returns a text as a JavaScript literal.
func Quote(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string can be encoded
	}
	return string(literal)
}
