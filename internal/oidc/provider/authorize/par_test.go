package authorize_test

import (
	"net/http"
	"net/url"
	"testing"

	"steward/internal/oidc/provider/authorize"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestPushedRequestIsUsedOnceByItsClient also checks that other parameters in the URL are ignored.
func TestPushedRequestIsUsedOnceByItsClient(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, other := f.NewApp(providertest.Confidential), f.NewApp(providertest.Confidential)
		push := func() string {
			form := a.Params()
			var pairs []string
			for name := range form {
				pairs = append(pairs, name, form.Get(name))
			}
			return a.Post("/par", pairs...).Want(http.StatusCreated).Text("request_uri")
		}
		at := func(a *providertest.App, uri string) string {
			v := url.Values{"client_id": {a.ID}, "request_uri": {uri}, "redirect_uri": {"https://evil.example.com"}}
			return f.URL + "/authorize?" + v.Encode()
		}
		uri := push()
		b := f.Browser()
		tokens := a.Redeem(b.Complete(b.Get(at(a, uri))).Get("code")).Want(http.StatusOK)
		if tokens.Text("id_token") == "" {
			t.Error("no ID token")
		}
		b.Get(at(a, uri)).Want(http.StatusBadRequest)
		b.Get(at(other, push())).Want(http.StatusBadRequest)
		late := push()
		f.Clock.Add(authorize.PushedLifetime)
		b.Get(at(a, late)).Want(http.StatusBadRequest)
		a.Post("/par", "response_type", "code", "redirect_uri", "https://evil.example.com").
			WantRefused(oauth.InvalidRequest)
		a.WithSecret("wrong").Post("/par").WantError(http.StatusUnauthorized, oauth.InvalidClient)
		b.Get(a.AuthorizeURL("request_uri", "https://evil.example.com/request")).Want(http.StatusSeeOther)
	})
}
