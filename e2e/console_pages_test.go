package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestConsolePagesAreAccessible opens every page in Chromium, light and dark, on a wide and on a narrow screen.
// axe-core must find nothing serious, and no page may be wider than the screen. Screenshots are written to
// e2e/artifacts.
func TestConsolePagesAreAccessible(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	k := newSink(t)
	k.handle("/failing", func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "out of stock", http.StatusServiceUnavailable)
	})
	hook := s.fillWebhook(k)
	s.fillOverview()
	c := newConsole(t, s)
	c.loadAxe()

	c.visit("/webhooks")
	c.check("console-signed-out")
	c.press("Sign in")
	c.wait("the sign-in page", `document.querySelector('input[name="password"]')`)
	c.submitSignIn()
	c.see("orders")
	c.wait("the sparklines", `document.querySelectorAll('.spark').length === 3`)
	c.check("console-webhooks")
	c.visit("/")
	c.see("Latest changes")
	c.see("Harbour Dashboard")
	c.wait("the pass rate", figure("Passed, 30 days")+`.includes("75%")`)
	c.see("the destination answered 503") // in the list of failing destinations
	c.wait("the plot", `document.querySelector('.plot canvas')`)
	c.check("console-overview")
	c.visit("/webhooks?new=1")
	c.see("Optional")
	c.check("console-webhook-new")
	c.visit("/webhooks/" + hook)
	c.see(`"order"`)
	c.check("console-receipts")
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.stream a').click(); undefined`))
	c.see("answered 503")
	c.check("console-receipt")
	for _, tab := range []string{"deliveries", "destinations", "analytics", "replay", "settings"} {
		c.visit("/webhooks/" + hook + "?tab=" + tab)
		switch tab {
		case "deliveries":
			c.see("answered")
		case "analytics":
			c.wait("the plot", `document.querySelector('.plot canvas')`)
		case "replay":
			c.see(" of 24")
		default:
			c.see("elete")
		}
		c.check("console-webhook-" + tab)
	}
	c.visit("/settings")
	c.see("libsql")
	c.wait("the signing keys", `[...document.querySelectorAll('.tag.good')].some((t) => t.innerText === "active")`)
	c.check("console-settings")
	c.visit("/nowhere")
	c.see("does not exist")
	c.check("console-nowhere")
	c.visit("/webhooks/wh_unknown")
	c.see("not found")
	c.check("console-not-found")
	c.do(chromedp.EmulateViewport(1280, 844))
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.search').click(); undefined`))
	c.see("Page")
	c.check("console-palette")
	c.clean()
}

// fillWebhook creates webhooks with traffic, of which one has a healthy and a failing destination and a replay.
func (s *steward) fillWebhook(k *sink) (id string) {
	s.t.Helper()
	s.call("POST", "/webhook/create", object{"name": "payments", "description": "From the bank"}).want(201)
	s.call("POST", "/webhook/create", object{"name": "a-name-that-is-so-long-that-no-screen-of-a-phone-has-room-for-it-in-one-line"}).want(201)
	hook := s.call("POST", "/webhook/create", object{"name": "orders", "description": "From the shop"}).want(201)
	id = hook.text("id")
	for _, path := range []string{"/healthy", "/failing"} {
		config := object{"url": k.URL + path, "headers": object{"X-Shop": "7"}}
		s.call("POST", "/webhook/destination-create/"+id, object{"type": "url", "config": config}).want(201)
	}
	for i := range 12 {
		body := object{"order": 1000 + i, "state": "paid", "customer": object{"name": "Ada", "city": "Zürich"}, "lines": []int{1, 2, 3}}
		s.sendJSON(hook.text("url"), body)
	}
	k.wait("/healthy", 12)
	k.wait("/failing", 12)
	s.call("POST", "/webhook/replay/"+id, object{"since": "2020-01-01T00:00:00Z"}).want(201)
	return id
}

// sendJSON sends a JSON body to a webhook.
func (s *steward) sendJSON(url string, body object) {
	s.t.Helper()
	req, err := http.NewRequest("POST", url+"?source=shop", encoded(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Signature", fmt.Sprintf("sha256=%064x", 7))
	res, err := client.Do(req)
	s.must(err)
	s.must(res.Body.Close())
	if res.StatusCode != 200 {
		s.t.Fatalf("the webhook responds with %s", res.Status)
	}
}
