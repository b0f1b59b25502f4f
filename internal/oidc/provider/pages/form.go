package pages

import (
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/id"
	"steward/internal/oidc/provider/oauth"
)

// A form carries a token: a MAC over a cookie in the same browser. Another site's page can neither read
// the token nor set the cookie.
const (
	csrfCookie = "steward_csrf"
	csrfSize   = 32
)

var errForm = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "this form has expired or was not sent from this site",
}

// csrfToken returns the token for a form, and sets the cookie if the browser has none.
func (p *Renderer) csrfToken(w http.ResponseWriter, r *http.Request) string {
	cookie, ok := p.Cookies.Get(r, csrfCookie)
	if !ok || len(cookie) != csrfSize {
		cookie = id.Secret(csrfSize)
		p.Cookies.Set(w, csrfCookie, cookie, 0)
	}
	return p.csrfMAC(cookie)
}

// Remember sets the cookie that forms in the request's browser depend on, if the browser has none.
func (p *Renderer) Remember(w http.ResponseWriter, r *http.Request) { p.csrfToken(w, r) }

// Browser returns a digest of the cookie that forms in the request's browser depend on, or "" if the
// browser has none. Use it to tie a form's content to the browser.
func (p *Renderer) Browser(r *http.Request) string {
	cookie, ok := p.Cookies.Get(r, csrfCookie)
	if !ok {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(p.key.MAC("browser", []byte(cookie)))
}

func (p *Renderer) csrfMAC(cookie string) string {
	return base64.RawURLEncoding.EncodeToString(p.key.MAC("csrf", []byte(cookie)))
}

// Cookies sets the provider's cookies.
type Cookies struct {
	// Secure binds the cookies to this host and to HTTPS. It is false on plain HTTP, which is only for
	// loopback.
	Secure bool
}

func (c Cookies) name(name string) string {
	if c.Secure {
		return "__Host-" + name
	}
	return name
}

// Get returns a cookie's value, if the request has it.
func (c Cookies) Get(r *http.Request, name string) (value string, ok bool) {
	cookie, err := r.Cookie(c.name(name))
	if err != nil {
		return "", false
	}
	return cookie.Value, true
}

// Set sets a cookie for maxAge seconds: 0 means as long as the browser runs, and -1 deletes it.
func (c Cookies) Set(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.name(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// FormPost is the page that sends an authorization response to a client as a form (OAuth 2.0 Form Post
// Response Mode). It submits itself, or has a button where scripts are off.
type FormPost struct {
	Base
	Action string
	Fields []Field
}

// Field is a hidden form field.
type Field struct{ Name, Value string }

// NewFormPost returns a page that posts the parameters to a URI.
func NewFormPost(uri string, params url.Values) *FormPost {
	v := &FormPost{Action: uri}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v.Fields = append(v.Fields, Field{name, params.Get(name)})
	}
	return v
}

func (*FormPost) template() string { return "formpost.html" }

// sendForm is the page's script.
const sendForm = "document.forms[0].submit()"

// Script returns the page's script.
func (*FormPost) Script() template.JS { return sendForm }

// policy allows the page's script and its form. It names no host, because browsers also apply
// form-action to the client's redirects, and those may lead to another of its hosts.
func (v *FormPost) policy() string {
	sources := "https:"
	if strings.HasPrefix(v.Action, "http:") { // an application on this device
		sources = "http: https:"
	}
	return "; script-src " + hashSource(sendForm) + "; form-action " + sources
}
