package provider

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"steward/internal/id"
	"steward/internal/stamp"
)

// A form of ours is taken only with a token that is bound to a cookie of the same browser, and not from another site: a page elsewhere can
// neither read the one nor set the other.

// csrfToken gives the token for a form, setting the cookie when the browser has none.
func (p *Provider) csrfToken(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(p.cookieName(csrfCookie))
	if err != nil || len(cookie.Value) != csrfSize {
		cookie = &http.Cookie{Value: id.Secret(csrfSize)}
		p.setCookie(w, csrfCookie, cookie.Value, 0)
	}
	return p.csrfMAC(cookie.Value)
}

const csrfSize = 32

func (p *Provider) csrfMAC(cookie string) string {
	return base64.RawURLEncoding.EncodeToString(p.mac("csrf", []byte(cookie)))
}

var errForm = errors.New("this form has expired, or was not sent from this site")

// formOK tells whether a form was sent from a page of ours in this browser.
func (p *Provider) formOK(r *http.Request) error {
	// A browser that says nothing of the site, as on plain http, calls our own pages' origin null, because they send no referrer. The token
	// decides then.
	silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "null"
	if !silent && p.crossOrigin.Check(r) != nil {
		return errForm
	}
	cookie, err := r.Cookie(p.cookieName(csrfCookie))
	if err != nil || subtle.ConstantTimeCompare([]byte(p.csrfMAC(cookie.Value)), []byte(r.PostForm.Get("csrf"))) != 1 {
		return errForm
	}
	return nil
}

// flow is where a browser is on its way through our pages: an authorization request that waits for a sign-in or a consent, or a page that
// needs a sign-in. It travels sealed in the form or the address, so that a stranger's requests write nothing to the database.
type flow struct {
	// Request is the authorization request; nil when Next says where to go.
	Request *request `json:"r,omitempty"`
	// Next is a path of ours.
	Next string `json:"n,omitempty"`
	// Fresh is the session in which the user has signed in on this way, which is what prompt=login and max_age ask for.
	Fresh string `json:"f,omitempty"`
	// User is whom a consent page was made for; somebody else's answer does not count.
	User  string     `json:"w,omitempty"`
	Until stamp.Time `json:"u"`
}

const flowPurpose = "oidc.flow"

func (p *Provider) sealFlow(f *flow) string {
	plain, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(p.Ring.Seal(flowPurpose, plain))
}

var errFlow = errors.New("this page has expired: go back to the application and start again")

func (p *Provider) openFlow(text string) (*flow, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errFlow
	}
	plain, err := p.Ring.Open(flowPurpose, sealed)
	if err != nil {
		return nil, errFlow
	}
	var f flow
	if json.Unmarshal(plain, &f) != nil || f.Until < stamp.Of(p.Now()) {
		return nil, errFlow
	}
	return &f, nil
}

// address is where a flow goes on. It has no host: the browser stays at the name by which it knows us, where its cookies are.
func (p *Provider) address(f *flow) string {
	if f.Request == nil {
		return f.Next
	}
	return pathAuthorize + "?flow=" + p.sealFlow(f)
}
