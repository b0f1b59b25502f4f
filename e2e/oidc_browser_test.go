package e2e

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/process"
)

const (
	adminEmail    = "ada@example.com"
	adminPassword = "correct horse battery"
	// redirectURI is the redirect URI of the tests' clients. Nothing listens there.
	redirectURI = "http://127.0.0.1:9/callback"
)

// eachWithOwner is each with a first owner who can sign in.
func eachWithOwner(t *testing.T, test func(t *testing.T, s *steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, startWithOwner(t, name)) })
	}
}

func startWithOwner(t *testing.T, database string) *steward {
	s := prepare(t, database)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + adminEmail, "STEWARD_ADMIN_PASSWORD=" + adminPassword}
	s.start()
	return s
}

// application has the credentials of an OAuth client.
type application struct{ id, secret string }

// application creates an OAuth client.
func (s *steward) application(settings object) application {
	s.t.Helper()
	settings["name"] = "Harbour Dashboard"
	settings["description"] = "For tests"
	settings["homepage_url"] = "https://harbour.example.com"
	if settings["redirect_uris"] == nil {
		settings["redirect_uris"] = []string{redirectURI}
	}
	a := s.call("POST", "/oidc/clients", settings).want(200)
	return application{id: a.text("client.id"), secret: a.text("client_secret")}
}

var everyGrant = []string{
	"authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code",
}

// browser is a user with a browser that has cookies and no JavaScript.
type browser struct {
	s               *steward
	http            *http.Client
	email, password string
}

// browser returns a browser of the first owner.
func (s *steward) browser() *browser {
	jar, err := cookiejar.New(nil)
	s.must(err)
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &http.Client{Jar: jar, CheckRedirect: noRedirect, Timeout: requestTimeout}
	return &browser{s: s, http: c, email: adminEmail, password: adminPassword}
}

// invite adds a member to the organization, who accepts the invitation and sets a password.
func (s *steward) invite(email, role string) (b *browser, userID string) {
	s.t.Helper()
	made := s.call("POST", "/oidc/org/members", object{"email": email, "role": role}).want(201)
	b = s.browser()
	b.email = email
	b.password = "a first password"
	invitation := b.do("GET", made.text("link"), nil)
	if p := b.submit(invitation, map[string]string{"password": b.password}); p.location != "/account" {
		s.t.Fatalf("the invitation leads to %q: %s", p.location, p.body)
	}
	return b, s.memberOf(email).ID
}

// page is a response to a browser.
type page struct {
	status   int
	body     string
	location string // of a redirect
}

func (b *browser) do(method, address string, form url.Values) page {
	b.s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, address, body)
	b.s.must(err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.http.Do(req)
	b.s.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	b.s.must(err)
	return page{status: res.StatusCode, body: string(text), location: res.Header.Get("Location")}
}

var (
	firstForm  = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)
	inputs     = regexp.MustCompile(`<(input|button) ([^>]*)>`)
	attributes = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// submit submits the first form of a page with its first button, after it has filled in these fields.
func (b *browser) submit(p page, fields map[string]string) page {
	b.s.t.Helper()
	m := firstForm.FindStringSubmatch(p.body)
	if m == nil {
		b.s.t.Fatalf("no form on this page (%d): %s", p.status, p.body)
	}
	method, action := strings.ToUpper(m[1]), b.s.URL+html.UnescapeString(m[2])
	values := formValues(m[3])
	for name, value := range fields {
		if values.Has(name) {
			values.Set(name, value)
		}
	}
	if method == "GET" {
		return b.do(method, action+"?"+values.Encode(), nil)
	}
	return b.do(method, action, values)
}

// formValues returns the values of the inputs and of the first button in the HTML of a form.
func formValues(form string) url.Values {
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

// visit opens an address, signs in and gives consent on every page that asks for it, and returns the
// page without a form, or the redirect to another site, that comes in the end.
func (b *browser) visit(address string) page {
	b.s.t.Helper()
	p := b.do("GET", address, nil)
	for range 8 {
		switch {
		case strings.HasPrefix(p.location, "/"):
			p = b.do("GET", b.s.URL+p.location, nil)
		case p.location != "" || !firstForm.MatchString(p.body):
			return p
		default:
			p = b.submit(p, map[string]string{"email": b.email, "password": b.password})
		}
		if p.status >= 400 {
			b.s.t.Fatalf("%d: %s", p.status, p.body)
		}
	}
	b.s.t.Fatalf("too many pages: %s", p.body)
	return p
}

// authorize visits an authorization URL and returns the parameters of the redirect to the client.
func (b *browser) authorize(address string) url.Values {
	b.s.t.Helper()
	p := b.visit(address)
	u, err := url.Parse(p.location)
	b.s.must(err)
	if u.Query().Get("code") == "" {
		b.s.t.Fatalf("no code in the redirect to %s", p.location)
	}
	return u.Query()
}
