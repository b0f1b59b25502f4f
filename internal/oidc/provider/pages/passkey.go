package pages

import (
	"bytes"
	"net/http"
	"time"

	"steward/internal/oidc/provider/oauth"
)

// Ceremony is what a page needs to create or use a passkey. A page that has one loads the script.
type Ceremony struct {
	// Options are those of navigator.credentials, as JSON.
	Options string
	// Challenge is the sealed challenge, which the form sends back.
	Challenge string
	// Origin is that of the base URL. Browsers use the passkeys of this installation there only.
	Origin string
}

// policy allows the script of passkeys, where they can be used.
func (c *Ceremony) policy() string {
	if c == nil {
		return ""
	}
	return "; script-src " + c.Origin + oauth.PathPasskeyScript
}

// NewPasskey is the page on which a person creates a passkey.
type NewPasskey struct {
	Base
	Email string
	// Flow is that of a sign-in; empty if it is not part of one.
	Flow string
	// Setup is that of an installation; nil if it is not part of one.
	Setup *SetupChoice
	// Path is where the form is sent, and Back where the person goes instead.
	Path, Back, BackText string
	*Ceremony
}

func (*NewPasskey) template() string { return "passkey.html" }

func (v *NewPasskey) policy() string { return v.Ceremony.policy() }

// Passkey is a passkey on the account page. Used is empty if it was not used yet.
type Passkey struct{ ID, Name, Created, Used string }

// Script serves the script of passkeys.
func (*Renderer) Script(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", scriptTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(script)))
}
