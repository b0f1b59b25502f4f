package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"steward/internal/oidc"
)

//go:embed templates
var files embed.FS

var (
	// templates are parsed when the first page is rendered: commands that serve nothing begin sooner.
	templates = sync.OnceValue(func() *template.Template {
		return template.Must(template.ParseFS(files, "templates/*.html"))
	})
	style = mustRead("templates/style.css")
	// styleHash is the source expression that allows the style sheet of the pages, and no other.
	styleHash = hashSource(style)
	script    = mustRead("templates/passkey.js")
	// scriptTag is the entity tag of the script.
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

// view is the data of a template.
type view interface {
	template() string
	setCSRF(token string)
	setProblem(problem string)
	// policy is added to the Content-Security-Policy of the page.
	policy() string
}

// Base is the part that all views have.
type Base struct {
	CSRF string
	// Problem is shown above the form.
	Problem string
}

func (b *Base) setCSRF(token string) { b.CSRF = token }

func (b *Base) setProblem(problem string) { b.Problem = problem }

func (*Base) policy() string { return "" }

// Style returns the style sheet, which is part of each page to save a request.
func (*Base) Style() template.CSS { return template.CSS(style) }

// SignIn is the sign-in page.
type SignIn struct {
	Base
	Flow  string
	Email string
	// Again says that the user of the session signs in again, and NoPassword that a password is not enough.
	Again, NoPassword bool
	// Client is the name of the application that the user continues to; empty for a page of this server.
	Client string
	// Invited says that the user continues to an invitation.
	Invited bool
	// Passkey is nil if passkeys cannot be used here.
	Passkey *Ceremony
	// Forgot says that users can have a link to set a new password mailed.
	Forgot bool
	// Upstreams are the providers that are offered, and SingleSignOn says that an address can lead to one.
	Upstreams    []Provider
	SingleSignOn bool
}

// Provider is a provider with which a user can sign in. Org and Linked are for the account page.
type Provider struct {
	ID, Name, Org string
	Linked        bool
}

func (*SignIn) template() string { return "signin.html" }

func (v *SignIn) policy() string { return v.Passkey.policy() }

// Consent is the page on which a user decides what an application may do.
type Consent struct {
	Base
	Flow     string
	Action   string
	Client   string
	Initial  string
	Homepage string
	// Registered says that the client registered itself, and Document is the host of the document that describes it, if
	// that is how.
	Registered bool
	Document   string
	// Org is the name of the organization that owns the application.
	Org    string
	Email  string
	Scopes []oidc.Scope
	// Resource is the API that the access is for; empty for this server.
	Resource string
	// Redirect is where the browser goes afterwards; nil if it stays here.
	Redirect *Redirect
	// Device says that the application runs on another device, which shows UserCode.
	Device   bool
	UserCode string
}

// Redirect describes a redirect URI to users.
type Redirect struct {
	// Host is the host of a web application, or of an application that listens on this device.
	Host string
	// Scheme is the private-use scheme of an application; empty if there is a host.
	Scheme string
}

// NewRedirect returns what users see of a redirect URI.
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

// Organizations is the page on which a user chooses the organization in which an application acts. It sends the same
// request again, with that.
type Organizations struct {
	Base
	Action string
	Params url.Values
	Orgs   []Org
}

func (*Organizations) template() string { return "organizations.html" }

// Device is the page on which a user enters the code of a device.
type Device struct{ Base }

func (*Device) template() string { return "device.html" }

// SignOut is the page that asks for confirmation of a sign-out.
type SignOut struct {
	Base
	Flow   string
	Client string
	Email  string
}

func (*SignOut) template() string { return "signout.html" }

// Invitation is the page on which a new person sets a password and becomes a member.
type Invitation struct {
	Base
	Email, Org, Role string
	// Inviter is empty if that is not known.
	Inviter     string
	Path        string
	MinPassword int
	// Passkeys says that a passkey can take the place of the password.
	Passkeys bool
	// Upstreams are providers with which the invitation can be accepted, and Flow is that of their forms. Only says
	// that there is no other way.
	Upstreams []Provider
	Flow      string
	Only      bool
	// Unproved says that the address has an account, which somebody else may have opened.
	Unproved bool
}

func (*Invitation) template() string { return "invite.html" }

// Join is the page on which a user who is signed in accepts or declines an invitation. If the account is Unproved, the
// user sets a new password.
type Join struct{ Invitation }

func (*Join) template() string { return "join.html" }

// ChooseAccount is the page on which a person says whether an Unproved account is theirs.
type ChooseAccount struct{ Invitation }

func (*ChooseAccount) template() string { return "choose.html" }

// Reset is the page on which a user sets a new password.
type Reset struct {
	Base
	Email       string
	Path        string
	MinPassword int
}

func (*Reset) template() string { return "reset.html" }

// Account is the page on which users see and change what belongs to them.
type Account struct {
	Base
	Email, FirstName, LastName, PhotoURL string
	MinPassword                          int
	// HasPassword is false if the user has passkeys only.
	HasPassword bool
	Passkeys    []Passkey
	// NoPasskeys is why passkeys cannot be used here; empty if they can.
	NoPasskeys string
	// CanChangeEmail says that the user can change the email address, which needs the password if there is one.
	CanChangeEmail bool
	// Done confirms what was changed.
	Done string
	Apps []App
	// Orgs are the organizations in which the user may create API keys.
	Orgs     []Org
	Keys     []Key
	Sessions []Session
	// Authenticator is nil if the user has none.
	Authenticator *Authenticator
	// Providers are those of the user's organizations. Upstream says that the user has signed in with one.
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

// NewKey is the page that shows the value of a new API key.
type NewKey struct {
	Base
	Name, Org, Value, Expires string
}

func (*NewKey) template() string { return "key.html" }

// Message is a page with a title and a text, and a link to another page of this server if Next is not
// empty.
type Message struct {
	Base
	Title          string
	Text           string
	Next, NextText string
}

func (*Message) template() string { return "message.html" }
