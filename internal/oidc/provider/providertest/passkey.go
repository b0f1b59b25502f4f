package providertest

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
)

var (
	passkeyForm = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)" id="passkey" data-options="([^"]+)".*?</form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
)

// Ceremony returns a page's passkey form, with its hidden fields and its options.
func (r *Response) Ceremony() (action string, values url.Values, options string) {
	r.T.Helper()
	form := passkeyForm.FindStringSubmatch(r.Body)
	if form == nil {
		r.T.Fatalf("the page has no form for a passkey (%d): %s", r.Status, r.Body)
	}
	values = url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(form[0], -1) {
		values.Set(field[1], html.UnescapeString(field[2]))
	}
	return form[1], values, html.UnescapeString(form[2])
}

// AddPasskey creates a passkey on a page and sends it.
func (b *Browser) AddPasskey(page *Response, a *Authenticator) *Response {
	b.Fixture.T.Helper()
	action, values, options := page.Want(http.StatusOK).Ceremony()
	values.Set("credential", a.Create(options))
	values.Set("name", "Laptop")
	return b.Do("POST", b.Fixture.URL+action, values)
}

// UsePasskey signs in with a passkey on a page.
func (b *Browser) UsePasskey(page *Response, a *Authenticator) *Response {
	b.Fixture.T.Helper()
	action, values, options := page.Ceremony()
	values.Set("credential", a.Get(options))
	return b.Do("POST", b.Fixture.URL+action, values)
}

// WithPasskey returns an authenticator with the owner's passkey, and the browser that created it.
func (f *Fixture) WithPasskey() (*Browser, *Authenticator) {
	f.T.Helper()
	f.UseLocalhost()
	b, a := f.Browser(), f.NewAuthenticator()
	a.Count = 1
	b.SignIn(b.Get(f.URL + "/account"))
	b.AddPasskey(b.Get(f.URL+"/account/passkeys"), a).Want(http.StatusOK)
	return b, a
}

// SignedInStranger returns a browser with a user from another organization.
func (f *Fixture) SignedInStranger() *Browser {
	f.T.Helper()
	f.NewUser("other@example.com", "another password")
	b := f.Browser()
	b.Submit(b.Get(f.URL+"/account"), "email", "other@example.com", "password", "another password").Want(http.StatusSeeOther)
	return b
}
