package pages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestChromiumLoadsTheFrontChannel signs in at an application and out of Steward: the page, with its
// Content-Security-Policy in effect, loads the application's logout URI and then returns to the application.
func TestChromiumLoadsTheFrontChannel(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	requests := make(chan *url.URL, 10)
	rp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/favicon.ico" {
			requests <- r.URL
		}
		w.Write([]byte("<title>application</title>"))
	}))
	defer rp.Close()
	a := s.NewApplication(object{
		"redirect_uris": []string{rp.URL + "/callback"}, "post_logout_redirect_uris": []string{rp.URL + "/bye"},
		"frontchannel_logout_uri": rp.URL + "/out",
	})
	p := s.NewRelyingParty(a, "openid")
	p.Config.RedirectURL = rp.URL + "/callback"
	b := chromium.New(t)
	b.Do(chromedp.EmulateViewport(390, 844))
	// arrived waits for the browser at the application. A page that is still loading would be aborted by the next one.
	arrived := func() *url.URL {
		t.Helper()
		at := waittest.Receive(t, "the browser at the application", requests)
		waittest.True(t, "the page of the application", func() bool { return pageTitle(b) == "application" })
		return at
	}
	b.Open(p.Config.AuthCodeURL("s"))
	b.Do(chromedp.KeyEvent(installation.AdminEmail), chromedp.KeyEvent("\t"))
	b.Do(chromedp.KeyEvent(installation.AdminPassword), chromedp.KeyEvent("\r"))
	b.Do(chromedp.WaitVisible(chromedp.CSS(`button[value="approve"]`)), chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	code := arrived().Query().Get("code")
	if _, err := p.Config.Exchange(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"client_id": {a.ID}, "post_logout_redirect_uri": {rp.URL + "/bye"}}
	b.Open(s.URL + "/end_session?" + query.Encode())
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	out := waittest.Receive(t, "the front channel", requests)
	if out.Path != "/out" || out.Query().Get("iss") != s.URL || out.Query().Get("sid") == "" {
		t.Errorf("got %s", out)
	}
	if bye := arrived(); bye.Path != "/bye" {
		t.Errorf("got %s", bye)
	}

	// A page from which nobody leaves has nothing that axe finds.
	b.Open(p.Config.AuthCodeURL("s"))
	b.Do(chromedp.KeyEvent(installation.AdminEmail), chromedp.KeyEvent("\t"))
	b.Do(chromedp.KeyEvent(installation.AdminPassword), chromedp.KeyEvent("\r"))
	code = arrived().Query().Get("code")
	if _, err := p.Config.Exchange(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	b.Open(s.URL + "/end_session")
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	waittest.Receive(t, "the front channel", requests)
	b.LoadAxe()
	b.Check("signed out")
}
