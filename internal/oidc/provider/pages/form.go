package pages

import (
	"crypto/subtle"
	"encoding/base64"
	"net/http"

	"steward/internal/id"
	"steward/internal/oidc/provider/oauth"
)

// A form carries a token: the MAC of a cookie in the same browser. Another site's page can neither read
// the token nor set the cookie.
const (
	csrfCookie = "steward_csrf"
	csrfSize   = 32
)

var errForm = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "this form has expired or was not sent from this site",
}

// csrfToken returns a form's token. It sets the cookie if the browser has none.
func (p *Renderer) csrfToken(w http.ResponseWriter, r *http.Request) string {
	cookie, ok := p.Cookies.Get(r, csrfCookie)
	if !ok || len(cookie) != csrfSize {
		cookie = id.Secret(csrfSize)
		p.Cookies.Set(w, csrfCookie, cookie, 0)
	}
	return p.csrfMAC(cookie)
}

// Remember sets the cookie that forms depend on, if the browser has none.
func (p *Renderer) Remember(w http.ResponseWriter, r *http.Request) { p.csrfToken(w, r) }

// Browser returns a digest of the cookie that forms depend on, or "" if the browser has none. Use it to
// tie a form's contents to the browser.
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

// checkForm checks that this server's page sent a form, in the same browser.
func (p *Renderer) checkForm(r *http.Request) error {
	// On plain HTTP off loopback, browsers send no Sec-Fetch-Site, and the origin decides. It is null for
	// sandboxed frames and for redirects by other sites.
	if p.crossOrigin.Check(r) != nil {
		return errForm
	}
	cookie, ok := p.Cookies.Get(r, csrfCookie)
	if !ok || subtle.ConstantTimeCompare([]byte(p.csrfMAC(cookie)), []byte(r.PostForm.Get("csrf"))) != 1 {
		return errForm
	}
	return nil
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

// Get returns the value of a cookie, if the request has it.
func (c Cookies) Get(r *http.Request, name string) (value string, ok bool) {
	cookie, err := r.Cookie(c.name(name))
	if err != nil {
		return "", false
	}
	return cookie.Value, true
}

// Set sets a cookie for maxAge seconds: 0 keeps it until the browser closes, -1 deletes it.
func (c Cookies) Set(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.name(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	})
}
