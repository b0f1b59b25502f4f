package console

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestConsoleWebhooks does with a mouse what people do with webhooks: create one, add a
// destination, watch a request arrive, look at it and at its deliveries, retry, replay and delete.
// On PostgreSQL the requests arrive at another replica than that of the console.
func TestConsoleWebhooks(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		s := installation.StartWithOwner(t, "sqlite")
		useWebhooks(t, s, s)
	})
	t.Run("postgres", func(t *testing.T) {
		s := installation.StartWithOwner(t, "postgres")
		useWebhooks(t, s, s.Replica())
	})
}

func useWebhooks(t *testing.T, s, ingest *installation.Steward) {
	k := sink.New(t)
	k.Handle("/hooks", func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 2 { // after the test event
			w.Header().Set("Retry-After", "600") // the test retries it
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, "not yet")
		}
	})
	c := signedIn(t, s)
	c.visit("/webhooks")
	c.see("No webhooks yet")
	c.press("New webhook")
	c.fill("name", "orders")
	c.fill("description", "From the shop")
	c.press("Create")
	c.see("The webhook was created")
	url := strings.TrimSpace(c.text("dialog pre"))
	if !strings.HasPrefix(url, s.URL+"/in/wh_") {
		t.Fatalf("the dialog shows %q", url)
	}
	url = strings.Replace(url, s.URL, ingest.URL, 1)
	c.press("Add a destination")
	c.see("No destinations yet")

	c.press("Add destination")
	c.fill("url", "ftp://example.com")
	c.press("Add")
	c.see("Something in the form is not right")
	if kept := chromium.Evaluate[string](c.Browser, `document.querySelector('dialog [name="url"]').value`); kept != "ftp://example.com" {
		t.Errorf("the form has lost what was entered: %q", kept)
	}
	c.fill("url", k.URL+"/hooks")
	c.fill("headers", "X-Shop: 7")
	c.press("Add")
	c.see("Signing secret")
	if secret := c.text("dialog pre"); !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	c.press("Done")

	c.press("Send a test")
	c.see("It answered 200")
	c.press("Done")
	if test := k.Wait("/hooks", 1)[0]; test.Header.Get("Webhook-Signature") == "" {
		t.Errorf("the test event is not signed: %v", test.Header)
	}

	c.press("Receipts") // there are none: it is live
	c.wait("the stream", `document.querySelector('.dot.live')`)
	send(t, url, `{"order": 1042, "state": "paid", "lines": [1, 2, 3]}`)
	c.see(`"order":1042`)
	k.Wait("/hooks", 2)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.stream a').click(); undefined`))
	c.see("POST request")
	c.see("order")
	c.see("answered 500")
	c.see("attempt 2")
	c.press("Raw")
	c.see(`"lines": [1, 2, 3]`)
	c.press("Hex")
	c.see("7b 22 6f 72 64 65 72")
	c.press("Retry now")
	c.see("success")
	if got := k.Wait("/hooks", 3)[2]; got.Header.Get("X-Shop") != "7" {
		t.Errorf("the delivery has the headers %v", got.Header)
	}
	c.press("orders")

	c.press("Deliveries")
	c.see("answered 500")
	c.press("Replay")
	c.fill("status", "")
	c.press("Count")
	c.see("1 delivery would be made again.")
	c.press("Deliver 1 again")
	c.see("1 of 1")
	k.Wait("/hooks", 4)

	c.press("Analytics")
	c.wait("the plot", `document.querySelector('.plot canvas')`)
	for _, granularity := range []string{"day", "hour", "minute"} { // from a year to minutes
		c.press(map[string]string{"day": "1y", "hour": "7d", "minute": "1h"}[granularity])
		c.wait("the counts of each "+granularity, requested("granularity="+granularity))
		c.wait("the request that was received", `document.querySelector('.legend strong').innerText === '1'`)
	}
	c.press("Zoom in")
	c.wait("a shorter time", `new URLSearchParams(location.search).has('from')`)
	c.press("Zoom out")
	c.press("Settings")
	c.press("Delete webhook")
	c.see("This cannot be undone")
	c.fill("confirm", "order")
	if !chromium.Evaluate[bool](c.Browser, `document.querySelector('dialog .btn.fill').disabled`) {
		t.Error("the wrong name is enough to delete")
	}
	c.fill("confirm", "orders")
	c.wait("the button", `!document.querySelector('dialog .btn.fill').disabled`)
	c.press("Delete webhook")
	c.see("No webhooks yet")
	c.clean()
}

// requested is the expression that tells whether the page has sent a request whose address contains
// a text.
func requested(text string) string {
	return `performance.getEntriesByType('resource').some(r => r.name.includes(` + quoted(text) + `))`
}

// TestConsoleReadsTrafficOfVisibleWebhooks opens a list of 500 webhooks: the traffic is read of
// those on the screen, at most four at a time, and of others when they are scrolled to.
func TestConsoleReadsTrafficOfVisibleWebhooks(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	for i := range 500 {
		s.Call("POST", "/webhook/create", object{"name": fmt.Sprintf("hook %d", i)}).Want(201)
	}
	c := signedIn(t, s)
	c.visit("/webhooks")
	c.see("500 webhooks")
	const traffic = `performance.getEntriesByType('resource').filter(r => r.name.includes('/timeseries'))`
	const drawn = `document.querySelectorAll('svg.spark').length`
	c.wait("the sparklines", drawn+` >= 5 && `+traffic+`.length === `+drawn)
	first := chromium.Evaluate[int](c.Browser, drawn)
	if first > 40 {
		t.Errorf("%d webhooks are asked for, of which the screen shows a part", first)
	}
	c.Do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, document.body.scrollHeight); undefined`))
	c.wait("those at the end", `document.querySelector('tbody tr:last-child svg.spark')`)
	if all := chromium.Evaluate[int](c.Browser, drawn); all >= 100 {
		t.Errorf("%d webhooks are asked for, also those that were scrolled past", all)
	}
	parallel := chromium.Evaluate[int](c.Browser, `(() => { const all = `+traffic+`;
		return Math.max(...all.map(a => all.filter(b => b.startTime <= a.startTime && a.startTime < b.responseEnd).length)); })()`)
	if parallel > 4 {
		t.Errorf("%d requests at a time", parallel)
	}
	c.press("Next page")
	c.wait("the next page", `document.querySelector('tbody a')?.innerText === 'hook 399'`)
	c.clean()
}

// send sends a request to a webhook.
func send(t testing.TB, url, body string) {
	t.Helper()
	res, err := installation.Client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("the webhook responds with %s", res.Status)
	}
}
