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
	c.See("No webhooks yet")
	c.Press("New webhook")
	c.Fill("name", "orders")
	c.Fill("description", "From the shop")
	c.Press("Create")
	c.See("The webhook was created")
	url := strings.TrimSpace(c.Text("dialog pre"))
	if !strings.HasPrefix(url, s.URL+"/in/wh_") {
		t.Fatalf("the dialog shows %q", url)
	}
	url = strings.Replace(url, s.URL, ingest.URL, 1)
	c.Press("Add a destination")
	c.See("No destinations yet")

	c.Press("Add destination")
	c.Fill("url", "ftp://example.com")
	c.Press("Add")
	c.See("Something in the form is not right")
	if kept := chromium.Evaluate[string](c.Browser, `document.querySelector('dialog [name="url"]').value`); kept != "ftp://example.com" {
		t.Errorf("the form has lost what was entered: %q", kept)
	}
	c.Fill("url", k.URL+"/hooks")
	c.Fill("headers", "X-Shop: 7")
	c.Press("Add")
	c.See("Signing secret")
	if secret := c.Text("dialog pre"); !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	c.Press("Done")

	c.Press("Send a test")
	c.See("It answered 200")
	c.Press("Done")
	if test := k.Wait("/hooks", 1)[0]; test.Header.Get("Webhook-Signature") == "" {
		t.Errorf("the test event is not signed: %v", test.Header)
	}

	c.Press("Receipts") // there are none: it is live
	c.Wait("the stream", `document.querySelector('.dot.live')`)
	send(t, url, `{"order": 1042, "state": "paid", "lines": [1, 2, 3]}`)
	c.See(`"order":1042`)
	k.Wait("/hooks", 2)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.stream a').click(); undefined`))
	c.See("POST request")
	c.See("order")
	c.See("answered 500")
	c.See("attempt 2")
	c.Press("Raw")
	c.See(`"lines": [1, 2, 3]`)
	c.Press("Hex")
	c.See("7b 22 6f 72 64 65 72")
	c.Press("Retry now")
	c.See("success")
	if got := k.Wait("/hooks", 3)[2]; got.Header.Get("X-Shop") != "7" {
		t.Errorf("the delivery has the headers %v", got.Header)
	}
	c.Press("orders")

	c.Press("Deliveries")
	c.See("answered 500")
	c.Press("Replay")
	c.Fill("status", "")
	c.Press("Count")
	c.See("1 delivery would be made again.")
	c.Press("Deliver 1 again")
	c.See("1 of 1")
	k.Wait("/hooks", 4)

	c.Press("Analytics")
	c.Wait("the plot", `document.querySelector('.plot canvas')`)
	for _, granularity := range []string{"day", "hour", "minute"} { // from a year to minutes
		c.Press(map[string]string{"day": "1y", "hour": "7d", "minute": "1h"}[granularity])
		c.Wait("the counts of each "+granularity, requested("granularity="+granularity))
		c.Wait("the request that was received", `document.querySelector('.legend strong').innerText === '1'`)
	}
	c.Press("Zoom in")
	c.Wait("a shorter time", `new URLSearchParams(location.search).has('from')`)
	c.Press("Zoom out")
	c.Press("Settings")
	c.Press("Delete webhook")
	c.See("This cannot be undone")
	c.Fill("confirm", "order")
	if !chromium.Evaluate[bool](c.Browser, `document.querySelector('dialog .btn.fill').disabled`) {
		t.Error("the wrong name is enough to delete")
	}
	c.Fill("confirm", "orders")
	c.Wait("the button", `!document.querySelector('dialog .btn.fill').disabled`)
	c.Press("Delete webhook")
	c.See("No webhooks yet")
	c.Clean()
}

// requested is the expression that tells whether the page has sent a request whose address contains
// a text.
func requested(text string) string {
	return `performance.getEntriesByType('resource').some(r => r.name.includes(` + chromium.Quote(text) + `))`
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
	c.See("500 webhooks")
	const traffic = `performance.getEntriesByType('resource').filter(r => r.name.includes('/timeseries'))`
	const drawn = `document.querySelectorAll('svg.spark').length`
	c.Wait("the sparklines", drawn+` >= 5 && `+traffic+`.length === `+drawn)
	first := chromium.Evaluate[int](c.Browser, drawn)
	if first > 40 {
		t.Errorf("%d webhooks are asked for, of which the screen shows a part", first)
	}
	c.Do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, document.body.scrollHeight); undefined`))
	c.Wait("those at the end", `document.querySelector('tbody tr:last-child svg.spark')`)
	if all := chromium.Evaluate[int](c.Browser, drawn); all >= 100 {
		t.Errorf("%d webhooks are asked for, also those that were scrolled past", all)
	}
	parallel := chromium.Evaluate[int](c.Browser, `(() => { const all = `+traffic+`;
		return Math.max(...all.map(a => all.filter(b => b.startTime <= a.startTime && a.startTime < b.responseEnd).length)); })()`)
	if parallel > 4 {
		t.Errorf("%d requests at a time", parallel)
	}
	c.Press("Next page")
	c.Wait("the next page", `document.querySelector('tbody a')?.innerText === 'hook 399'`)
	c.Clean()
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
