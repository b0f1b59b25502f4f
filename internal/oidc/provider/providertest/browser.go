package providertest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// Browser keeps cookies and follows no redirects.
type Browser struct {
	Fixture *Fixture
	HTTP    *http.Client
	// Address overrides the browser's address, unless it is "".
	Address string
}

// Browser returns a new browser.
func (f *Fixture) Browser() *Browser {
	jar, _ := cookiejar.New(nil)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Browser{Fixture: f, HTTP: &http.Client{Jar: jar, CheckRedirect: stay}}
}

// BrowserAt returns a new browser at an address.
func (f *Fixture) BrowserAt(address string) *Browser {
	b := f.Browser()
	b.Address = address
	return b
}

// Do sends a request, with a form unless that is nil.
func (b *Browser) Do(method, target string, form url.Values, headers ...string) *Response {
	b.Fixture.T.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, target, body)
	Must(b.Fixture.T, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.Address != "" {
		req.Header.Set("X-Forwarded-For", b.Address)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Host = req.Header.Get("Host")
	resp, err := b.HTTP.Do(req)
	Must(b.Fixture.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	Must(b.Fixture.T, err)
	return &Response{T: b.Fixture.T, Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// Get sends a GET request.
func (b *Browser) Get(target string) *Response { b.Fixture.T.Helper(); return b.Do("GET", target, nil) }

// Submit sends a page's first form with some fields set.
func (b *Browser) Submit(r *Response, fields ...string) *Response {
	b.Fixture.T.Helper()
	method, action, values := r.Form()
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	if method == "GET" {
		return b.Get(b.Fixture.URL + action + "?" + values.Encode())
	}
	return b.Do(method, b.Fixture.URL+action, values)
}

// Follow follows redirects within the provider.
func (b *Browser) Follow(r *Response) *Response {
	b.Fixture.T.Helper()
	for r.Status == http.StatusSeeOther && strings.HasPrefix(r.Header.Get("Location"), "/") {
		r = b.Get(b.Fixture.URL + r.Header.Get("Location"))
	}
	return r
}

// SignIn submits the sign-in page as the owner and returns the page after it.
func (b *Browser) SignIn(r *Response) *Response {
	b.Fixture.T.Helper()
	return b.Follow(b.Submit(r, "email", OwnerEmail, "password", OwnerPassword))
}

// Complete submits all pages as the owner until the browser goes back to the client, and returns that
// redirect's parameters.
func (b *Browser) Complete(r *Response) url.Values {
	b.Fixture.T.Helper()
	return b.CompleteAs(r, OwnerEmail, OwnerPassword)
}

// CompleteAs is Complete for another user.
func (b *Browser) CompleteAs(r *Response, email, password string) url.Values {
	b.Fixture.T.Helper()
	for range 5 {
		r = b.Follow(r)
		if r.Status == http.StatusSeeOther {
			u, err := url.Parse(r.Header.Get("Location"))
			Must(b.Fixture.T, err)
			return u.Query()
		}
		r.Want(http.StatusOK)
		r = b.Submit(r, "email", email, "password", password)
	}
	b.Fixture.T.Fatalf("no redirect to the client after 5 pages: %s", r.Body)
	return nil
}

// Decide submits a consent page with these scopes checked.
func (b *Browser) Decide(page *Response, checked ...string) *Response {
	b.Fixture.T.Helper()
	_, action, values := page.Want(http.StatusOK).Form()
	values["scope"] = checked
	return b.Do("POST", b.Fixture.URL+action, values)
}

// EndSession returns a logout request.
func EndSession(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

// LogOut sends a logout request.
func (b *Browser) LogOut(pairs ...string) *Response {
	b.Fixture.T.Helper()
	return b.Get(b.Fixture.URL + "/end_session?" + EndSession(pairs...).Encode())
}

// SignedIn reports whether a browser shows the account page.
func (b *Browser) SignedIn() bool {
	b.Fixture.T.Helper()
	return strings.Contains(b.Get(b.Fixture.URL+"/account").Want(http.StatusOK).Body, "Your account")
}
