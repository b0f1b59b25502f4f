package e2e

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
)

// again is a user who signs in again.
type again struct {
	*installation.Browser
	t   *testing.T
	acr string // of the first sign-in
}

// submitPasskey completes the form for a passkey on a page. sign is Create or Get of an authenticator.
func (a *again) submitPasskey(p installation.Page, sign func(options string) string) installation.Page {
	a.t.Helper()
	action, values, options := (&providertest.Response{T: a.t, Status: p.Status, Body: p.Body}).Ceremony()
	values.Set("credential", sign(options))
	values.Set("name", "Laptop")
	return a.Do("POST", a.Steward.URL+action, values)
}

// page returns the page on which the user signs in again.
func (a *again) page() installation.Page {
	a.t.Helper()
	p := a.Do("GET", a.Steward.URL+"/console/sign-in?recent=1", nil)
	if p.Status != 200 {
		a.t.Fatalf("no page to sign in again: %d %s", p.Status, p.Location)
	}
	return p
}

// want fails the test unless the console makes an API key, or refuses it and asks for a new sign-in.
func (a *again) want(made bool, after string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), "POST", a.Steward.URL+"/console/api/cli/apikey", strings.NewReader(`{"name": "k"}`))
	a.Steward.Must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Steward-Console", "1")
	res, err := a.HTTP.Do(r)
	a.Steward.Must(err)
	got, err := installation.ReadResponse(a.t, res)
	a.Steward.Must(err)
	refused := got.Status == 403 && got.Text("code") == "reauthentication_required"
	if made != (got.Status == 201) || made == refused {
		a.t.Errorf("%s: %d %s", after, got.Status, got.Body)
	}
}

// TestSigningInAgainReachesTheLevelOfTheSession has users who signed in an hour ago in four ways sign in again, first
// with less. The applications that ask get the same acr as before.
func TestSigningInAgainReachesTheLevelOfTheSession(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := installation.StartOnLocalhost(t, database)
			there := installation.StartWithOwner(t, "sqlite") // at another host, since browsers share cookies between ports
			app := there.NewApplication(object{
				"redirect_uris": []string{s.URL + upstream.PathCallback}, "scopes": []string{"openid", "profile", "email"},
			})
			provider := s.Call("POST", "/oidc/upstream", object{
				"name": "There", "issuer": there.URL, "client_id": app.ID, "client_secret": app.Secret, "default_role": "member",
			}).Want(201)
			rp := s.NewRelyingParty(s.NewApplication(object{"scopes": []string{"openid"}}), "openid")
			level := func(b *installation.Browser) string {
				_, token := rp.SignIn(b)
				var claims struct{ ACR string }
				s.Must(token.Claims(&claims))
				return claims.ACR
			}
			user := func(b *installation.Browser, acr string) *again {
				b.EnterConsole()
				if got := level(b); got != acr {
					t.Fatalf("the first sign-in of %s has acr %q, want %q", b.Email, got, acr)
				}
				return &again{Browser: b, t: t, acr: acr}
			}
			byPassword := user(s.NewBrowser(), "pwd")

			grace, _ := s.Invite("grace@example.com", "member")
			grace.VisitAccount()
			setup := grace.Do("GET", s.URL+"/account/authenticator", nil)
			secret := regexp.MustCompile(`aria-labelledby="key">([A-Z2-7]{32})<`).FindStringSubmatch(setup.Body)[1]
			code := func(later time.Duration) map[string]string {
				text, err := totp.GenerateCode(secret, time.Now().Add(later))
				s.Must(err)
				return map[string]string{"code": text}
			}
			grace.Submit(setup, code(0))
			grace = s.BrowserOf(grace.Email, grace.Password)
			grace.Submit(grace.Submit(grace.Do("GET", s.URL+"/account", nil),
				map[string]string{"email": grace.Email, "password": grace.Password}), code(30*time.Second))
			byCode := user(grace, "mfa")

			dora, _ := s.Invite("dora@example.com", "member")
			key := &providertest.Authenticator{T: t, Origin: s.URL, RPID: "localhost", Count: 1}
			dora.VisitAccount()
			(&again{Browser: dora, t: t}).submitPasskey(dora.Do("GET", s.URL+"/account/passkeys", nil), key.Create)
			dora = s.BrowserOf(dora.Email, dora.Password)
			(&again{Browser: dora, t: t}).submitPasskey(dora.Do("GET", s.URL+"/account", nil), key.Get)
			byPasskey := user(dora, "phr")

			theirs, _ := there.Invite("paul@example.org", "member")
			paul := s.BrowserOf("", "") // who has nothing here
			theirs.HTTP = paul.HTTP
			visitThere := func(address string) {
				if p := paul.Do("GET", theirs.Visit(address).Location, nil); p.Status != 303 {
					t.Fatalf("the provider leads to %d: %s", p.Status, p.Body)
				}
			}
			visitThere(paul.Do("GET", provider.Text("sign_in_url"), nil).Location)
			byProvider := user(paul, "pwd")

			all := []*again{byPassword, byCode, byPasskey, byProvider}
			s.AgeSignIns()
			for _, a := range all {
				a.want(false, "an hour later")
			}

			byPassword.Submit(byPassword.page(), map[string]string{"password": byPassword.Password})

			p := byCode.page()
			form := installation.FormValues(installation.FirstForm.FindStringSubmatch(p.Body)[3])
			alone := url.Values{"csrf": form["csrf"], "flow": form["flow"], "code": {code(0)["code"]}}
			if got := byCode.Do("POST", s.URL+"/sign-in/factor", alone); got.Status != 400 {
				t.Errorf("a code alone: %d %s", got.Status, got.Body)
			}
			byCode.want(false, "a code alone")
			p = byCode.Submit(p, map[string]string{"password": byCode.Password})
			byCode.want(false, "the password alone")
			byCode.Submit(p, code(30*time.Second))

			p = byPasskey.page()
			_, fields, _ := (&providertest.Response{T: t, Body: p.Body}).Ceremony()
			fields.Set("email", byPasskey.Email)
			fields.Set("password", byPasskey.Password)
			if got := byPasskey.Do("POST", s.URL+"/sign-in", fields); got.Status != 403 || strings.Contains(p.Body, `name="password"`) {
				t.Errorf("the password in place of the passkey: %d %s", got.Status, got.Body)
			}
			byPasskey.want(false, "the password in place of the passkey")
			byPasskey.submitPasskey(byPasskey.page(), key.Get)

			p = byProvider.page()
			if strings.Contains(p.Body, `name="password"`) || strings.Contains(p.Body, `id="passkey"`) {
				t.Errorf("a user who has a provider alone is asked for something else: %s", p.Body)
			}
			visitThere(byProvider.Submit(p, nil).Location)

			for _, a := range all {
				a.want(true, "after the sign-in")
				if got := level(a.Browser); got != a.acr {
					t.Errorf("the new sign-in has acr %q, want %q", got, a.acr)
				}
			}
		})
	}
}
