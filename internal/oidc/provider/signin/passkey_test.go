package signin_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/signin"
	"steward/internal/page"
)

var (
	passkeyForm  = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)" id="passkey" data-options="([^"]+)".*?</form>`)
	hiddenField  = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
	passkeyField = regexp.MustCompile(`name="passkey" value="([^"]+)"`)
)

// ceremony returns the form for a passkey on a page, with its hidden fields, and its options.
func ceremony(r *providertest.Response) (action string, values url.Values, options string) {
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

// addPasskey creates a passkey on a page and sends it.
func addPasskey(b *providertest.Browser, page *providertest.Response, a *providertest.Authenticator) *providertest.Response {
	b.Fixture.T.Helper()
	action, values, options := ceremony(page.Want(http.StatusOK))
	values.Set("credential", a.Create(options))
	values.Set("name", "Laptop")
	return b.Do("POST", b.Fixture.URL+action, values)
}

// usePasskey signs in with a passkey on a page.
func usePasskey(b *providertest.Browser, page *providertest.Response, a *providertest.Authenticator) *providertest.Response {
	b.Fixture.T.Helper()
	action, values, options := ceremony(page)
	values.Set("credential", a.Get(options))
	return b.Do("POST", b.Fixture.URL+action, values)
}

// withPasskey returns an authenticator with a passkey of the owner, and the browser that has created it.
func withPasskey(f *providertest.Fixture) (*providertest.Browser, *providertest.Authenticator) {
	f.T.Helper()
	f.UseLocalhost()
	b, a := f.Browser(), f.NewAuthenticator()
	a.Count = 1
	b.SignIn(b.Get(f.URL + "/account"))
	addPasskey(b, b.Get(f.URL+"/account/passkeys"), a).Want(http.StatusOK)
	return b, a
}

// signedInStranger returns the browser of a user of another organization.
func signedInStranger(f *providertest.Fixture) *providertest.Browser {
	f.T.Helper()
	f.NewUser("other@example.com", "another password")
	b := f.Browser()
	b.Submit(b.Get(f.URL+"/account"), "email", "other@example.com", "password", "another password").Want(http.StatusSeeOther)
	return b
}

// audited reports whether the audit log of the organization has an action.
func audited(f *providertest.Fixture, action string) bool {
	f.T.Helper()
	found, err := f.Audit.List(f.Ctx, f.OrgID, audit.Filter{Action: action}, page.Paging{Limit: 10})
	providertest.Must(f.T, err)
	return len(found.Items) > 0
}

func TestPasskeySignsInWithoutNameAndPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		first, key := withPasskey(f)
		list := first.Get(f.URL + "/account").Body
		if !strings.Contains(list, "<strong>Laptop</strong>") || !strings.Contains(list, "not used yet") {
			t.Error("the account page does not list the passkey")
		}
		app := f.NewApp(providertest.Confidential)
		b := f.Browser()
		page := b.Get(app.AuthorizeURL("scope", "openid"))
		if !strings.Contains(page.Body, `autocomplete="username webauthn"`) {
			t.Error("the email address does not offer passkeys")
		}
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "; script-src "+f.URL+"/passkey.js") {
			t.Errorf("the policy %q does not allow the script, and only that", policy)
		}
		script := b.Get(f.URL + "/passkey.js").Want(http.StatusOK)
		if got := script.Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
			t.Errorf("the script is %s", got)
		}
		b.Do("GET", f.URL+"/passkey.js", nil, "If-None-Match", script.Header.Get("ETag")).Want(http.StatusNotModified)
		consent := b.Follow(usePasskey(b, page, key).Want(http.StatusSeeOther))
		tokens := app.Redeem(b.Complete(consent).Get("code")).Want(http.StatusOK)
		claims := providertest.Claims(t, tokens.Text("id_token"))
		methods, _ := claims["amr"].([]any)
		if claims["sub"] != f.UserID || claims["acr"] != oauth.LevelPhishingResistant ||
			!slices.Equal(methods, []any{"pop", "user", "mfa"}) {
			t.Errorf("the claims are %v", claims)
		}
		if strings.Contains(b.Get(f.URL+"/account").Body, "not used yet") {
			t.Error("the account page does not say that the passkey was used")
		}
		if !audited(f, "user.passkey") {
			t.Error("the new passkey is not in the audit log")
		}
	})
}

// TestAnswersOfPasskeysAreVerified sends answers with one thing wrong each.
func TestAnswersOfPasskeysAreVerified(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := withPasskey(f)
		stranger := f.NewAuthenticator()
		strangers := signedInStranger(f)
		addPasskey(strangers, strangers.Get(f.URL+"/account/passkeys"), stranger).Want(http.StatusOK)

		unregistered := f.NewAuthenticator()
		unregistered.Create(`{"challenge": "", "user": {"id": "AAAA"}}`)
		for what, change := range map[string]func(a *providertest.Authenticator){
			"another origin":           func(a *providertest.Authenticator) { a.Origin = "https://localhost.example.com" },
			"another port":             func(a *providertest.Authenticator) { a.Origin = "http://localhost:1" },
			"another site":             func(a *providertest.Authenticator) { a.RPID = "example.com" },
			"a user not verified":      func(a *providertest.Authenticator) { a.Unverified = true },
			"the user of another":      func(a *providertest.Authenticator) { a.Handle = stranger.Handle },
			"no user":                  func(a *providertest.Authenticator) { a.Handle = nil },
			"a key that is not stored": func(a *providertest.Authenticator) { *a = *unregistered },
		} {
			b, changed := f.Browser(), *key
			change(&changed)
			refused := usePasskey(b, b.Get(f.URL+"/account"), &changed).Want(http.StatusBadRequest)
			if !strings.Contains(refused.Body, "not accepted") || b.SignedIn() {
				t.Errorf("%s: got %s", what, refused.Body)
			}
		}
		b := f.Browser()
		action, values, options := ceremony(b.Get(f.URL + "/account"))
		_, _, earlier := ceremony(b.Get(f.URL + "/account"))
		for what, credential := range map[string]string{
			"of another challenge": key.Get(earlier), "none": "", "no JSON": "{", "of a creation": key.Create(options),
		} {
			values.Set("credential", credential)
			if b.Do("POST", f.URL+action, values).Want(http.StatusBadRequest); b.SignedIn() {
				t.Errorf("an answer %s was accepted", what)
			}
		}
	})
}

func TestChallengesOfPasskeysAreUsedOnceAndExpire(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		owner, key := withPasskey(f)
		b := f.Browser()
		action, values, options := ceremony(b.Get(f.URL + "/account"))
		values.Set("credential", key.Get(options))
		b.Do("POST", f.URL+action, values).Want(http.StatusSeeOther)
		endSession(b, sessionID(b))
		again := b.Do("POST", f.URL+action, values).Want(http.StatusBadRequest)
		if !strings.Contains(again.Body, "used already") || b.SignedIn() {
			t.Errorf("an answer was accepted twice: %s", again.Body)
		}

		create, fields, options := ceremony(owner.Get(f.URL + "/account/passkeys"))
		fields.Set("credential", f.NewAuthenticator().Create(options))
		login, late, options := ceremony(b.Get(f.URL + "/account"))
		late.Set("credential", key.Get(options))
		late.Set("challenge", fields.Get("challenge"))
		b.Do("POST", f.URL+login, late).Want(http.StatusBadRequest) // of another ceremony

		login, late, options = ceremony(b.Get(f.URL + "/account"))
		late.Set("credential", key.Get(options))
		f.Clock.Add(10*time.Minute + time.Second)
		expired := b.Do("POST", f.URL+login, late).Want(http.StatusBadRequest)
		if !strings.Contains(expired.Body, "took too long") || b.SignedIn() {
			t.Errorf("an answer was accepted late: %s", expired.Body)
		}
		owner.Do("POST", f.URL+create, fields).Want(http.StatusForbidden) // and so did the sign-in
	})
}

func TestCopiedPasskeyIsRefusedAndRecorded(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := withPasskey(f)
		copied := *key
		for range 2 {
			b := f.Browser()
			usePasskey(b, b.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		}
		if audited(f, "user.passkey_copy") {
			t.Fatal("a counter that went on was recorded as a copy")
		}
		for range 2 { // the second answer has the counter of the last use
			b := f.Browser()
			refused := usePasskey(b, b.Get(f.URL+"/account"), &copied).Want(http.StatusBadRequest)
			if !strings.Contains(refused.Body, "a copy of it") || b.SignedIn() {
				t.Errorf("a copy was accepted: %s", refused.Body)
			}
		}
		if !audited(f, "user.passkey_copy") {
			t.Error("the copy is not in the audit log")
		}
	})
}

func TestLastWayToSignInStays(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		var notices []signin.Notice
		p := f.NewProvider()
		p.Users.Notify = func(_ *db.Tx, userID string, n signin.Notice) error {
			notices = append(notices, n)
			return nil
		}
		f.Serve(p)
		b, key := f.Browser(), f.NewAuthenticator() // which does not count
		b.SignIn(b.Get(f.URL + "/account"))
		post(b, "/account/password/remove").Want(http.StatusConflict)
		addPasskey(b, b.Get(f.URL+"/account/passkeys"), key).Want(http.StatusOK)
		passkeyID := passkeyField.FindStringSubmatch(b.Get(f.URL + "/account").Body)[1]
		post(b, "/account/password/remove").Want(http.StatusSeeOther)

		other := f.Browser()
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
			Want(http.StatusBadRequest)
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "").Want(http.StatusBadRequest)
		usePasskey(other, other.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		usePasskey(f.Browser(), f.Browser().Get(f.URL+"/account"), key).Want(http.StatusForbidden) // the form of another browser
		post(other, "/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusConflict)

		post(other, "/account/password", "new_password", "a quite new password").Want(http.StatusOK)
		post(other, "/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
		third := f.Browser()
		usePasskey(third, third.Get(f.URL+"/account"), key).Want(http.StatusBadRequest)
		third.Submit(third.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "a quite new password").
			Want(http.StatusSeeOther)
		want := []signin.Notice{
			signin.NoticeDevice, signin.NoticePasskey, signin.NoticePassword, signin.NoticeDevice, signin.NoticePassword,
			signin.NoticePasskeyRemoved, signin.NoticeDevice,
		}
		if !slices.Equal(notices, want) {
			t.Errorf("the notices are %v, want %v", notices, want)
		}
	})
}

// TestOneWayToSignInStaysOfTwo removes the password and the only passkey at the same time.
func TestOneWayToSignInStaysOfTwo(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b, _ := withPasskey(f)
		account := b.Get(f.URL + "/account")
		_, _, own := account.Form()
		passkeyID := passkeyField.FindStringSubmatch(account.Body)[1]
		form := url.Values{"csrf": {own.Get("csrf")}, "passkey": {passkeyID}}
		statuses := make(chan int, 2)
		for _, path := range []string{"/account/password/remove", "/account/passkeys/remove"} {
			go func() { statuses <- b.Do("POST", f.URL+path, form).Status }()
		}
		got := []int{<-statuses, <-statuses}
		slices.Sort(got)
		if !slices.Equal(got, []int{http.StatusSeeOther, http.StatusConflict}) {
			t.Errorf("the statuses are %v, want that one is removed", got)
		}
	})
}

func TestUsersHaveTwentyPasskeys(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		open := b.Get(f.URL + "/account/passkeys")
		for range 20 {
			addPasskey(b, b.Get(f.URL+"/account/passkeys"), f.NewAuthenticator()).Want(http.StatusOK)
		}
		b.Get(f.URL + "/account/passkeys").Want(http.StatusConflict)
		refused := addPasskey(b, open, f.NewAuthenticator()).Want(http.StatusConflict)
		if !strings.Contains(refused.Body, "20 passkeys") {
			t.Errorf("got %s", refused.Body)
		}
	})
}

func TestPasskeysAreChangedByTheirUserOnly(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		owner, key := withPasskey(f)
		passkeyID := passkeyField.FindStringSubmatch(owner.Get(f.URL + "/account").Body)[1]
		stranger := signedInStranger(f)
		post(stranger, "/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
		post(stranger, "/account/passkeys/rename", "passkey", passkeyID, "name", "Mine").Want(http.StatusSeeOther)
		if list := owner.Get(f.URL + "/account").Body; !strings.Contains(list, "<strong>Laptop</strong>") {
			t.Fatal("another user has changed the passkey")
		}
		// A passkey that was created for one user is not stored for another.
		action, values, options := ceremony(stranger.Get(f.URL + "/account/passkeys"))
		_, ofOwner, optionsOfOwner := ceremony(owner.Get(f.URL + "/account/passkeys"))
		values.Set("challenge", ofOwner.Get("challenge"))
		values.Set("credential", f.NewAuthenticator().Create(optionsOfOwner))
		stranger.Do("POST", f.URL+action, values).Want(http.StatusBadRequest)
		if strings.Contains(options, ofOwner.Get("challenge")) {
			t.Error("two users have the same challenge")
		}
		unverified := f.NewAuthenticator()
		unverified.Unverified = true
		addPasskey(owner, owner.Get(f.URL+"/account/passkeys"), unverified).Want(http.StatusBadRequest)

		post(owner, "/account/passkeys/rename", "passkey", passkeyID, "name", "Old\u202elaptop").Want(http.StatusBadRequest)
		post(owner, "/account/passkeys/rename", "passkey", passkeyID, "name", "Old laptop").Want(http.StatusSeeOther)
		if list := owner.Get(f.URL + "/account").Body; !strings.Contains(list, "<strong>Old laptop</strong>") {
			t.Error("the passkey has not got its name")
		}
		// A sign-in of long ago is not enough to change how to sign in.
		f.Clock.Add(11 * time.Minute)
		old := owner.Get(f.URL + "/account/passkeys").Want(http.StatusForbidden)
		usePasskey(f.Browser(), old, key).Want(http.StatusForbidden) // the form of another browser
		post(owner, "/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusForbidden)
		again := post(owner, "/account/password/remove").Want(http.StatusForbidden)
		usePasskey(owner, again, key).Want(http.StatusSeeOther)
		if next := usePasskey(owner, old, key).Want(http.StatusSeeOther).Header.Get("Location"); next != "/account/passkeys" {
			t.Errorf("the browser continues to %s", next)
		}
		post(owner, "/account/passkeys/remove", "passkey", passkeyID).Want(http.StatusSeeOther)
	})
}

func TestPasskeysAreNotOfferedWhereBrowsersRefuseThem(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) { // at an IP address
		b := f.Browser()
		page := b.Get(f.URL + "/account").Want(http.StatusOK)
		if strings.Contains(page.Body, "webauthn") || strings.Contains(page.Body, "<script") ||
			strings.Contains(page.Header.Get("Content-Security-Policy"), "script-src") {
			t.Errorf("the sign-in page offers passkeys: %s", page.Body)
		}
		_, _, values := page.Form()
		b.Do("POST", f.URL+"/sign-in/passkey", values).Want(http.StatusBadRequest)
		account := b.SignIn(page)
		if !strings.Contains(account.Body, "Passkeys need a host name") || strings.Contains(account.Body, "Add a passkey") {
			t.Errorf("the account page does not say why there are no passkeys: %s", account.Body)
		}
		b.Get(f.URL + "/account/passkeys").Want(http.StatusNotFound)
	})
}

// TestInvitedPersonCreatesPasskeyInsteadOfPassword also checks that the link of a later invitation cannot
// set a password of an account that has none.
func TestInvitedPersonCreatesPasskeyInsteadOfPassword(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		owner := &auth.Caller{UserID: f.UserID, OrgID: f.OrgID, Role: auth.Owner}
		_, link := invite(f, f.OrgID, "grace@example.com", auth.Member)
		b, key := f.Browser(), f.NewAuthenticator()
		if !strings.Contains(b.Get(link).Want(http.StatusOK).Body, strings.TrimPrefix(link, f.URL)+"/passkey") {
			t.Fatal("the page of the invitation does not offer a passkey")
		}
		create := b.Get(link + "/passkey")
		_, elsewhere := invite(f, f.OrgID, "ada@example.com", auth.Member)
		_, values, options := ceremony(b.Get(elsewhere + "/passkey"))
		values.Set("credential", f.NewAuthenticator().Create(options))
		b.Do("POST", link+"/passkey", values).Want(http.StatusBadRequest) // of another invitation
		done := addPasskey(b, create, key).Want(http.StatusSeeOther)
		if to := done.Header.Get("Location"); to != "/console/sign-in" {
			t.Errorf("the invitation leads to %q", to)
		}
		account := b.Get(f.URL + "/account").Want(http.StatusOK)
		if !strings.Contains(account.Body, "grace@example.com") || !strings.Contains(account.Body, "You have no password") {
			t.Fatalf("got %s", account.Body)
		}
		b.Get(link + "/passkey").Want(http.StatusNotFound)

		user, err := f.Accounts.LoginByEmail(t.Context(), "grace@example.com")
		providertest.Must(t, err)
		providertest.Must(t, f.Accounts.RemoveMember(f.Ctx, owner, user.ID, page.IfMatch{}))
		back := f.Browser()
		_, again := invite(f, f.OrgID, "grace@example.com", auth.Member)
		signIn := back.Get(again).Want(http.StatusOK)
		if strings.Contains(signIn.Body, "new-password") {
			t.Fatal("a link sets a password of an account that has none")
		}
		back.Get(again + "/passkey").Want(http.StatusSeeOther)
		join := back.Follow(usePasskey(back, signIn, key).Want(http.StatusSeeOther))
		back.Submit(join).Want(http.StatusSeeOther)
		if !back.SignedIn() {
			t.Error("the user has not come back")
		}
	})
}
