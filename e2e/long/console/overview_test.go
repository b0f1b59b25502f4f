package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/e2e/sink"
)

// blocked lets requests to matching URLs fail. Without a pattern all are let through again.
func (c *console) blocked(pattern string) {
	c.T.Helper()
	chromium.Call(c.Browser, network.Enable, network.EnableParams{})
	params := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{}}
	if pattern != "" {
		params.URLPatterns = []*network.BlockPattern{{URLPattern: pattern, Block: true}}
	}
	chromium.Call(c.Browser, network.SetBlockedURLs, params)
}

// figure is the expression of the text of the number with a name.
func figure(label string) string {
	return `[...document.querySelectorAll('.figure')].find((f) => f.querySelector('dt').innerText === ` + chromium.Quote(label) + `)?.innerText ?? ''`
}

// TestConsoleOverview looks at what the page says about webhooks, storage, apps and evaluations. A
// block that cannot be read says so; the others are shown.
func TestConsoleOverview(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite", "--storage-prices", "STANDARD=0.02")
	c := signedIn(t, s)
	c.See("Receive your first webhook")
	c.See("No app lets people sign in yet")
	c.See("No evaluation has ended in the last 30 days")
	c.See("No destination is failing")

	k := sink.New(t)
	k.Handle("/failing", func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "out of stock", http.StatusServiceUnavailable)
	})
	fillWebhook(s, k)
	fillOverview(s)
	c.visit("/")
	c.Wait("received", figure("Received, 24 h")+`.includes("12")`)
	c.Wait("waiting", figure("Waiting deliveries")+`.includes("oldest due")`)
	c.Wait("stored", figure("Stored")+`.includes("2.5 kB")`)
	c.Wait("cost", figure("Storage a month")+`.includes("$0.02 per GB")`)
	c.Wait("pass rate", figure("Passed, 30 days")+`.includes("75%")`)
	c.Wait("users of the app", `[...document.querySelectorAll('a.item')].some((a) => /Harbour Dashboard\s+1$/.test(a.innerText))`)
	c.See("the destination answered 503")
	c.See("Account signed in")
	c.See("Key-value stores")
	c.Wait("the plot", `document.querySelector('.plot canvas')`)

	c.blocked("*://*:*/console/api/storage/analytics*")
	c.visit("/")
	c.Wait("received", figure("Received, 24 h")+`.includes("12")`)
	c.Wait("the failure", figure("Stored")+`.includes("Try again")`)
	c.Wait("pass rate", figure("Passed, 30 days")+`.includes("75%")`)
	c.blocked("")
	c.Press("Try again")
	c.Wait("stored", figure("Stored")+`.includes("2.5 kB")`)
	c.Clean()
}

// fillWebhook creates webhooks with traffic, of which one has a healthy and a failing destination
// and a replay.
func fillWebhook(s *installation.Steward, k *sink.Sink) (id string) {
	s.T.Helper()
	s.Call("POST", "/webhook/create", object{"name": "payments", "description": "From the bank"}).Want(201)
	s.Call("POST", "/webhook/create", object{"name": "a-name-that-is-so-long-that-no-screen-of-a-phone-has-room-for-it-in-one-line"}).Want(201)
	hook := s.Call("POST", "/webhook/create", object{"name": "orders", "description": "From the shop"}).Want(201)
	id = hook.Text("id")
	for _, path := range []string{"/healthy", "/failing"} {
		config := object{"url": k.URL + path, "headers": object{"X-Shop": "7"}}
		s.Call("POST", "/webhook/destination-create/"+id, object{"type": "url", "config": config}).Want(201)
	}
	for i := range 12 {
		body := object{"order": 1000 + i, "state": "paid", "customer": object{"name": "Ada", "city": "Zürich"}, "lines": []int{1, 2, 3}}
		text, err := json.Marshal(body)
		s.Must(err)
		send(s.T, hook.Text("url"), string(text))
	}
	k.Wait("/healthy", 12)
	k.Wait("/failing", 12)
	s.Call("POST", "/webhook/replay/"+id, object{"since": "2020-01-01T00:00:00Z"}).Want(201)
	return id
}

// fillOverview stores an object, lets a user sign in to an app, and runs evaluations, of which
// three in four pass.
func fillOverview(s *installation.Steward) {
	s.T.Helper()
	s.NewBucket("photos").Put("a", strings.Repeat("x", 2500))
	s.SignIn(s.NewApplication(object{}))
	s.Call("POST", "/oidc/clients", object{"name": "Reports", "description": "", "homepage_url": "https://reports.example.com", "redirect_uris": []string{installation.RedirectURI}}).Want(200)
	now := time.Now()
	for i := range 60 {
		id := fmt.Sprint("run-", i)
		s.Call("POST", "/evalrun", object{
			"id": id, "sessionId": "s1", "evalId": "polite", "orgId": s.OrgID, "projectId": "p1",
			"timestamp": now.AddDate(0, 0, -i%15).UnixMilli(),
		}).Want(201)
		s.Call("PUT", "/evalrun", object{"id": id, "result": object{"success": i%4 > 0}}).Want(200)
	}
}

// TestConsoleAuditFilters finds entries by what was changed, what was done, who did it with which
// key, and when. The filters are in the address.
func TestConsoleAuditFilters(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	made := s.Call("POST", "/cli/apikey", object{"name": "deploy"}).Want(201)
	byKey := s.As(made.Text("value"))
	hook := byKey.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201).Text("id")
	s.Call("POST", "/webhook/create", object{"name": "payments"}).Want(201)
	s.Call("PUT", "/webhook/update/"+hook, object{"name": "orders 2"}).Want(200)
	c := signedIn(t, s)
	c.visit("/audit")
	c.See("API key created")
	c.Fill("kind", "webhook")
	lines := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll("#content .list > li").length === %d`, n)
	}
	c.Wait("three lines", lines(3))
	c.Fill("verb", "create")
	c.Wait("two lines", lines(2))
	c.Fill("who", made.Text("id"))
	c.Wait("one line", lines(1)+` && location.search === "?kind=webhook&verb=create&who=`+made.Text("id")+`"`)
	c.See(hook)
	c.Press("Clear")
	c.Fill("target", hook)
	c.Wait("two lines", lines(2))
	c.visit("/audit?target=" + hook + "&from=2020-01-01&to=2020-02-01")
	c.See("Nothing matches")
	c.visit("/audit?kind=webhook&verb=update")
	c.Wait("one line", lines(1))
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#content .list button').click(); undefined`))
	c.See("webhook.update")
	c.Press("All changes of this")
	c.Wait("two lines", lines(2))
	c.Clean()
}
