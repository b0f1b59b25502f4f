package provider

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// browser is a browser that keeps cookies and follows no redirects.
type browser struct {
	f    *fixture
	http *http.Client
	// address is its address, unless that is "".
	address string
}

func (f *fixture) browser() *browser {
	jar, _ := cookiejar.New(nil)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{f: f, http: &http.Client{Jar: jar, CheckRedirect: stay}}
}

func (b *browser) do(method, target string, form url.Values, headers ...string) *response {
	b.f.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, target, body)
	must(b.f.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.address != "" {
		req.Header.Set("X-Forwarded-For", b.address)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	must(b.f.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(b.f.t, err)
	return &response{t: b.f.t, status: resp.StatusCode, header: resp.Header, body: string(text)}
}

func (b *browser) get(target string) *response { b.f.t.Helper(); return b.do("GET", target, nil) }

var (
	formTag  = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)
	inputTag = regexp.MustCompile(`<input ([^>]*)>`)
	attr     = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
	button   = regexp.MustCompile(`<button [^>]*type="submit"([^>]*)>`)
)

// form returns the first form of a page as a browser sends it with its first button.
func (r *response) form() (method, action string, values url.Values) {
	r.t.Helper()
	m := formTag.FindStringSubmatch(r.body)
	if m == nil {
		r.t.Fatalf("no form on this page (%d): %s", r.status, r.body)
	}
	values = url.Values{}
	for _, tag := range inputTag.FindAllStringSubmatch(m[3], -1) {
		a := map[string]string{}
		for _, pair := range attr.FindAllStringSubmatch(tag[1], -1) {
			a[pair[1]] = html.UnescapeString(pair[2])
		}
		if a["name"] == "" || a["type"] == "checkbox" && !strings.Contains(tag[1], "checked") {
			continue
		}
		values.Add(a["name"], a["value"])
	}
	if b := button.FindStringSubmatch(m[3]); b != nil {
		a := map[string]string{}
		for _, pair := range attr.FindAllStringSubmatch(b[1], -1) {
			a[pair[1]] = pair[2]
		}
		if a["name"] != "" {
			values.Set(a["name"], a["value"])
		}
	}
	return strings.ToUpper(m[1]), html.UnescapeString(m[2]), values
}

// submit sends the first form of a page with some fields set.
func (b *browser) submit(r *response, fields ...string) *response {
	b.f.t.Helper()
	method, action, values := r.form()
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	if method == "GET" {
		return b.get(b.f.url + action + "?" + values.Encode())
	}
	return b.do(method, b.f.url+action, values)
}

// follow follows redirects within the provider.
func (b *browser) follow(r *response) *response {
	b.f.t.Helper()
	for r.status == http.StatusSeeOther && strings.HasPrefix(r.header.Get("Location"), "/") {
		r = b.get(b.f.url + r.header.Get("Location"))
	}
	return r
}

// signIn submits the sign-in page as the owner and returns the page after it.
func (b *browser) signIn(r *response) *response {
	b.f.t.Helper()
	return b.follow(b.submit(r, "email", ownerEmail, "password", ownerPassword))
}

// complete submits all pages as the owner until the browser is redirected to the client, and returns the
// parameters of that redirect.
func (b *browser) complete(r *response) url.Values {
	b.f.t.Helper()
	return b.completeAs(r, ownerEmail, ownerPassword)
}

func (b *browser) completeAs(r *response, email, password string) url.Values {
	b.f.t.Helper()
	for range 5 {
		r = b.follow(r)
		if r.status == http.StatusSeeOther {
			u, err := url.Parse(r.header.Get("Location"))
			must(b.f.t, err)
			return u.Query()
		}
		r.want(http.StatusOK)
		r = b.submit(r, "email", email, "password", password)
	}
	b.f.t.Fatalf("no redirect to the client after 5 pages: %s", r.body)
	return nil
}

const verifier = "a-verifier-of-at-least-43-characters-0123456789"
