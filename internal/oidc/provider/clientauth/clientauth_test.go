package clientauth_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestClientAuthentication checks both methods, that unknown clients and wrong secrets get the same
// response, and that credentials are form-decoded.
func TestClientAuthentication(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	const unknownID = "oac_01h00000000000000000000000"
	wrong := a.WithSecret("wrong").Post("/oauth/token", "grant_type", "client_credentials")
	wrong.WantError(http.StatusUnauthorized, oauth.InvalidClient)
	nobody := &providertest.App{Fixture: f, ID: unknownID, Secret: "wrong"}
	unknown := nobody.Post("/oauth/token", "grant_type", "client_credentials")
	if unknown.Status != wrong.Status || unknown.Body != wrong.Body ||
		wrong.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%d %s and %d %s", wrong.Status, wrong.Body, unknown.Status, unknown.Body)
	}
	b := f.Browser()
	token := func(form url.Values, headers ...string) *providertest.Response {
		form.Set("grant_type", "client_credentials")
		return b.Do("POST", f.URL+"/oauth/token", form, headers...)
	}
	token(url.Values{"client_id": {a.ID}, "client_secret": {a.Secret}}).Want(http.StatusOK)
	token(url.Values{"client_id": {a.ID}}).WantError(http.StatusUnauthorized, oauth.InvalidClient)
	escaped := strings.ReplaceAll(a.ID, "_", "%5F") + ":" + "%" + hex(a.Secret[0]) + a.Secret[1:]
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(escaped))
	token(url.Values{}, "Authorization", basic).Want(http.StatusOK)
	both := url.Values{"client_id": {a.ID}, "client_secret": {a.Secret}}
	token(both, "Authorization", basic).WantRefused(oauth.InvalidRequest)
	token(url.Values{"client_id": {unknownID}}, "Authorization", basic).WantRefused(oauth.InvalidRequest)
	inURL := f.URL + "/oauth/token?client_secret=" + a.Secret
	b.Do("POST", inURL, url.Values{"client_id": {a.ID}}).Want(http.StatusBadRequest)
	b.Do("GET", f.URL+"/oauth/token", nil).Want(http.StatusMethodNotAllowed)
	a.Post("/oauth/token", "grant_type", "password", "username", "x").WantRefused("unsupported_grant_type")
	r := b.Get(a.AuthorizeURL("response_type", "token")).Want(http.StatusSeeOther)
	if !strings.Contains(r.Header.Get("Location"), "unsupported_response_type") {
		t.Error("the implicit grant is not refused")
	}
	// A new secret replaces the old one.
	old := *a
	a.RotateSecret()
	old.Post("/oauth/token", "grant_type", "client_credentials").
		WantError(http.StatusUnauthorized, oauth.InvalidClient)
	a.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK)
}

func hex(b byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{digits[b>>4], digits[b&15]})
}
