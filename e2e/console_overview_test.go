package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// blocked lets requests to matching URLs fail. Without a pattern all are let through again.
func (c *console) blocked(pattern string) {
	c.t.Helper()
	_, err := chromedp.Call(c.ctx, network.Enable, network.EnableParams{})
	c.s.must(err)
	params := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{}}
	if pattern != "" {
		params.URLPatterns = []*network.BlockPattern{{URLPattern: pattern, Block: true}}
	}
	_, err = chromedp.Call(c.ctx, network.SetBlockedURLs, params)
	c.s.must(err)
}

// figure is the expression of the text of the number with a name.
func figure(label string) string {
	return `[...document.querySelectorAll('.figure')].find((f) => f.querySelector('dt').innerText === ` + quoted(label) + `)?.innerText ?? ''`
}

// TestConsoleOverview looks at what the page says about webhooks, storage, apps and evaluations. A
// block that cannot be read says so; the others are shown.
func TestConsoleOverview(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.see("Receive your first webhook")
	c.see("No app lets people sign in yet")
	c.see("No evaluation has ended in the last 30 days")
	c.see("No destination is failing")

	k := newSink(t)
	k.handle("/failing", func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "out of stock", http.StatusServiceUnavailable)
	})
	s.fillWebhook(k)
	s.fillOverview()
	c.visit("/")
	c.wait("received", figure("Received, 24 h")+`.includes("12")`)
	c.wait("waiting", figure("Waiting deliveries")+`.includes("oldest due")`)
	c.wait("stored", figure("Stored")+`.includes("2.5 kB")`)
	c.wait("cost", figure("Storage a month")+`.includes("$0.02 per GB")`)
	c.wait("pass rate", figure("Passed, 30 days")+`.includes("75%")`)
	c.wait("users of the app", `[...document.querySelectorAll('a.item')].some((a) => /Harbour Dashboard\s+1$/.test(a.innerText))`)
	c.see("the destination answered 503")
	c.see("Account signed in")
	c.see("Key-value stores")
	c.wait("the plot", `document.querySelector('.plot canvas')`)

	c.blocked("*://*:*/console/api/storage/analytics*")
	c.visit("/")
	c.wait("received", figure("Received, 24 h")+`.includes("12")`)
	c.wait("the failure", figure("Stored")+`.includes("Try again")`)
	c.wait("pass rate", figure("Passed, 30 days")+`.includes("75%")`)
	c.blocked("")
	c.press("Try again")
	c.wait("stored", figure("Stored")+`.includes("2.5 kB")`)
	c.clean()
}

// fillWebhook creates webhooks with traffic, of which one has a healthy and a failing destination
// and a replay.
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
		text, err := json.Marshal(body)
		s.must(err)
		send(s.t, hook.text("url"), string(text))
	}
	k.wait("/healthy", 12)
	k.wait("/failing", 12)
	s.call("POST", "/webhook/replay/"+id, object{"since": "2020-01-01T00:00:00Z"}).want(201)
	return id
}

// fillOverview stores an object, lets a user sign in to an app, and runs evaluations, of which
// three in four pass.
func (s *steward) fillOverview() {
	s.t.Helper()
	s.bucket("photos").put("a", strings.Repeat("x", 2500))
	s.signIn(s.application(object{}))
	s.call("POST", "/oidc/clients", object{"name": "Reports", "description": "", "homepage_url": "https://reports.example.com", "redirect_uris": []string{redirectURI}}).want(200)
	now := time.Now()
	for i := range 60 {
		id := fmt.Sprint("run-", i)
		s.call("POST", "/evalrun", object{
			"id": id, "sessionId": "s1", "evalId": "polite", "orgId": s.orgID, "projectId": "p1",
			"timestamp": now.AddDate(0, 0, -i%15).UnixMilli(),
		}).want(201)
		s.call("PUT", "/evalrun", object{"id": id, "result": object{"success": i%4 > 0}}).want(200)
	}
}

// TestConsoleAuditFilters finds entries by what was changed, what was done, who did it with which
// key, and when. The filters are in the address.
func TestConsoleAuditFilters(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	made := s.call("POST", "/cli/apikey", object{"name": "deploy"}).want(201)
	byKey := s.as(made.text("value"))
	hook := byKey.call("POST", "/webhook/create", object{"name": "orders"}).want(201).text("id")
	s.call("POST", "/webhook/create", object{"name": "payments"}).want(201)
	s.call("PUT", "/webhook/update/"+hook, object{"name": "orders 2"}).want(200)
	c := signedIn(t, s)
	c.visit("/audit")
	c.see("API key created")
	c.fill("kind", "webhook")
	lines := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll("#content .list > li").length === %d`, n)
	}
	c.wait("three lines", lines(3))
	c.fill("verb", "create")
	c.wait("two lines", lines(2))
	c.fill("who", made.text("id"))
	c.wait("one line", lines(1)+` && location.search === "?kind=webhook&verb=create&who=`+made.text("id")+`"`)
	c.see(hook)
	c.press("Clear")
	c.fill("target", hook)
	c.wait("two lines", lines(2))
	c.visit("/audit?target=" + hook + "&from=2020-01-01&to=2020-02-01")
	c.see("Nothing matches")
	c.visit("/audit?kind=webhook&verb=update")
	c.wait("one line", lines(1))
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#content .list button').click(); undefined`))
	c.see("webhook.update")
	c.press("All changes of this")
	c.wait("two lines", lines(2))
	c.clean()
}
