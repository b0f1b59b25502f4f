package signin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
)

func TestAuthenticatorAppIsAskedForAfterThePassword(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	client := f.NewApp(providertest.Confidential)
	b := f.Browser()
	asked := b.SignIn(b.Get(client.AuthorizeURL("scope", "openid"))).Want(http.StatusOK)
	if !asked.IsCode() || b.SessionCookie() != "" {
		t.Fatalf("signed in with the password alone: %s", asked.Body)
	}
	for _, wrong := range []string{"", app.Wrong(), "abcd-efgh-ijkl-mnop", "12345", strings.Repeat("7", 70)} {
		if again := b.Submit(asked, "code", wrong).Want(http.StatusBadRequest); !again.IsCode() || b.SessionCookie() != "" {
			t.Errorf("%q was accepted: %s", wrong, again.Body)
		}
	}
	typed := app.Code()
	result := b.Complete(b.Submit(asked, "code", typed[:3]+" "+typed[3:]))
	tokens := client.Redeem(result.Get("code")).Want(http.StatusOK).JSON()
	claims := providertest.Claims(t, tokens["id_token"])
	if got := fmt.Sprint(claims["acr"], claims["amr"]); got != "mfa[pwd otp mfa]" {
		t.Errorf("acr and amr are %s", got)
	}
}

// TestCodeIsAcceptedOnce uses the code of a sign-in, and older ones, in other browsers.
func TestCodeIsAcceptedOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.OwnersApp()
		early := app.Code()
		late := app.Code()
		first, second := f.Browser(), f.Browser()
		asked := second.EnterPassword()
		first.Submit(first.EnterPassword(), "code", late).Want(http.StatusSeeOther)
		for _, used := range []string{late, early} {
			second.Submit(asked, "code", used).Want(http.StatusBadRequest)
		}
		if second.SessionCookie() != "" {
			t.Error("a code was accepted twice")
		}
		second.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther)
	})
}

// TestGuessedCodesHaveToWait guesses codes in several browsers and on two replicas: the fixture's provider
// is replaced by another one. The user can still sign in with a recovery code.
func TestGuessedCodesHaveToWait(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.OwnersApp()
		asked, b := (*providertest.Response)(nil), (*providertest.Browser)(nil)
		for range 5 {
			f.Serve(f.NewProvider())
			b = f.Browser()
			asked = b.EnterPassword()
			b.Submit(asked, "code", app.Wrong()).Want(http.StatusBadRequest)
		}
		refused := b.Submit(asked, "code", app.Code()).Want(http.StatusTooManyRequests)
		if refused.Header.Get("Retry-After") == "" || b.SessionCookie() != "" {
			t.Fatalf("the right code was checked: %s", refused.Body)
		}
		f.Browser().Get(f.URL + "/account")
		rescued := f.Browser()
		rescued.Submit(rescued.EnterPassword(), "code", app.Recovery[0]).Want(http.StatusSeeOther)
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.Wrong()).Want(http.StatusBadRequest)
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.Code()).Want(http.StatusTooManyRequests) // the pause has doubled
		f.Clock.Add(time.Minute)
		b.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther)
	})
}

func TestRecoveryCodeWorksOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.OwnersApp()
		used := strings.ToUpper(app.Recovery[3])
		b, other := f.Browser(), f.Browser()
		b.Submit(b.EnterPassword(), "code", used).Want(http.StatusSeeOther)
		asked := other.EnterPassword()
		other.Submit(asked, "code", used).Want(http.StatusBadRequest)
		mine := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(mine.Body, "9 recovery codes are left") {
			t.Errorf("the account page does not say that 9 codes are left: %s", mine.Body)
		}
		earlier := app.Recovery[0]
		_, _, values := mine.Form()
		values.Set("proof", "not the password")
		b.Do("POST", f.URL+"/account/recovery-codes", values).Want(http.StatusBadRequest)
		values.Set("proof", providertest.OwnerPassword)
		app.Keep(b.Do("POST", f.URL+"/account/recovery-codes", values))
		other.Submit(asked, "code", earlier).Want(http.StatusBadRequest)
		other.Submit(asked, "code", app.Recovery[0]).Want(http.StatusSeeOther)
	})
}

// TestHalfSignInIsTiedToItsBrowserAndPassword takes what the page for the code carries to another browser,
// beyond its time and beyond a change of the password, and uses it with another user's app.
func TestHalfSignInIsTiedToItsBrowserAndPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		app := f.OwnersApp()
		f.NewUser("mallory@example.com", "another password")
		mallory := f.Browser().SignInAs("mallory@example.com", "another password")
		malloryApp := mallory.AddApp()

		b := f.Browser()
		asked := b.EnterPassword()
		b.Submit(asked, "code", malloryApp.Code()).Want(http.StatusBadRequest)
		b.Submit(asked, "code", malloryApp.Recovery[0]).Want(http.StatusBadRequest)

		_, _, stolen := asked.Form()
		_, _, own := mallory.Get(f.URL + "/account").Form()
		before := mallory.SessionCookie()
		stolen.Set("csrf", own.Get("csrf"))
		stolen.Set("code", app.Code())
		mallory.Do("POST", f.URL+"/sign-in/factor", stolen).Want(http.StatusBadRequest)
		mallory.Do("POST", f.URL+"/sign-in/enrol", stolen).Want(http.StatusBadRequest)
		if mallory.SessionCookie() != before {
			t.Error("another browser has completed the sign-in")
		}

		f.Clock.Add(11 * time.Minute)
		b.Submit(asked, "code", app.Code()).Want(http.StatusBadRequest)
		asked = b.EnterPassword()
		f.Clock.Add(30 * time.Minute)
		b.Submit(asked, "code", app.Code()).Want(http.StatusBadRequest)
		asked = b.EnterPassword()
		there := f.Browser()
		there.Submit(there.Get(f.NewReset()), "password", "a second password").Want(http.StatusOK)
		b.Submit(asked, "code", app.Code()).Want(http.StatusBadRequest)
		if b.SessionCookie() != "" {
			t.Error("an expired sign-in was completed")
		}
	})
}

// TestSessionBeginsAfterTheSecondFactor has the browser hold a session cookie that somebody else knows.
func TestSessionBeginsAfterTheSecondFactor(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	f.NewUser("mallory@example.com", "another password")
	mallory := f.Browser().SignInAs("mallory@example.com", "another password")
	planted := mallory.SessionCookie()
	b := f.Browser()
	u, err := url.Parse(f.URL)
	providertest.Must(t, err)
	asked := b.Get(f.URL + "/authorize?" + f.NewApp(providertest.Confidential).Params("prompt", "login").Encode())
	b.HTTP.Jar.SetCookies(u, []*http.Cookie{{Name: session.CookieName, Value: planted, Path: "/"}})
	asked = b.SignIn(asked)
	if !asked.IsCode() || b.SessionCookie() != planted {
		t.Fatalf("the session has changed before the second factor: %s", asked.Body)
	}
	b.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther)
	if got := b.SessionCookie(); got == planted || got == "" {
		t.Error("the session has a token that was known before the sign-in")
	}
	if strings.Contains(mallory.Get(f.URL+"/account").Body, providertest.OwnerEmail) {
		t.Error("the planted cookie belongs to the owner now")
	}
}

// TestClearedFactorsEndSessions has the operator remove the factors of the owner.
func TestClearedFactorsEndSessions(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		b.EnterPassword()
		b.AddApp()
		_, _, err := f.Accounts.ResetByEmail(t.Context(), providertest.OwnerEmail, false)
		providertest.Must(t, err)
		if other := f.Browser(); !other.EnterPassword().IsCode() {
			t.Error("a reset link has removed the second factor")
		}
		_, _, err = f.Accounts.ResetByEmail(t.Context(), providertest.OwnerEmail, true)
		providertest.Must(t, err)
		if b.SignedIn() {
			t.Error("the session goes on")
		}
		if b.EnterPassword(); !b.SignedIn() {
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
		app := f.OwnersApp()
		var secret []byte
		providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT secret FROM oidc_authenticators`).Scan(&secret))
		hashes, err := db.Collect(f.DB.Read(t.Context()), db.Value[[]byte], `SELECT code_hash FROM oidc_recovery_codes`)
		providertest.Must(t, err)
		stored := string(secret)
		for _, hash := range hashes {
			stored += string(hash)
		}
		for _, plain := range append(app.Recovery, app.Secret) {
			if strings.Contains(stored, plain) || strings.Contains(stored, strings.ReplaceAll(plain, "-", "")) {
				t.Errorf("%s is stored as it is", plain)
			}
		}
	})
}
