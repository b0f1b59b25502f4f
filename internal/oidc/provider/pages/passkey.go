package pages

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"steward/internal/oidc/provider/oauth"
)

// Ceremony has the data that a page needs to create or use a passkey. A page that has one loads the
// script.
type Ceremony struct {
	// Options has the options for navigator.credentials, as JSON.
	Options string
	// Challenge is the sealed challenge, which the form sends back.
	Challenge string
	// Origin is the base URL's origin. Browsers use this installation's passkeys only there.
	Origin string
}

// policy allows the passkey script, where passkeys can be used.
func (c *Ceremony) policy() string {
	if c == nil {
		return ""
	}
	return "; script-src " + c.Origin + oauth.PathPasskeyScript
}

// NewPasskey is the page where a person creates a passkey.
type NewPasskey struct {
	Base
	Email string
	// Flow is the sign-in's flow; empty outside a sign-in.
	Flow string
	// Setup is the installation's setup; nil outside a setup.
	Setup *SetupChoice
	// Path is the form's target. Back lets the person leave instead.
	Path, Back, BackText string
	*Ceremony
}

func (*NewPasskey) template() string { return "passkey.html" }

func (v *NewPasskey) policy() string { return v.Ceremony.policy() }

// Passkey is a passkey on the account page. Used is empty before its first use.
type Passkey struct{ ID, Name, Created, Used string }

// Script serves the passkey script.
func (*Renderer) Script(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", scriptTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(script)))
}

// products lists browsers' product tokens. Most browsers send other browsers' tokens too, so the order
// matters.
var products = []struct{ token, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

// BrowserName returns the name of the browser that sends a User-Agent header, or "" if unknown.
func BrowserName(userAgent string) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.token) {
			return p.name
		}
	}
	return ""
}
