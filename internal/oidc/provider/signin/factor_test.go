package signin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	"steward/internal/page"
)

// authenticator is an authenticator app of a user, with the recovery codes that the user has kept.
type authenticator struct {
	fixture  *providertest.Fixture
	secret   string
	recovery []string
}

var (
	shownSecret   = regexp.MustCompile(`aria-labelledby="key">([A-Z2-7]{32})<`)
	shownRecovery = regexp.MustCompile(`<li>([a-z2-7-]{19})</li>`)
)

// code returns the code of the next period: each is accepted once.
func (a *authenticator) code() string {
	a.fixture.T.Helper()
	a.fixture.Clock.Add(30 * time.Second)
	code, err := totp.GenerateCode(a.secret, a.fixture.Clock.Now())
	providertest.Must(a.fixture.T, err)
	return code
}

// wrong returns a code that is none of the app's, now or soon.
func (a *authenticator) wrong() string {
	a.fixture.T.Helper()
	var codes []string
	for period := -2; period <= 2; period++ {
		at := a.fixture.Clock.Now().Add(time.Duration(period) * 30 * time.Second)
		code, err := totp.GenerateCode(a.secret, at)
		providertest.Must(a.fixture.T, err)
		codes = append(codes, code)
	}
	for i := 0; ; i++ {
		if code := fmt.Sprintf("%06d", i); !slices.Contains(codes, code) {
			return code
		}
	}
}

// scan returns the app that has scanned the code of a page.
func scan(f *providertest.Fixture, setup *providertest.Response) *authenticator {
	f.T.Helper()
	found := shownSecret.FindStringSubmatch(setup.Want(http.StatusOK).Body)
	if found == nil {
		f.T.Fatalf("the page shows no secret: %s", setup.Body)
	}
	return &authenticator{fixture: f, secret: found[1]}
}

// keep keeps the recovery codes of a page.
func (a *authenticator) keep(shown *providertest.Response) {
	a.fixture.T.Helper()
	a.recovery = nil
	for _, found := range shownRecovery.FindAllStringSubmatch(shown.Want(http.StatusOK).Body, -1) {
		a.recovery = append(a.recovery, found[1])
	}
	if len(a.recovery) != 10 {
		a.fixture.T.Fatalf("%d recovery codes are shown: %s", len(a.recovery), shown.Body)
	}
}

// addApp adds an authenticator app on the account page of a browser.
func addApp(b *providertest.Browser) *authenticator {
	b.Fixture.T.Helper()
	setup := b.Get(b.Fixture.URL + "/account/authenticator")
	a := scan(b.Fixture, setup)
	a.keep(b.Submit(setup, "code", a.code()))
	return a
}

// ownersApp adds an authenticator app of the owner.
func ownersApp(f *providertest.Fixture) *authenticator {
	f.T.Helper()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	return addApp(b)
}

// password submits the password of the owner on the account page, and returns the page after it.
func password(b *providertest.Browser) *providertest.Response {
	b.Fixture.T.Helper()
	return b.SignIn(b.Get(b.Fixture.URL + "/account"))
}

// isCode reports whether a page asks for a code.
func isCode(r *providertest.Response) bool {
	return strings.Contains(r.Body, `action="/sign-in/factor"`)
}

// isEnrol reports whether a page asks to set up an authenticator app.
func isEnrol(r *providertest.Response) bool {
	return strings.Contains(r.Body, `action="/sign-in/enrol"`)
}

// sessionCookie returns the session cookie of a browser, or "".
func sessionCookie(b *providertest.Browser) string {
	b.Fixture.T.Helper()
	u, err := url.Parse(b.Fixture.URL)
	providertest.Must(b.Fixture.T, err)
	for _, c := range b.HTTP.Jar.Cookies(u) {
		if c.Name == session.CookieName {
			return c.Value
		}
	}
	return ""
}

func TestAuthenticatorAppIsAskedForAfterThePassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		client := f.NewApp(providertest.Confidential)
		b := f.Browser()
		asked := b.SignIn(b.Get(client.AuthorizeURL("scope", "openid"))).Want(http.StatusOK)
		if !isCode(asked) || sessionCookie(b) != "" {
			t.Fatalf("signed in with the password alone: %s", asked.Body)
		}
		for _, wrong := range []string{"", app.wrong(), "abcd-efgh-ijkl-mnop", "12345", strings.Repeat("7", 70)} {
			if again := b.Submit(asked, "code", wrong).Want(http.StatusBadRequest); !isCode(again) || sessionCookie(b) != "" {
				t.Errorf("%q was accepted: %s", wrong, again.Body)
			}
		}
		typed := app.code()
		result := b.Complete(b.Submit(asked, "code", typed[:3]+" "+typed[3:]))
		tokens := client.Redeem(result.Get("code")).Want(http.StatusOK).JSON()
		claims := providertest.Claims(t, tokens["id_token"])
		if got := fmt.Sprint(claims["acr"], claims["amr"]); got != "mfa[pwd otp mfa]" {
			t.Errorf("acr and amr are %s", got)
		}
	})
}

// TestCodeIsAcceptedOnce uses the code of a sign-in, and older ones, in other browsers.
func TestCodeIsAcceptedOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		early := app.code()
		late := app.code()
		first, second := f.Browser(), f.Browser()
		asked := password(second)
		first.Submit(password(first), "code", late).Want(http.StatusSeeOther)
		for _, used := range []string{late, early} {
			second.Submit(asked, "code", used).Want(http.StatusBadRequest)
		}
		if sessionCookie(second) != "" {
			t.Error("a code was accepted twice")
		}
		second.Submit(asked, "code", app.code()).Want(http.StatusSeeOther)
	})
}

// TestGuessedCodesHaveToWait guesses codes in several browsers and on two replicas: the fixture's provider
// is replaced by another one. The user can still sign in with a recovery code.
func TestGuessedCodesHaveToWait(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		asked, b := (*providertest.Response)(nil), (*providertest.Browser)(nil)
		for range 5 {
			f.Serve(f.NewProvider())
			b = f.Browser()
			asked = password(b)
			b.Submit(asked, "code", app.wrong()).Want(http.StatusBadRequest)
		}
		refused := b.Submit(asked, "code", app.code()).Want(http.StatusTooManyRequests)
		if refused.Header.Get("Retry-After") == "" || sessionCookie(b) != "" {
			t.Fatalf("the right code was checked: %s", refused.Body)
		}
		f.Browser().Get(f.URL + "/account")
		rescued := f.Browser()
		rescued.Submit(password(rescued), "code", app.recovery[0]).Want(http.StatusSeeOther)
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.wrong()).Want(http.StatusBadRequest)
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.code()).Want(http.StatusTooManyRequests) // the pause has doubled
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.code()).Want(http.StatusSeeOther)
	})
}

func TestRecoveryCodeWorksOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		used := strings.ToUpper(app.recovery[3])
		b, other := f.Browser(), f.Browser()
		b.Submit(password(b), "code", used).Want(http.StatusSeeOther)
		asked := password(other)
		other.Submit(asked, "code", used).Want(http.StatusBadRequest)
		mine := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(mine.Body, "9 recovery codes are left") {
			t.Errorf("the account page does not say that 9 codes are left: %s", mine.Body)
		}
		earlier := app.recovery[0]
		_, _, values := mine.Form()
		values.Set("proof", "not the password")
		b.Do("POST", f.URL+"/account/recovery-codes", values).Want(http.StatusBadRequest)
		values.Set("proof", providertest.OwnerPassword)
		app.keep(b.Do("POST", f.URL+"/account/recovery-codes", values))
		other.Submit(asked, "code", earlier).Want(http.StatusBadRequest)
		other.Submit(asked, "code", app.recovery[0]).Want(http.StatusSeeOther)
	})
}

// TestResetDoesNotBypassTheSecondFactor resets the password of a user who has an authenticator app.
func TestResetDoesNotBypassTheSecondFactor(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		link := newReset(f)
		b := f.Browser()
		asked := b.Submit(b.Get(link), "password", "a second password").Want(http.StatusOK)
		if !isCode(asked) || sessionCookie(b) != "" || b.SignedIn() {
			t.Fatalf("the link has signed in: %s", asked.Body)
		}
		b.Get(link).Want(http.StatusNotFound)
		other := f.Browser()
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
			Want(http.StatusBadRequest)
		again := other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "a second password")
		if !isCode(again.Want(http.StatusOK)) {
			t.Error("the new password is enough")
		}
		if b.Submit(asked, "code", app.code()).Want(http.StatusSeeOther); !b.SignedIn() {
			t.Error("the code does not complete the sign-in")
		}
	})
}

// TestHalfSignInIsTiedToItsBrowserAndPassword takes what the page for the code carries to another browser,
// beyond its time and beyond a change of the password, and uses it with another user's app.
func TestHalfSignInIsTiedToItsBrowserAndPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		f.NewUser("mallory@example.com", "another password")
		mallory := signInAs(f.Browser(), "mallory@example.com", "another password")
		malloryApp := addApp(mallory)

		b := f.Browser()
		asked := password(b)
		b.Submit(asked, "code", malloryApp.code()).Want(http.StatusBadRequest)
		b.Submit(asked, "code", malloryApp.recovery[0]).Want(http.StatusBadRequest)

		_, _, stolen := asked.Form()
		_, _, own := mallory.Get(f.URL + "/account").Form()
		before := sessionCookie(mallory)
		stolen.Set("csrf", own.Get("csrf"))
		stolen.Set("code", app.code())
		mallory.Do("POST", f.URL+"/sign-in/factor", stolen).Want(http.StatusBadRequest)
		mallory.Do("POST", f.URL+"/sign-in/enrol", stolen).Want(http.StatusBadRequest)
		if sessionCookie(mallory) != before {
			t.Error("another browser has completed the sign-in")
		}

		f.Clock.Add(11 * time.Minute)
		b.Submit(asked, "code", app.code()).Want(http.StatusBadRequest)
		asked = password(b)
		f.Clock.Add(30 * time.Minute)
		b.Submit(asked, "code", app.code()).Want(http.StatusBadRequest)
		asked = password(b)
		there := f.Browser()
		there.Submit(there.Get(newReset(f)), "password", "a second password").Want(http.StatusOK)
		b.Submit(asked, "code", app.code()).Want(http.StatusBadRequest)
		if sessionCookie(b) != "" {
			t.Error("an expired sign-in was completed")
		}
	})
}

// TestSessionBeginsAfterTheSecondFactor has the browser hold a session cookie that somebody else knows.
func TestSessionBeginsAfterTheSecondFactor(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		f.NewUser("mallory@example.com", "another password")
		mallory := signInAs(f.Browser(), "mallory@example.com", "another password")
		planted := sessionCookie(mallory)
		b := f.Browser()
		u, err := url.Parse(f.URL)
		providertest.Must(t, err)
		asked := b.Get(f.URL + "/authorize?" + f.NewApp(providertest.Confidential).Params("prompt", "login").Encode())
		b.HTTP.Jar.SetCookies(u, []*http.Cookie{{Name: session.CookieName, Value: planted, Path: "/"}})
		asked = b.SignIn(asked)
		if !isCode(asked) || sessionCookie(b) != planted {
			t.Fatalf("the session has changed before the second factor: %s", asked.Body)
		}
		b.Submit(asked, "code", app.code()).Want(http.StatusSeeOther)
		if got := sessionCookie(b); got == planted || got == "" {
			t.Error("the session has a token that was known before the sign-in")
		}
		if strings.Contains(mallory.Get(f.URL+"/account").Body, providertest.OwnerEmail) {
			t.Error("the planted cookie belongs to the owner now")
		}
	})
}

func TestRemovingTheAppNeedsPasswordOrCode(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		password(b)
		app := addApp(b)
		_, _, values := b.Get(f.URL + "/account").Form()
		remove := func(proof string) *providertest.Response {
			values.Set("proof", proof)
			return b.Do("POST", f.URL+"/account/authenticator/remove", values)
		}
		for _, wrong := range []string{"", "wrong", app.wrong()} {
			if got := remove(wrong).Want(http.StatusBadRequest); !strings.Contains(got.Body, "Remove the app") {
				t.Errorf("%q has removed the app", wrong)
			}
		}
		for _, proof := range []string{providertest.OwnerPassword, ""} {
			if proof == "" {
				proof = addApp(b).code()
			}
			if got := remove(proof).Want(http.StatusOK); !strings.Contains(got.Body, "was removed") {
				t.Errorf("the app was not removed: %s", got.Body)
			}
		}
		other := f.Browser()
		if password(other); !other.SignedIn() {
			t.Error("a code is asked for without an app")
		}
	})
}

// TestClearedFactorsEndSessions has the operator remove the factors of the owner.
func TestClearedFactorsEndSessions(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		password(b)
		addApp(b)
		_, _, err := f.Accounts.ResetByEmail(t.Context(), providertest.OwnerEmail, false)
		providertest.Must(t, err)
		if other := f.Browser(); !isCode(password(other)) {
			t.Error("a reset link has removed the second factor")
		}
		_, _, err = f.Accounts.ResetByEmail(t.Context(), providertest.OwnerEmail, true)
		providertest.Must(t, err)
		if b.SignedIn() {
			t.Error("the session goes on")
		}
		if password(b); !b.SignedIn() {
			t.Error("a code is asked for after the factors were removed")
		}
		var left int
		providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT count(*) FROM oidc_recovery_codes`).Scan(&left))
		if left != 0 {
			t.Errorf("%d recovery codes are left", left)
		}
	})
}

// TestSecretsAreSealed looks for the secret and the recovery codes in the database.
func TestSecretsAreSealed(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := ownersApp(f)
		var secret []byte
		providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT secret FROM oidc_authenticators`).Scan(&secret))
		hashes, err := db.Collect(f.DB.Read(t.Context()), db.Value[[]byte], `SELECT code_hash FROM oidc_recovery_codes`)
		providertest.Must(t, err)
		stored := string(secret)
		for _, hash := range hashes {
			stored += string(hash)
		}
		for _, plain := range append(app.recovery, app.secret) {
			if strings.Contains(stored, plain) || strings.Contains(stored, strings.ReplaceAll(plain, "-", "")) {
				t.Errorf("%s is stored as it is", plain)
			}
		}
	})
}

// TestUserOfNoOrganizationNeedsTheSecondFactorToAccept has a user who has left all organizations follow an
// invitation.
func TestUserOfNoOrganizationNeedsTheSecondFactorToAccept(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, first := invite(f, f.OrgID, "new@example.com", auth.Viewer)
		b := f.Browser()
		b.Submit(b.Get(first), "password", "a first password").Want(http.StatusSeeOther)
		app := addApp(b)
		user, err := f.Accounts.LoginByEmail(t.Context(), "new@example.com")
		providertest.Must(t, err)
		providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, auth.From(f.Ctx), user.ID, page.IfMatch{}))
		other := otherOrg(f)
		_, link := invite(f, other, "new@example.com", auth.Member)
		again := f.Browser()
		asked := again.Submit(again.Get(link), "password", "a first password").Want(http.StatusOK)
		if !isCode(asked) {
			t.Fatalf("no code is asked for: %s", asked.Body)
		}
		answer := again.Follow(again.Submit(asked, "code", app.code())).Want(http.StatusOK)
		again.Submit(answer).Want(http.StatusSeeOther)
		if role(f, other, user.ID) != auth.Member {
			t.Error("the user has not joined")
		}
	})
}
