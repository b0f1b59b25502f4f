package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image/color"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boombuler/barcode/qr"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

//go:embed templates
var files embed.FS

var (
	// We parse the templates when we render the first page, so that commands which serve nothing start
	// sooner.
	templates = sync.OnceValue(func() *template.Template {
		return template.Must(template.ParseFS(files, "templates/*.html"))
	})
	style = mustRead("templates/style.css")
	// styleHash is the source expression that allows the pages' style sheet, and no other.
	styleHash = hashSource(style)
	script    = mustRead("templates/passkey.js")
	// scriptTag is the script's entity tag.
	scriptTag = strings.ReplaceAll(hashSource(script), "'", `"`)
)

func mustRead(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// view is a template's data.
type view interface {
	template() string
	setCSRF(token string)
	setProblem(problem string)
	// policy is added to the page's Content-Security-Policy.
	policy() string
}

// Base is common to all views.
type Base struct {
	CSRF string
	// Problem is shown above the form.
	Problem string
}

func (b *Base) setCSRF(token string) { b.CSRF = token }

func (b *Base) setProblem(problem string) { b.Problem = problem }

func (*Base) policy() string { return "" }

// Style returns the style sheet. Each page contains it, to save a request.
func (*Base) Style() template.CSS { return template.CSS(style) }

// SignIn is the sign-in page.
type SignIn struct {
	Base
	Flow  string
	Email string
	// Again reports whether the session's user signs in again, and NoPassword whether a password is not
	// enough.
	Again, NoPassword bool
	// Client is the name of the application that the user continues to; empty for a page on this
	// server.
	Client string
	// Invited reports whether the user continues to an invitation.
	Invited bool
	// Passkey is nil if passkeys cannot be used here.
	Passkey *Ceremony
	// Forgot reports whether users can have a link mailed to set a new password.
	Forgot bool
	// Upstreams has the providers to offer. SingleSignOn reports whether an address can lead to one.
	Upstreams    []Provider
	SingleSignOn bool
}

// Provider is a provider that a user can sign in with. Org and Linked are for the account page.
type Provider struct {
	ID, Name, Org string
	Linked        bool
}

func (*SignIn) template() string { return "signin.html" }

func (v *SignIn) policy() string { return v.Passkey.policy() }

// Consent is the page where a user decides what an application may do.
type Consent struct {
	Base
	Flow     string
	Action   string
	Client   string
	Initial  string
	Homepage string
	// Registered reports whether the client registered itself. Document is the host of the document
	// that describes it, if there is one.
	Registered bool
	Document   string
	// Org is the name of the organization that owns the application.
	Org    string
	Email  string
	Scopes []oidc.Scope
	// Resource is the API that the access is for; empty for this server.
	Resource string
	// Redirect is the URI where the browser goes afterwards; nil if it stays here.
	Redirect *Redirect
	// Device reports whether the application runs on another device, which shows UserCode.
	Device   bool
	UserCode string
}

// Redirect describes a redirect URI to users.
type Redirect struct {
	// Host is the host name of a web application, or of an application that listens on this device.
	Host string
	// Scheme is an application's private-use scheme; empty if there is a host.
	Scheme string
}

// NewRedirect describes a redirect URI.
func NewRedirect(uri string) *Redirect {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return &Redirect{Host: uri}
	case u.Scheme == "https" || u.Scheme == "http":
		return &Redirect{Host: u.Host}
	}
	return &Redirect{Scheme: u.Scheme}
}

func (*Consent) template() string { return "consent.html" }

// Organizations is the page where a user chooses the organization that an application acts for. It
// repeats the request with that choice.
type Organizations struct {
	Base
	Action string
	Params url.Values
	Orgs   []Org
}

func (*Organizations) template() string { return "organizations.html" }

// Device is the page where a user enters a device's code.
type Device struct{ Base }

func (*Device) template() string { return "device.html" }

// SignOut is the page that asks users to confirm a sign-out.
type SignOut struct {
	Base
	Flow   string
	Client string
	Email  string
}

func (*SignOut) template() string { return "signout.html" }

// Invitation is the page where a new person sets a password and becomes a member.
type Invitation struct {
	Base
	Email, Org, Role string
	// Inviter is empty if unknown.
	Inviter     string
	Path        string
	MinPassword int
	// Passkeys reports whether a passkey can replace the password.
	Passkeys bool
	// Upstreams has the providers that can accept the invitation, and Flow is their forms' flow. Only
	// reports whether there is no other way.
	Upstreams []Provider
	Flow      string
	Only      bool
	// Unproved reports whether the address has an account that somebody else may have opened.
	Unproved bool
}

func (*Invitation) template() string { return "invite.html" }

// Join is the page where a signed-in user accepts or declines an invitation. If the account is
// Unproved, the user sets a new password.
type Join struct{ Invitation }

func (*Join) template() string { return "join.html" }

// ChooseAccount is the page where a person says whether an Unproved account is theirs.
type ChooseAccount struct{ Invitation }

func (*ChooseAccount) template() string { return "choose.html" }

// Reset is the page where a user sets a new password.
type Reset struct {
	Base
	Email       string
	Path        string
	MinPassword int
}

func (*Reset) template() string { return "reset.html" }

// Account is the page where users see and change everything that belongs to them.
type Account struct {
	Base
	Email, FirstName, LastName, PhotoURL string
	MinPassword                          int
	// HasPassword is false if the user has passkeys only.
	HasPassword bool
	Passkeys    []Passkey
	// NoPasskeys says why passkeys cannot be used here; empty if they can.
	NoPasskeys string
	// CanChangeEmail reports whether the user can change the email address. That needs the password if
	// there is one.
	CanChangeEmail bool
	// Done confirms a change.
	Done string
	Apps []App
	// Orgs has the organizations where the user may create API keys.
	Orgs     []Org
	Keys     []Key
	Sessions []Session
	// Authenticator is nil if the user has none.
	Authenticator *Authenticator
	// Providers has the providers in the user's organizations. Upstream reports whether the user has
	// signed in with one.
	Providers []Provider
	Upstream  bool
}

func (*Account) template() string { return "account.html" }

// App is an application on the account page, with what it may do.
type App struct {
	ID, Name, Homepage, Since string
	Scopes                    []string
}

// Org is an organization on the account page.
type Org struct{ ID, Name string }

// Key is an API key on the account page. Project, Expires and Used may be empty.
type Key struct {
	ID, Name, OrgID, Org, Project, Created, Expires, Used string
}

// Session is a session on the account page.
type Session struct {
	ID, Agent, Address, Since, Seen string
	Current                         bool
}

// NewKey is the page that shows a new API key's value.
type NewKey struct {
	Base
	Name, Org, Value, Expires string
}

func (*NewKey) template() string { return "key.html" }

// Message is a page with a title and a text. If Next is not empty, it links to another page on this
// server.
type Message struct {
	Base
	Title          string
	Text           string
	Next, NextText string
}

func (*Message) template() string { return "message.html" }

// Forgot is the page where a user asks for a link to set a new password.
type Forgot struct {
	Base
	Email string
}

func (*Forgot) template() string { return "forgot.html" }

// Email is the page where a user confirms a new email address.
type Email struct {
	Base
	Old, New string
	Path     string
}

func (*Email) template() string { return "email.html" }

// SignedOut is the page after a sign-out. It loads applications' front-channel logout URIs.
type SignedOut struct {
	Base
	Title, Text string
	// Next is the URL where the user goes on, and NextText its name; empty if there is none. It may
	// have an application's private-use scheme.
	Next     template.URL
	NextText string
	// Frames has the URLs to load.
	Frames []string
}

func (*SignedOut) template() string { return "signedout.html" }

// policy allows frames from the origins that the page loads, and from no others.
func (s *SignedOut) policy() string {
	var origins []string
	for _, frame := range s.Frames {
		if u, err := url.Parse(frame); err == nil {
			origins = append(origins, u.Scheme+"://"+u.Host)
		}
	}
	if len(origins) == 0 {
		return ""
	}
	slices.Sort(origins)
	return "; frame-src " + strings.Join(slices.Compact(origins), " ")
}

// Factor is the page where a user enters a code from the authenticator app to sign in.
type Factor struct {
	Base
	Flow, Email string
	// Again is the page where the user can sign in another way.
	Again string
	// Passkey reports whether the user has a passkey.
	Passkey bool
	// Mailed reports whether the user has just set a password with a mailed link.
	Mailed bool
}

func (*Factor) template() string { return "factor.html" }

// Enrol is the page where a user adds an authenticator app.
type Enrol struct {
	Base
	Email  string
	Action string
	// Flow is set during a sign-in that requires a second factor. Again is then the page where another
	// user can sign in.
	Flow, Again string
	Setup       string
	Secret      string
	QR          QR
}

func (*Enrol) template() string { return "enrol.html" }

// SetApp fills in an authenticator app: the sealed setup that the form carries, the secret, and the URI
// in the QR code.
func (e *Enrol) SetApp(setup, secret, uri string) (err error) {
	e.Setup = setup
	e.Secret = secret
	e.QR, err = NewQR(uri)
	return err
}

// Recovery is the page that shows recovery codes.
type Recovery struct {
	Base
	Codes []string
	// Next is the page where the user continues, and NextText its name.
	Next, NextText string
}

func (*Recovery) template() string { return "recovery.html" }

// Authenticator is the authenticator app on the account page.
type Authenticator struct {
	Since         string
	RecoveryCodes int
}

// QR is a QR code to draw: dark squares, each one unit wide, in a square Size units wide.
type QR struct {
	Size int
	// Path is the data for an SVG path.
	Path string
}

// quietZone is the light border around a QR code, in units. Scanners need it.
const quietZone = 4

// NewQR returns a text's QR code.
func NewQR(text string) (QR, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return QR{}, fmt.Errorf("encode QR code: %w", err)
	}
	var path strings.Builder
	size := code.Bounds().Dx()
	for y := range size {
		for x := range size {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quietZone, y+quietZone)
			}
		}
	}
	return QR{Size: size + 2*quietZone, Path: path.String()}, nil
}

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
