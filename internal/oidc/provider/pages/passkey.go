package pages

import (
	"bytes"
	"net/http"
	"time"

	"steward/internal/oidc/provider/oauth"
)

// Ceremony holds the data that a page needs to create or use a passkey. A page with one loads the script.
type Ceremony struct {
	// Options is the JSON for navigator.credentials.
	Options string
	// Challenge is the sealed challenge, which the form sends back.
	Challenge string
	// Origin is the base URL's origin. Browsers use this installation's passkeys there only.
	Origin string
}

// policy allows the passkey script if the page has a ceremony.
func (c *Ceremony) policy() string {
	if c == nil {
		return ""
	}
	return "; script-src " + c.Origin + oauth.PathPasskeyScript
}

// NewPasskey is the page that creates a passkey.
type NewPasskey struct {
	Base
	Email string
	// Flow continues a sign-in; empty outside one.
	Flow string
	// Setup continues an installation's setup; nil outside one.
	Setup *SetupChoice
	// The form posts to Path. Back is the link for people who change their mind.
	Path, Back, BackText string
	*Ceremony
}

func (*NewPasskey) template() string { return "passkey.html" }

func (v *NewPasskey) policy() string { return v.Ceremony.policy() }

// Passkey is a passkey on the account page. Used is empty if nobody has used it yet.
type Passkey struct{ ID, Name, Created, Used string }

// Script serves the passkey script.
func (*Renderer) Script(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", scriptTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(script)))
}
