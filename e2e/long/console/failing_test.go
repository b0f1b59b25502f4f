package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
)

// refuse makes a path answer 503, and tells the sender to wait for half an hour.
func refuse(k *sink.Sink, path string) {
	k.Status(path, http.StatusServiceUnavailable, "Retry-After", "1800")
}

// rows is the expression of the texts of the rows of a table.
const rows = `[...document.querySelectorAll('#content tbody tr')].map(r => r.innerText)`

// TestConsoleShowsWhatIsFailing lets more deliveries of a destination wait for a retry than a page
// of them has, and looks for them on every page that says how a destination is doing. Another
// webhook is healthy.
func TestConsoleShowsWhatIsFailing(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	refuse(k, "/newsletter")
	orders, payments := s.NewHook("orders"), s.NewHook("payments")
	s.NewDestination(orders, k.URL+"/newsletter")
	s.NewDestination(payments, k.URL+"/accounting")
	const sent = 130
	for i := range sent {
		s.Ingest(orders, fmt.Sprintf(`{"n": %d}`, i))
	}
	s.Ingest(payments, `{"n": 1}`)
	k.Wait("/newsletter", sent)
	k.Wait("/accounting", 1)

	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/")
	c.Wait("webhook and path of the failing destination", `[...document.querySelectorAll('a.item')].some(a => /orders\s+127\.0\.0\.1[:\d]*\/newsletter[^]*answered 503[^]*130 deliveries/.test(a.innerText))`)
	c.visit("/webhooks")
	c.Wait("the mark on the failing webhook alone", rows+`.filter(r => r.includes('failing')).join() === `+rows+`.filter(r => r.startsWith('orders')).join()`)
	c.misses("not marked")
	c.Check("console-webhooks-failing")

	c.at("/webhooks/"+orders.ID+"?tab=destinations", "the destination answered 503")
	c.Wait("the badge and the dots", `document.querySelector('section .tag.bad')?.innerText === 'failing' && document.querySelectorAll('.dots .dot.bad').length === 20`)
	c.See("0 of the last 20 deliveries succeeded")
	c.See("130 wait for a retry; the next one is due in")
	c.Check("console-destinations-failing")
	c.at("/webhooks/"+payments.ID+"?tab=destinations", "1 of the last 1 delivery succeeded")
	c.See("healthy")

	c.seeWaitingDeliveries(orders)
	c.recover(k, orders)
	c.Clean()
}

// seeWaitingDeliveries opens the deliveries of a webhook, all of which wait for a retry, and counts
// those that a replay would deliver.
func (c *console) seeWaitingDeliveries(h installation.Hook) {
	c.T.Helper()
	c.visit("/webhooks/" + h.ID)
	c.Press("Deliveries")
	c.Wait("what failed, with the next attempt", rows+`.length === 50 && `+rows+`.every(r => /failed\s+in \d+ min[^]*answered 503/.test(r))`)
	c.Wait("the filter", `document.querySelector('[name=status]').value === 'failing'`)
	c.See("130 deliveries")
	if asked := chromium.Evaluate[int](c.Browser, `performance.getEntriesByType('resource').filter(e => e.name.includes('receiptId=')).length`); asked != 0 {
		c.T.Errorf("the list made %d requests for single receipts", asked)
	}
	c.Check("console-deliveries-failing")
	c.Fill("status", "waiting")
	c.Wait("what waits", rows+`.length === 50 && `+rows+`.every(r => /waiting\s+in \d+ min[^]*the attempt before failed/.test(r))`)
	c.See("130 deliveries")
	c.Check("console-deliveries-waiting")
	c.Press("Replay")
	for _, status := range []string{"failed", "waiting"} {
		c.Fill("status", status)
		c.Press("Count")
		c.See("130 deliveries would be made again.")
	}
	c.Fill("status", "success")
	c.Press("Count")
	c.See("Nothing matches")
}

// recover retries all that waits, after the destination has been mended.
func (c *console) recover(k *sink.Sink, h installation.Hook) {
	c.T.Helper()
	c.at("/webhooks/"+h.ID+"?tab=destinations", "Retry all waiting now")
	c.Press("Disable")
	c.See("Enable it before you retry")
	c.misses("Retry all waiting now")
	c.Check("console-destinations-disabled")
	c.Press("Enable")
	c.misses("Enable it before you retry")
	k.Handle("/newsletter", nil)
	c.Press("Retry all waiting now")
	c.See("130 deliveries wait for a retry")
	c.Check("console-destinations-recover")
	c.Fill("rate", "1001")
	c.Press("Retry 130 deliveries")
	c.See("Something in the form is not right")
	c.Fill("rate", "1000")
	c.Press("Retry 130 deliveries")
	c.See("130 deliveries are retried now.")
	k.Wait("/newsletter", 260)
	c.See("healthy")
	c.misses("failing")
	c.See("20 of the last 20 deliveries succeeded")
}

// TestConsoleListsFailingDeliveriesOnce lists what is failing once each, with what comes next, and
// leaves out what was delivered later.
func TestConsoleListsFailingDeliveriesOnce(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	refuse(k, "/waits")
	k.Status("/gone-wrong", http.StatusBadRequest)
	k.Handle("/recovers", func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	h := s.NewHook("orders")
	s.NewDestination(h, k.URL+"/waits")
	s.NewDestination(h, k.URL+"/gone-wrong", "max_retries", 0)
	s.NewDestination(h, k.URL+"/recovers")
	s.Ingest(h, `{"n": 1}`)
	k.Wait("/recovers", 2)
	k.Wait("/waits", 1)
	k.Wait("/gone-wrong", 1)

	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/webhooks/" + h.ID + "?tab=deliveries&status=failing")
	c.Wait("the two that fail", rows+`.length === 2`)
	c.Wait("the next attempt", rows+`.some(r => /in \d+ min[^]*\/waits\s+\{"n": 1\} · \w{6}\s+answered 503/.test(r)) && `+rows+`.some(r => /none left[^]*\/gone-wrong\s+\{"n": 1\} · \w{6}\s+answered 400/.test(r))`)
	c.See("2 deliveries")
	c.Check("console-deliveries-failing-once")
	c.Fill("status", "failed")
	c.Wait("the one that was delivered later", rows+`.length === 3 && `+rows+`.some(r => /attempted again[^]*\/recovers\s+\{"n": 1\} · \w{6}\s+answered 502/.test(r))`)
	c.Fill("status", "all")
	c.Wait("all attempts", rows+`.length === 5 && `+rows+`.some(r => /waiting[^]*\/waits\s+\{"n": 1\} · \w{6}\s+the attempt before failed/.test(r))`)
	k.Handle("/waits", nil)
	c.Fill("status", "failing")
	c.Wait("the two that fail", rows+`.length === 2`)
	c.Do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('/waits')).querySelector('button').click(); undefined`))
	k.Wait("/waits", 2)
	c.Wait("the one that still fails", rows+`.length === 1`)
	c.Clean()
}

// testShowsTheFirstRequest opens a webhook that has received nothing: its first request
// appears without a reload, and so do those that follow.
func testShowsTheFirstRequest(t *testing.T, s *installation.Steward) {
	h := s.NewHook("orders")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/webhooks/" + h.ID)
	c.See("Waiting for the first request")
	c.Wait("the stream", `document.querySelector('.dot.live')`)
	c.Check("console-webhook-listening")
	for i := range 2 {
		s.Ingest(h, fmt.Sprintf(`{"n": %d}`, i))
		c.Wait("the request", rowCount+fmt.Sprintf(` === %d`, i+1))
	}
	c.Press("Stop")
	c.Wait("the filters", `document.querySelector('[name=status]')`)
	c.See("2 receipts")
	if loads := chromium.Evaluate[int](c.Browser, `performance.getEntriesByType('navigation').length`); loads != 1 {
		t.Errorf("the page was loaded %d times", loads)
	}
	c.Clean()
}

// TestConsoleListsSystemWebhooksApart shows the webhooks of the system in a list of their own, also where
// there are more of them than a page has.
func TestConsoleListsSystemWebhooksApart(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	s.NewHook("orders")
	const system = 101
	for i := range system {
		s.Call("POST", "/webhook/create", object{"name": fmt.Sprintf("Bucket %d", i), "internal": true}).Want(201)
	}
	c.at("/webhooks", "orders")
	c.See("1 webhook")
	c.Check("console-webhooks-system")
	c.Wait("those of users alone", rows+`.length === 1`)
	c.Press("System webhooks")
	c.Wait("those of the system", rows+`.length === 100 && `+rows+`.every(r => r.startsWith('Bucket'))`)
	c.See("101 webhooks")
	c.Check("console-webhooks-system-open")
	c.Press("Next page")
	c.Wait("the last one of the system", rows+`.length === 1 && `+rows+`[0].startsWith('Bucket 0')`)
	c.Clean()
}

// TestConsoleMasksHeadersForViewers opens a receipt whose headers have a credential: viewers see
// that there is one, and why it is not shown.
func TestConsoleMasksHeadersForViewers(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.Invite("grace@example.com", "viewer")
	h := s.NewHook("orders")
	receipt := s.Ingest(h, `{"n": 1}`, "Authorization", "Bearer of-the-shop", "X-Shop", "seven")
	const hint = "shown as *** to viewers"
	page := "/webhooks/" + h.ID + "/receipts/" + receipt

	c := signedIn(t, s)
	c.at(page, "Bearer of-the-shop")
	c.misses(hint)
	viewer := newConsole(t, s)
	viewer.LoadAxe()
	viewer.visit(page)
	viewer.signInAs("grace@example.com", "a first password")
	viewer.See(hint)
	viewer.See("seven")
	if text := viewer.Text("#content"); strings.Contains(text, "of-the-shop") {
		t.Errorf("a viewer sees %s", text)
	}
	viewer.Check("console-receipt-viewer")
	viewer.Clean()
}
