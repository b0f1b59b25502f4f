package providertest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/pquerna/otp/totp"
)

// AuthenticatorApp is a user's authenticator app, with the recovery codes that the user has kept.
type AuthenticatorApp struct {
	fixture  *Fixture
	Secret   string
	Recovery []string
}

var (
	shownSecret   = regexp.MustCompile(`aria-labelledby="key">([A-Z2-7]{32})<`)
	shownRecovery = regexp.MustCompile(`<li>([a-z2-7-]{19})</li>`)
)

// Code returns the next period's code, because each is accepted once.
func (a *AuthenticatorApp) Code() string {
	a.fixture.T.Helper()
	a.fixture.Clock.Add(30 * time.Second)
	code, err := totp.GenerateCode(a.Secret, a.fixture.Clock.Now())
	Must(a.fixture.T, err)
	return code
}

// Wrong returns a code that the app does not show now or soon.
func (a *AuthenticatorApp) Wrong() string {
	a.fixture.T.Helper()
	var codes []string
	for period := -2; period <= 2; period++ {
		at := a.fixture.Clock.Now().Add(time.Duration(period) * 30 * time.Second)
		code, err := totp.GenerateCode(a.Secret, at)
		Must(a.fixture.T, err)
		codes = append(codes, code)
	}
	for i := 0; ; i++ {
		if code := fmt.Sprintf("%06d", i); !slices.Contains(codes, code) {
			return code
		}
	}
}

// ScanApp returns the app that has scanned a page's code.
func (f *Fixture) ScanApp(setup *Response) *AuthenticatorApp {
	f.T.Helper()
	found := shownSecret.FindStringSubmatch(setup.Want(http.StatusOK).Body)
	if found == nil {
		f.T.Fatalf("the page shows no secret: %s", setup.Body)
	}
	return &AuthenticatorApp{fixture: f, Secret: found[1]}
}

// Keep keeps the recovery codes that a page shows.
func (a *AuthenticatorApp) Keep(shown *Response) {
	a.fixture.T.Helper()
	a.Recovery = nil
	for _, found := range shownRecovery.FindAllStringSubmatch(shown.Want(http.StatusOK).Body, -1) {
		a.Recovery = append(a.Recovery, found[1])
	}
	if len(a.Recovery) != 10 {
		a.fixture.T.Fatalf("%d recovery codes are shown: %s", len(a.Recovery), shown.Body)
	}
}

// AddApp adds an authenticator app on the account page.
func (b *Browser) AddApp() *AuthenticatorApp {
	b.Fixture.T.Helper()
	setup := b.Get(b.Fixture.URL + "/account/authenticator")
	a := b.Fixture.ScanApp(setup)
	a.Keep(b.Submit(setup, "code", a.Code()))
	return a
}

// OwnersApp adds an authenticator app for the owner.
func (f *Fixture) OwnersApp() *AuthenticatorApp {
	f.T.Helper()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	return b.AddApp()
}
