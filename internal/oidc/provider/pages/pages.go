// Package pages presents the provider to people: the HTML pages, their forms with protection against
// cross-site request forgery, the error page, and the cookies' attributes.
//
// Other packages' handlers return errors. Page and Form turn them into http.HandlerFuncs, which show an
// error as a page.
package pages

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"steward/internal/oidc/provider/oauth"
)

// Renderer renders pages and checks the forms that they send.
type Renderer struct {
	Cookies Cookies
	key     oauth.Key
	// crossOrigin refuses other sites' forms.
	crossOrigin http.CrossOriginProtection
}

// New returns a Renderer for an issuer's pages. It authenticates forms with key.
func New(issuer string, key oauth.Key) (*Renderer, error) {
	p := &Renderer{Cookies: Cookies{Secure: strings.HasPrefix(issuer, "https://")}, key: key}
	// A proxy may have replaced the Host header, so we name the issuer's origin here.
	if err := p.crossOrigin.AddTrustedOrigin(issuer); err != nil {
		return nil, fmt.Errorf("trust the origin of %s: %w", issuer, err)
	}
	return p, nil
}

// Handler serves a page, or returns an error that we show as one.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Page returns the http.HandlerFunc for a page.
func (p *Renderer) Page(next Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := next(w, r); err != nil {
			p.showError(w, r, err)
		}
	}
}

// Form returns the http.HandlerFunc for a form. It accepts the form only from a page on this server,
// and parses it into r.PostForm.
func (p *Renderer) Form(next Handler) http.HandlerFunc {
	return p.Page(func(w http.ResponseWriter, r *http.Request) error {
		if err := oauth.ReadForm(w, r); err != nil {
			return err
		}
		// On plain HTTP off loopback, browsers send no Sec-Fetch-Site, and the origin decides. It is null
		// for sandboxed frames and other sites' redirects.
		if p.crossOrigin.Check(r) != nil {
			return errForm
		}
		cookie, ok := p.Cookies.Get(r, csrfCookie)
		if !ok || subtle.ConstantTimeCompare([]byte(p.csrfMAC(cookie)), []byte(r.PostForm.Get("csrf"))) != 1 {
			return errForm
		}
		return next(w, r)
	})
}

func (p *Renderer) showError(w http.ResponseWriter, r *http.Request, err error) {
	e := oauth.AsError(r.Context(), err)
	title := "This request cannot be completed"
	switch {
	case e.Status >= http.StatusInternalServerError:
		title = "Something went wrong"
	case e.Status == http.StatusNotFound:
		title = "This link is not valid"
	case e.Status == http.StatusTooManyRequests:
		title = "Too many requests"
	}
	if h := w.Header(); h.Get("Retry-After") == "" && isTemporary(e.Status) {
		h.Set("Retry-After", "5")
	}
	if err := p.Render(w, r, e.Status, &Message{Title: title, Text: sentence(e.Description)}); err != nil {
		oauth.WriteError(w, r, err)
	}
}

// isTemporary reports whether the same request can succeed later.
func isTemporary(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// sentence capitalizes an error's description and adds a full stop.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// Render writes a page, with headers that keep it from being framed, cached, or made to load anything.
// The policy for our own forms has no form-action, because browsers apply that to the redirect after
// the form, and that may lead to any application. The console, which renders its own page, gets the
// view as JSON.
func (p *Renderer) Render(w http.ResponseWriter, r *http.Request, status int, v view) error {
	v.setCSRF(p.csrfToken(w, r))
	var body bytes.Buffer
	h := w.Header()
	var err error
	if r.Header.Get("Accept") == "application/json" {
		h.Set("Content-Type", "application/json")
		err = json.NewEncoder(&body).Encode(map[string]any{"page": v.template(), "view": v})
	} else {
		h.Set("Content-Type", "text/html; charset=utf-8")
		err = templates().ExecuteTemplate(&body, v.template(), v)
	}
	if err != nil {
		return fmt.Errorf("render %s: %w", v.template(), err)
	}
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src "+styleHash+"; base-uri 'none'; frame-ancestors 'none'"+v.policy())
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms would have a null origin
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	w.Write(body.Bytes())
	return nil
}

// RenderForm writes a page with a form. problem says why the last try failed, or is empty.
func (p *Renderer) RenderForm(w http.ResponseWriter, r *http.Request, v view, problem string) error {
	if problem == "" {
		return p.Render(w, r, http.StatusOK, v)
	}
	v.setProblem(problem)
	return p.Render(w, r, http.StatusBadRequest, v)
}

// Setup is the page where an installation's first owner chooses a way to sign in.
type Setup struct {
	Base
	SetupChoice
	MinPassword int
	// NoPasskeys says why passkeys cannot be used here, or is "".
	NoPasskeys string
}

// SetupChoice has the first owner's input.
type SetupChoice struct {
	// Token is the link's token, once the form was sent.
	Token      string
	Email, Org string
}

func (*Setup) template() string { return "setup.html" }

// takeToken moves the token from the address's fragment into the form, and removes it from the
// browser's history. Without scripts, the user has to copy it.
const takeToken = `function take() {
  const field = document.getElementById('token');
  if (location.hash.length > 1) {
    field.value = location.hash.slice(1);
    history.replaceState(null, '', location.pathname);
  }
  document.getElementById('code').hidden = field.value !== '';
}
take();
addEventListener('hashchange', take);`

// Script returns the page's script.
func (*Setup) Script() template.JS { return takeToken }

// policy allows the page's script.
func (*Setup) policy() string { return "; script-src " + hashSource(takeToken) }
