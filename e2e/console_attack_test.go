package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// markup is what an attacker stores to have it executed in the console of others.
const markup = `<img src=x onerror=smuggled()><script>smuggled()</script>"'></textarea></pre><svg onload=smuggled()>{@html smuggled()}`

// TestConsoleShowsStoredMarkupAsText stores markup in every text that the pages show, opens all of them, and
// checks that nothing was executed and that no element was made of it.
func TestConsoleShowsStoredMarkupAsText(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	k := newSink(t)
	k.handle("/x", func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Answer", markup)
		http.Error(w, markup, 500)
	})
	hook := s.call("POST", "/webhook/create", object{"name": markup, "description": markup}).want(201)
	id := hook.text("id")
	config := object{"url": k.URL + "/x?q=<script>smuggled()</script>", "headers": object{"X-Evil": markup}}
	s.call("POST", "/webhook/destination-create/"+id, object{"type": "url", "config": config}).want(201)
	receipts := map[string]string{
		"application/json": `{"<img src=x onerror=smuggled()>": ` + quoted(markup) + `}`,
		"text/html":        markup,
	}
	for contentType, body := range receipts {
		req, err := http.NewRequest("POST", hook.text("url")+"?q=%3Cscript%3Esmuggled()%3C/script%3E", strings.NewReader(body))
		s.must(err)
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-Evil", markup)
		req.Header.Set("User-Agent", markup)
		res, err := client.Do(req)
		s.must(err)
		s.must(res.Body.Close())
		if res.StatusCode != 200 {
			t.Fatalf("got %s", res.Status)
		}
	}
	k.wait("/x", 2)
	var list []struct{ ID string }
	s.call("GET", "/webhook/receipt-list/"+id, nil).want(200).decode(&list)

	c := signedIn(t, s)
	pages := []string{"/", "/webhooks", "/webhooks/" + id, "/settings"}
	for _, tab := range []string{"deliveries", "destinations", "analytics", "replay", "settings"} {
		pages = append(pages, "/webhooks/"+id+"?tab="+tab)
	}
	for _, r := range list {
		for _, view := range []string{"", "?body=raw", "?body=hex"} {
			pages = append(pages, "/webhooks/"+id+"/receipts/"+r.ID+view)
		}
	}
	pages = append(pages, "/webhooks/%3Cscript%3Esmuggled()%3C%2Fscript%3E", "/webhooks?cursor=%3Cscript%3E")
	for _, page := range pages {
		c.visit(page)
		c.wait("the content of "+page, `document.querySelector('#content .card, #content .failure')`)
		c.wait("what is loaded on "+page, `![...document.querySelectorAll('.loading')].some(e => e.innerText === 'Loading…')`)
		if made := evaluate[int](c.chromium, `document.querySelectorAll('#app img, #app script, #app [onerror], #app [onload]').length`); made != 0 {
			t.Errorf("%s: %d elements were made of stored markup", page, made)
		}
		c.clean()
	}
}

// TestConsoleCannotBeFramedAndItsCookieIsNotForScripts looks at the console from another site and from a script.
func TestConsoleCannotBeFramedAndItsCookieIsNotForScripts(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<h1>evil</h1><iframe src="` + s.URL + `/console/"></iframe>
			<form method="post" action="` + s.URL + `/console/api/webhook/create"><button>Win a prize</button></form>
			<script>fetch("` + s.URL + `/console/api/webhook/create", {method: "POST", credentials: "include",
				headers: {"X-Steward-Console": "1", "Content-Type": "application/json"}, body: '{"name":"csrf"}'})
				.catch(e => e).then(r => window.result = String(r));</script>`))
	}))
	defer evil.Close()
	address := strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)
	c := signedIn(t, s)
	if cookie := evaluate[string](c.chromium, `document.cookie`); strings.Contains(cookie, "steward") {
		t.Errorf("a script reads %q", cookie)
	}
	c.clean()
	c.do(chromedp.Navigate(address))
	c.wait("the request of the other site", `window.result`)
	if got := evaluate[string](c.chromium, `window.result`); !strings.Contains(got, "TypeError") {
		t.Errorf("a script of another site gets %s", got)
	}
	framed := evaluate[string](c.chromium, `try { document.querySelector('iframe').contentDocument?.body.innerText ?? 'refused' } catch { 'refused' }`)
	if strings.Contains(framed, "Steward") {
		t.Errorf("the frame shows %q", framed)
	}
	c.do(chromedp.Click(chromedp.CSS(`button`)))
	c.wait("the answer to the form", `document.body.innerText.includes('forbidden')`)
	if list := s.call("GET", "/webhook/list", nil).want(200).body; strings.TrimSpace(string(list)) != "[]" {
		t.Errorf("another site has created %s", list)
	}
}

// TestConsoleLinksFromOtherSitesWork opens a page by a link of another site, with which the browser sends no
// cookie of the console, and expects to be signed in there.
func TestConsoleLinksFromOtherSitesWork(t *testing.T) {
	s := startWithOwner(t, "sqlite")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<a href="` + s.URL + `/console/webhooks">webhooks</a>`))
	}))
	defer other.Close()
	c := signedIn(t, s)
	c.do(chromedp.Navigate(strings.Replace(other.URL, "127.0.0.1", "localhost", 1)))
	c.do(chromedp.Click(chromedp.CSS(`a`)))
	c.see("No webhooks yet")
	c.clean()
}
