package providertest

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Response is an HTTP response with its body.
type Response struct {
	T      testing.TB
	Status int
	Header http.Header
	Body   string
}

// Want requires a status.
func (r *Response) Want(status int) *Response {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("got status %d, want %d: %s", r.Status, status, r.Body)
	}
	return r
}

// WantError requires an OAuth error.
func (r *Response) WantError(status int, code string) *Response {
	r.T.Helper()
	r.Want(status)
	if got := r.JSON()["error"]; got != code {
		r.T.Fatalf("got error %v, want %s: %s", got, code, r.Body)
	}
	return r
}

// WantRefused requires an OAuth error with status 400.
func (r *Response) WantRefused(code string) *Response {
	r.T.Helper()
	return r.WantError(http.StatusBadRequest, code)
}

// JSON returns the body, which must be a JSON object.
func (r *Response) JSON() map[string]any {
	r.T.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(r.Body), &out); err != nil {
		r.T.Fatalf("not JSON: %s", r.Body)
	}
	return out
}

// Text returns a field from the body, or "" if it is not a string.
func (r *Response) Text(field string) string {
	r.T.Helper()
	s, _ := r.JSON()[field].(string)
	return s
}

// Location returns the parameters in a redirect to the client.
func (r *Response) Location() url.Values {
	r.T.Helper()
	u, err := url.Parse(r.Want(http.StatusSeeOther).Header.Get("Location"))
	Must(r.T, err)
	return u.Query()
}

// FormTag matches a form on a page.
var FormTag = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)

var (
	inputTag = regexp.MustCompile(`<input ([^>]*)>`)
	attr     = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
	button   = regexp.MustCompile(`<button [^>]*type="submit"([^>]*)>`)
)

// Form returns a page's first form as a browser sends it with the first button.
func (r *Response) Form() (method, action string, values url.Values) {
	r.T.Helper()
	m := FormTag.FindStringSubmatch(r.Body)
	if m == nil {
		r.T.Fatalf("no form on this page (%d): %s", r.Status, r.Body)
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

// Asks reports whether a page asks for a scope.
func (r *Response) Asks(scope string) bool {
	return strings.Contains(r.Body, `name="scope" value="`+scope+`"`)
}
