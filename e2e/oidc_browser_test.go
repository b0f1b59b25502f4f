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
	// returnTo is where applications of these tests want their users back; nobody listens there.
	returnTo = "http://127.0.0.1:9/callback"
)

// eachSignIn is each, with a first owner who can sign in.
func eachSignIn(t *testing.T, test func(t *testing.T, s *steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, beginSignIn(t, name)) })
	}
}

func beginSignIn(t *testing.T, database string) *steward {
	s := prepare(t, database)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + adminEmail, "STEWARD_ADMIN_PASSWORD=" + adminPassword}
	s.run()
	return s
}

// application is an OAuth client as its program knows it.
type application struct{ id, secret string }

func (s *steward) application(settings map[string]any) application {
	s.t.Helper()
	settings["name"], settings["description"], settings["homepage_url"] = "Harbour Dashboard", "For tests", "https://harbour.example.com"
	if settings["redirect_uris"] == nil {
		settings["redirect_uris"] = []string{returnTo}
	}
	a := s.call("POST", "/oidc/clients", settings).want(200)
	return application{id: a.text("client.id"), secret: a.text("client_secret")}
}

var everyGrant = []string{"authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code"}

// visitor is somebody at a browser without JavaScript.
type visitor struct {
	s               *steward
	http            *http.Client
	email, password string
}

func (s *steward) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	s.must(err)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{s: s, http: &http.Client{Jar: jar, CheckRedirect: stay}, email: adminEmail, password: adminPassword}
}

// invited is a new member of the organization, who has set a first password by the invitation's link.
func (s *steward) invited(email, role string) (v *visitor, userID string) {
	s.t.Helper()
	made := s.call("POST", "/oidc/org/members", map[string]any{"email": email, "role": role}).want(201)
	v = s.visitor()
	v.email, v.password = email, "a first password"
	page := v.do("GET", made.text("link"), nil)
	if at := v.send(page, map[string]string{"password": v.password}); at.moved != "/account" {
		s.t.Fatalf("the invitation leads to %q: %s", at.moved, at.body)
	}
	return v, made.text("id")
}

// sight is a page, or where the visitor was sent.
type sight struct {
	status int
	body   string
	moved  string
}

func (v *visitor) do(method, address string, form url.Values) sight {
	v.s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, address, body)
	v.s.must(err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := v.http.Do(req)
	v.s.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	v.s.must(err)
	return sight{status: res.StatusCode, body: string(text), moved: res.Header.Get("Location")}
}

var (
	firstForm  = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)
	inputs     = regexp.MustCompile(`<(input|button) ([^>]*)>`)
	attributes = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// send sends the page's first form with its first button, and with some fields filled in.
func (v *visitor) send(at sight, fields map[string]string) sight {
	v.s.t.Helper()
	m := firstForm.FindStringSubmatch(at.body)
	if m == nil {
		v.s.t.Fatalf("no form on this page (%d): %s", at.status, at.body)
	}
	values, pressed := url.Values{}, false
	for _, tag := range inputs.FindAllStringSubmatch(m[3], -1) {
		a := map[string]string{}
		for _, pair := range attributes.FindAllStringSubmatch(tag[2], -1) {
			a[pair[1]] = html.UnescapeString(pair[2])
		}
		isButton := tag[1] == "button"
		if a["name"] != "" && !(isButton && pressed) {
			values.Add(a["name"], a["value"])
		}
		pressed = pressed || isButton
	}
	for name, value := range fields {
		if values.Has(name) {
			values.Set(name, value)
		}
	}
	address := v.s.URL + html.UnescapeString(m[2])
	if strings.EqualFold(m[1], "get") {
		return v.do("GET", address+"?"+values.Encode(), nil)
	}
	return v.do("POST", address, values)
}

// visit goes to an address and through every page that comes, signing in and agreeing, until there is no form or the way leads elsewhere.
func (v *visitor) visit(address string) sight {
	v.s.t.Helper()
	at := v.do("GET", address, nil)
	for range 8 {
		switch {
		case strings.HasPrefix(at.moved, "/"):
			at = v.do("GET", v.s.URL+at.moved, nil)
		case at.moved != "" || !firstForm.MatchString(at.body):
			return at
		default:
			at = v.send(at, map[string]string{"email": v.email, "password": v.password})
		}
		if at.status >= 400 {
			v.s.t.Fatalf("%d: %s", at.status, at.body)
		}
	}
	v.s.t.Fatalf("the pages do not end: %s", at.body)
	return at
}

// back is what an application gets when its user comes back.
func (v *visitor) back(address string) url.Values {
	v.s.t.Helper()
	at := v.visit(address)
	u, err := url.Parse(at.moved)
	v.s.must(err)
	if u.Query().Get("code") == "" {
		v.s.t.Fatalf("no code came back: %s", at.moved)
	}
	return u.Query()
}
