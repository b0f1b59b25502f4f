package pages

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/oauth2"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestFormPostAndLogoutFromAnotherSiteWithChromium signs in with response_mode=form_post and signs
// out with a POST. The application is another site than Steward, so the browser sends no cookie of
// the session with that POST. After the sign-in it redirects to one more host, which form-action
// must allow.
func TestFormPostAndLogoutFromAnotherSiteWithChromium(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<title>home</title>`)
	}))
	defer elsewhere.Close()
	forms := make(chan url.Values, 1)
	left := make(chan string, 1)
	mux := http.NewServeMux()
	rp := httptest.NewUnstartedServer(mux)
	origin := strings.Replace("http://"+rp.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
	mux.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() == nil {
			forms <- r.PostForm
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusSeeOther)
	})
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/end_session">
			<input type="hidden" name="id_token_hint" value="%s"><input type="hidden" name="state" value="s1">
			<input type="hidden" name="post_logout_redirect_uri" value="%s/bye">
			<button type="submit">Sign out</button></form>`, s.URL, html.EscapeString(r.URL.Query().Get("hint")), origin)
	})
	mux.HandleFunc("GET /bye", func(w http.ResponseWriter, r *http.Request) {
		left <- r.URL.RawQuery
		fmt.Fprint(w, `<title>bye</title>`)
	})
	rp.Start()
	defer rp.Close()
	a := s.NewApplication(object{
		"redirect_uris": []string{origin + "/callback"}, "post_logout_redirect_uris": []string{origin + "/bye"},
	})
	p := s.NewRelyingParty(a, "openid")
	p.Config.RedirectURL = origin + "/callback"

	b := chromium.New(t)
	b.Open(p.Config.AuthCodeURL("st", oauth2.SetAuthURLParam("response_mode", "form_post")))
	b.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	b.Do(chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	form := waittest.Receive(t, "the form at the application", forms)
	if form.Get("state") != "st" || form.Get("iss") != s.URL {
		t.Errorf("got %v", form)
	}
	waittest.True(t, "the page after the redirect", func() bool { return pageTitle(b) == "home" })
	token, err := p.Config.Exchange(t.Context(), form.Get("code"))
	s.Must(err)
	hint, _ := token.Extra("id_token").(string)

	b.Do(chromedp.Navigate(origin+"/logout?hint="+hint), chromedp.Click(chromedp.CSS(`button`)))
	if query := waittest.Receive(t, "the browser after the logout", left); query != "state=s1" {
		t.Errorf("got %s", query)
	}
	waittest.True(t, "the page after the logout", func() bool { return pageTitle(b) == "bye" })
	b.Do(chromedp.Navigate(s.URL + "/account"))
	b.Do(chromedp.WaitVisible(chromedp.CSS(`input[name="password"]`))) // the sign-in page
}

// pageTitle returns the title of the page, or "" of one that is being left or opened, which cannot be asked.
func pageTitle(b *chromium.Browser) string {
	b.T.Helper()
	title, err := chromedp.Run(b.Ctx, chromedp.Title())
	if err != nil {
		return ""
	}
	return title
}
