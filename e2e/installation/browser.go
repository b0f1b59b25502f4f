package installation

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/process"
	"steward/internal/porttest"
)

// The first owner's credentials, and the redirect URI that the tests' clients use. Nothing listens there.
const (
	AdminEmail    = "ada@example.com"
	AdminPassword = "correct horse battery"
	RedirectURI   = "http://127.0.0.1:9/callback"
)

// EachWithOwner is Each with a first owner who can sign in.
func EachWithOwner(t *testing.T, test func(t *testing.T, s *Steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, StartWithOwner(t, name)) })
	}
}

// StartWithOwner is Start with a first owner who can sign in.
func StartWithOwner(t *testing.T, database string, args ...string) *Steward {
	s := Prepare(t, database, args...)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword}
	s.Start()
	return s
}

// StartOnLocalhost is StartWithOwner with a host name in the base URL, so that browsers allow passkeys.
func StartOnLocalhost(t *testing.T, database string) *Steward {
	s := Prepare(t, database, OnLocalhost(t)...)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword}
	s.Start()
	return s
}

// OnLocalhost returns flags that put a host name into the server's base URL, so that browsers allow
// passkeys.
func OnLocalhost(t *testing.T) []string {
	port := porttest.Free(t)
	return []string{"--listen", porttest.Address(port), "--base-url", fmt.Sprintf("http://localhost:%d", port)}
}

// Application holds an OAuth client's credentials.
type Application struct{ ID, Secret string }

// NewApplication creates an OAuth client.
func (s *Steward) NewApplication(settings map[string]any) Application {
	s.T.Helper()
	settings["name"] = "Harbour Dashboard"
	settings["description"] = "For tests"
	settings["homepage_url"] = "https://harbour.example.com"
	if settings["redirect_uris"] == nil {
		settings["redirect_uris"] = []string{RedirectURI}
	}
	a := s.Call("POST", "/oidc/clients", settings).Want(200)
	return Application{ID: a.Text("client.id"), Secret: a.Text("client_secret")}
}

// EveryGrant lists the grant types that a client can have.
var EveryGrant = []string{
	"authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code",
}

// Browser is a user's browser with cookies and no JavaScript.
type Browser struct {
	Steward         *Steward
	HTTP            *http.Client
	Email, Password string
}

// NewBrowser returns a browser for the first owner.
func (s *Steward) NewBrowser() *Browser {
	jar, err := cookiejar.New(nil)
	s.Must(err)
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &http.Client{Jar: jar, CheckRedirect: noRedirect, Timeout: RequestTimeout}
	return &Browser{Steward: s, HTTP: c, Email: AdminEmail, Password: AdminPassword}
}

// Invite adds a member to the organization, who accepts the invitation and sets a password.
func (s *Steward) Invite(email, role string) (b *Browser, userID string) {
	s.T.Helper()
	made := s.Call("POST", "/oidc/org/members", map[string]any{"email": email, "role": role}).Want(201)
	b = s.NewBrowser()
	b.Email = email
	b.Password = "a first password"
	invitation := b.Do("GET", made.Text("link"), nil)
	if p := b.Submit(invitation, map[string]string{"password": b.Password}); p.Location != "/console/sign-in" {
		s.T.Fatalf("the invitation leads to %q: %s", p.Location, p.Body)
	}
	return b, s.MemberOf(email).ID
}

// Page is a response to a browser.
type Page struct {
	Status   int
	Body     string
	Location string // a redirect's target
}

// Do sends a request and returns the page that comes back. It follows no redirect.
func (b *Browser) Do(method, address string, form url.Values) Page {
	b.Steward.T.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, address, body)
	b.Steward.Must(err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.HTTP.Do(req)
	b.Steward.Must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	b.Steward.Must(err)
	return Page{Status: res.StatusCode, Body: string(text), Location: res.Header.Get("Location")}
}

// FirstForm matches a page's first form: its method, its action and its content.
var FirstForm = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)

var (
	inputs     = regexp.MustCompile(`<(input|button) ([^>]*)>`)
	attributes = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// Submit fills in these fields and submits a page's first form with the first button.
func (b *Browser) Submit(p Page, fields map[string]string) Page {
	b.Steward.T.Helper()
	m := FirstForm.FindStringSubmatch(p.Body)
	if m == nil {
		b.Steward.T.Fatalf("no form on this page (%d): %s", p.Status, p.Body)
	}
	method, action := strings.ToUpper(m[1]), b.Steward.URL+html.UnescapeString(m[2])
	values := FormValues(m[3])
	for name, value := range fields {
		if values.Has(name) {
			values.Set(name, value)
		}
	}
	if method == "GET" {
		return b.Do(method, action+"?"+values.Encode(), nil)
	}
	return b.Do(method, action, values)
}

// FormValues returns the values from the inputs and the first button in a form's HTML.
func FormValues(form string) url.Values {
	values := url.Values{}
	buttons := 0
	for _, tag := range inputs.FindAllStringSubmatch(form, -1) {
		a := map[string]string{}
		for _, pair := range attributes.FindAllStringSubmatch(tag[2], -1) {
			a[pair[1]] = html.UnescapeString(pair[2])
		}
		if tag[1] == "button" {
			buttons++
		}
		if a["name"] != "" && (tag[1] != "button" || buttons == 1) {
			values.Add(a["name"], a["value"])
		}
	}
	return values
}

// Visit opens an address, signs in and gives consent on every page that asks for it. It returns the last
// page: one without a form, or a redirect to another site.
func (b *Browser) Visit(address string) Page {
	b.Steward.T.Helper()
	p := b.Do("GET", address, nil)
	for range 8 {
		switch {
		case strings.HasPrefix(p.Location, "/"):
			p = b.Do("GET", b.Steward.URL+p.Location, nil)
		case p.Location != "" || !FirstForm.MatchString(p.Body):
			return p
		default:
			p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
		}
		if p.Status >= 400 {
			b.Steward.T.Fatalf("%d: %s", p.Status, p.Body)
		}
	}
	b.Steward.T.Fatalf("too many pages: %s", p.Body)
	return p
}

// Authorize visits an authorization URL and returns the parameters in the redirect to the client.
func (b *Browser) Authorize(address string) url.Values {
	b.Steward.T.Helper()
	p := b.Visit(address)
	u, err := url.Parse(p.Location)
	b.Steward.Must(err)
	if u.Query().Get("code") == "" {
		b.Steward.T.Fatalf("no code in the redirect to %s", p.Location)
	}
	return u.Query()
}

// EnterConsole signs a browser in to the console.
func (b *Browser) EnterConsole() *Browser {
	b.Steward.T.Helper()
	p := b.Do("GET", b.Steward.URL+"/console/sign-in?return=/console/webhooks", nil)
	if p.Status == 200 { // it asks for the password
		p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
		p = b.Do("GET", b.Steward.URL+p.Location, nil)
	}
	if p.Status != 303 || p.Location != "/console/webhooks" {
		b.Steward.T.Fatalf("the sign-in ends with %d at %q: %s", p.Status, p.Location, p.Body)
	}
	return b
}

// EachWithRegistration is EachWithOwner for a server that lets programs on their user's machine register
// themselves.
func EachWithRegistration(t *testing.T, test func(t *testing.T, s *Steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := Prepare(t, name, "--registration", "loopback")
			s.Env = []string{
				"STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword,
			}
			s.Start()
			test(t, s)
		})
	}
}
