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
	// We parse templates when we render the first page, so that commands that serve nothing start sooner.
	templates = sync.OnceValue(func() *template.Template {
		return template.Must(template.ParseFS(files, "templates/*.html"))
	})
	style = mustRead("templates/style.css")
	// styleHash is the source expression that allows our style sheet and no other.
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

// view is the data of a template.
type view interface {
	template() string
	setCSRF(token string)
	setProblem(problem string)
	// policy returns the text to append to the page's Content-Security-Policy.
	policy() string
}

// Base is the part that all views share.
type Base struct {
	CSRF string
	// Problem is shown above the form.
	Problem string
}

func (b *Base) setCSRF(token string) { b.CSRF = token }

func (b *Base) setProblem(problem string) { b.Problem = problem }

func (*Base) policy() string { return "" }

// Style returns the style sheet. Each page embeds it to save a request.
func (*Base) Style() template.CSS { return template.CSS(style) }

// SignIn is the sign-in page.
type SignIn struct {
	Base
	Flow  string
	Email string
	// Again means that the session's user signs in again, NoPassword that a password is not enough.
	Again, NoPassword bool
	// Client is the application that the user continues to; empty for a page on this server.
	Client string
	// Invited means that the user continues to an invitation.
	Invited bool
	// Passkey is nil if passkeys do not work here.
	Passkey *Ceremony
	// Forgot offers to mail a link for setting a new password.
	Forgot bool
	// Upstreams are the providers to offer. SingleSignOn means that an address can lead to one.
	Upstreams    []Provider
	SingleSignOn bool
}

// Provider is a provider that users can sign in with. Only the account page uses Org and Linked.
type Provider struct {
	ID, Name, Org string
	Linked        bool
}

func (*SignIn) template() string { return "signin.html" }

func (v *SignIn) policy() string { return v.Passkey.policy() }

// Consent is the page that asks a user to approve an application's access.
type Consent struct {
	Base
	Flow     string
	Action   string
	Client   string
	Initial  string
	Homepage string
	// Registered means that the client registered itself. Document is the host of the document that
	// describes it, if it has one.
	Registered bool
	Document   string
	// Org is the organization that owns the application.
	Org    string
	Email  string
	Scopes []oidc.Scope
	// Resource is the API that the application wants to use; empty for this server.
	Resource string
	// Redirect says where the browser goes next; nil if it stays here.
	Redirect *Redirect
	// Device means that the application runs on another device, which shows UserCode.
	Device   bool
	UserCode string
}

// Redirect describes a redirect URI to users.
type Redirect struct {
	// Host names a web application, or an application that listens on this device.
	Host string
	// Scheme is an application's private-use scheme; empty if there is a host.
	Scheme string
}

// NewRedirect describes a redirect URI to users.
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

// Organizations is the page that asks which organization an application should act in. It sends the same
// request again, with the answer.
type Organizations struct {
	Base
	Action string
	Params url.Values
	Orgs   []Org
}

func (*Organizations) template() string { return "organizations.html" }

// Device is the page that asks for a device's code.
type Device struct{ Base }

func (*Device) template() string { return "device.html" }

// SignOut is the page that asks a user to confirm a sign-out.
type SignOut struct {
	Base
	Flow   string
	Client string
	Email  string
}

func (*SignOut) template() string { return "signout.html" }

// Invitation is the page that lets a new person set a password and become a member.
type Invitation struct {
	Base
	Email, Org, Role string
	// Inviter is empty if we do not know it.
	Inviter     string
	Path        string
	MinPassword int
	// Passkeys offers a passkey instead of the password.
	Passkeys bool
	// Upstreams are providers that can accept the invitation, and Flow goes into their forms. Only means
	// that there is no other way.
	Upstreams []Provider
	Flow      string
	Only      bool
	// Unproved means that the address has an account that somebody else may have opened.
	Unproved bool
}

func (*Invitation) template() string { return "invite.html" }

// Join is the page that lets a signed-in user accept or decline an invitation. If the account is
// Unproved, the user also sets a new password.
type Join struct{ Invitation }

func (*Join) template() string { return "join.html" }

// ChooseAccount is the page that asks a person whether an Unproved account is theirs.
type ChooseAccount struct{ Invitation }

func (*ChooseAccount) template() string { return "choose.html" }

// Reset is the page that lets a user set a new password.
type Reset struct {
	Base
	Email       string
	Path        string
	MinPassword int
}

func (*Reset) template() string { return "reset.html" }

// Account is the page that shows users their profile, sign-in methods, applications, keys and sessions,
// and lets them change these.
type Account struct {
	Base
	Email, FirstName, LastName, PhotoURL string
	MinPassword                          int
	// HasPassword is false if the user has passkeys only.
	HasPassword bool
	Passkeys    []Passkey
	// NoPasskeys says why passkeys do not work here; empty if they do.
	NoPasskeys string
	// CanChangeEmail lets the user change the email address. That takes the password, if there is one.
	CanChangeEmail bool
	// Done confirms the last change.
	Done string
	Apps []App
	// Orgs are the organizations that let the user create API keys.
	Orgs     []Org
	Keys     []Key
	Sessions []Session
	// Authenticator is nil if the user has none.
	Authenticator *Authenticator
	// Providers are the ones that the user's organizations use. Upstream means that the user has signed
	// in with one.
	Providers []Provider
	Upstream  bool
}

func (*Account) template() string { return "account.html" }

// App is an application on the account page, with the access it has.
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
