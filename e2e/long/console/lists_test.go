package console

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestListsOfAWebhookAskOnceForAPage opens receipts and deliveries of twenty events, of which one is
// failing, and counts the requests that fill the pages.
func TestListsOfAWebhookAskOnceForAPage(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	k.Handle("/hooks", func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 20 {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	h := s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hooks", "concurrency", 1)
	for n := range 20 {
		s.Ingest(h, fmt.Sprintf(`{"order":%d}`, n+1))
	}
	waittest.True(t, "the first attempts to end", func() bool {
		return s.CountDeliveries(h, "&status=success")+s.CountDeliveries(h, "&status=failed") == 20
	})
	c := signedIn(t, s)
	asked := `performance.getEntriesByType('resource').map(e => new URL(e.name).pathname).filter(p => /webhook\/(receipt|delivery)-/.test(p))`
	want := func(path, list string) {
		t.Helper()
		if got := chromium.Evaluate[[]string](c.Browser, asked); len(got) != 1 || got[0] != "/console/api/webhook/"+list+"/"+h.ID {
			t.Errorf("%s is filled by %v", path, got)
		}
		c.Clean()
	}
	c.visit("/webhooks/" + h.ID + "?tab=receipts&limit=50")
	c.Wait("all receipts with their states", `document.querySelectorAll('[data-row] .dot.good').length === 19 &&
		document.querySelectorAll('[data-row] .dot.bad').length === 1`)
	want("the page of receipts", "receipt-list")
	c.visit("/webhooks/" + h.ID + "?tab=deliveries&status=success")
	for _, n := range []int{1, 19} {
		c.See(fmt.Sprintf(`{"order":%d}`, n))
	}
	want("the page of deliveries", "delivery-list")
}

// TestNothingIsCoveredOrClipped measures the button that copies a URL, and the menu of the account.
func TestNothingIsCoveredOrClipped(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	h := s.NewHook("orders")
	c := signedIn(t, s)
	for _, width := range []int64{1280, 390} {
		c.Do(chromedp.EmulateViewport(width, 900))
		c.visit("/webhooks/" + h.ID + "?tab=settings")
		c.Press("Show the URL")
		c.See(h.Path)
		if covered := chromium.Evaluate[bool](c.Browser, `(() => {
			const text = document.querySelector('.secret .code pre').getBoundingClientRect();
			const button = document.querySelector('.secret .code .btn').getBoundingClientRect();
			return text.right > button.left && button.right > text.left && text.bottom > button.top && button.bottom > text.top;
		})()`); covered {
			t.Errorf("at %d pixels the button covers the URL", width)
		}
	}
	c.Do(chromedp.EmulateViewport(1280, 900))
	c.visit("/")
	c.Do(chromedp.Click(chromedp.CSS(`.who`)))
	c.Wait("the menu", `document.querySelector('.sheet.up')`)
	if clipped := chromium.Evaluate[[]string](c.Browser, `[...document.querySelectorAll('.sheet.up, .sheet.up *')].filter(e => {
		const r = e.getBoundingClientRect(), nav = document.querySelector('.sheet.up').closest('nav, aside').getBoundingClientRect();
		return r.width && (r.left < nav.left || r.right > nav.right + 1);
	}).map(e => e.outerHTML.slice(0, 100))`); len(clipped) > 0 {
		t.Errorf("the sidebar clips %v", clipped)
	}
	c.Clean()
}
