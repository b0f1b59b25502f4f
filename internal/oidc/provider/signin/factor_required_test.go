package signin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

// TestRequiredFactorIsSetUpBeforeTheSession has an organization require a factor of admins and owners. The
// owner visits other pages instead of setting up an app.
func TestRequiredFactorIsSetUpBeforeTheSession(t *testing.T) {
	f := providertest.OnSQLite(t)
	client := f.NewApp(providertest.Confidential)
	earlier, b := f.Browser(), f.Browser()
	tokens := client.Redeem(earlier.Complete(earlier.Get(client.AuthorizeURL())).Get("code")).Want(http.StatusOK).JSON()
	f.RequireFactor(account.AnyFactor, auth.Admin)
	if earlier.SignedIn() {
		t.Error("the session of before is still used")
	}
	refused := earlier.Get(client.AuthorizeURL("prompt", "none")).Location()
	if refused.Get("error") != "login_required" {
		t.Errorf("a client gets %v with the session of before", refused)
	}
	client.Refresh(tokens["refresh_token"].(string)).Want(http.StatusOK) // tokens are not affected

	setup := b.SignIn(b.Get(client.AuthorizeURL("scope", "openid"))).Want(http.StatusOK)
	if !setup.IsEnrol() || b.SessionCookie() != "" {
		t.Fatalf("signed in without a second factor: %s", setup.Body)
	}
	_, _, values := setup.Form()
	for _, path := range []string{
		"/account", "/account/authenticator", "/authorize/continue?flow=" + values.Get("flow"),
		"/authorize?" + client.Params("scope", "openid").Encode(), "/device?user_code=ABCD-EFGH",
	} {
		if got := b.Get(f.URL + path); !got.Want(http.StatusOK).IsSignIn() {
			t.Errorf("%s does not ask to sign in: %s", path, got.Body)
		}
	}
	for _, path := range []string{"/account/authenticator", "/account/recovery-codes", "/account/profile"} {
		if got := b.Do("POST", f.URL+path, values); !got.Want(http.StatusOK).IsSignIn() {
			t.Errorf("POST %s does not ask to sign in: %s", path, got.Body)
		}
	}
	b.Do("POST", f.URL+"/sign-in/factor", url.Values{
		"csrf": values["csrf"], "flow": values["flow"], "code": {"123456"},
	}).Want(http.StatusBadRequest)

	app := f.ScanApp(setup)
	b.Submit(setup, "code", app.Wrong()).Want(http.StatusBadRequest)
	shown := b.Submit(setup, "code", app.Code())
	app.Keep(shown)
	next := regexp.MustCompile(`<a href="([^"]+)">Continue</a>`).FindStringSubmatch(shown.Body)
	if next == nil {
		t.Fatalf("no way on: %s", shown.Body)
	}
	code := b.Complete(b.Get(f.URL + next[1])).Get("code")
	claims := providertest.Claims(t, client.Redeem(code).Want(http.StatusOK).JSON()["id_token"])
	if claims["acr"] != "mfa" {
		t.Errorf("acr is %v", claims["acr"])
	}
	// The page of before cannot replace the app.
	if again := b.Submit(setup, "code", app.Code()); !again.IsCode() {
		t.Errorf("the app was set up twice: %s", again.Body)
	}
}

// TestMembersBelowTheRoleNeedNoFactor invites a viewer and an admin to an organization that requires a
// factor of admins, and makes the viewer an admin.
func TestMembersBelowTheRoleNeedNoFactor(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.RequireFactor(account.AnyFactor, auth.Admin)
	viewer, admin := f.Browser(), f.Browser()
	link := f.Invite(f.OrgID, "viewer@example.com", auth.Viewer)
	viewer.Submit(viewer.Get(link), "password", "a first password").Want(http.StatusSeeOther)
	if !viewer.SignedIn() {
		t.Fatal("a viewer is not signed in")
	}
	link = f.Invite(f.OrgID, "admin@example.com", auth.Admin)
	setup := admin.Submit(admin.Get(link), "password", "a first password").Want(http.StatusOK)
	if !setup.IsEnrol() || admin.SignedIn() {
		t.Fatalf("an admin is signed in without a second factor: %s", setup.Body)
	}
	app := f.ScanApp(setup)
	app.Keep(admin.Submit(setup, "code", app.Code()))
	if !admin.SignedIn() {
		t.Error("the admin is not signed in after the setup")
	}
	user, err := f.Accounts.UserByEmail(t.Context(), "viewer@example.com")
	providertest.Must(t, err)
	_, err = f.Accounts.ChangeMember(f.Ctx, auth.From(f.Ctx), user.ID, page.IfMatch{}, account.MemberPatch{Role: page.Some(auth.Admin)})
	providertest.Must(t, err)
	if viewer.SignedIn() {
		t.Error("the session of a new admin is used without a second factor")
	}
}

// TestPasskeyRequirementIsNotMetByCodes signs in with password and code where a passkey is required.
func TestPasskeyRequirementIsNotMetByCodes(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	f.RequireFactor(account.Passkey, auth.Viewer)
	b := f.Browser()
	asked := b.EnterPassword()
	if !asked.IsCode() {
		t.Fatalf("no code is asked for: %s", asked.Body)
	}
	for _, code := range []string{app.Code(), app.Recovery[0]} {
		refused := b.Submit(asked, "code", code).Want(http.StatusForbidden)
		if !strings.Contains(refused.Body, "A passkey is required") || b.SessionCookie() != "" {
			t.Errorf("signed in without a passkey: %s", refused.Body)
		}
	}
	link := f.Invite(f.OrgID, "new@example.com", auth.Viewer)
	person := f.Browser()
	person.Submit(person.Get(link), "password", "a first password").Want(http.StatusForbidden)
	if person.SessionCookie() != "" {
		t.Error("a new member is signed in without a passkey")
	}
}

// TestRequiredPasskeyIsCreatedBeforeTheSession has an organization require a passkey of a user who has none.
func TestRequiredPasskeyIsCreatedBeforeTheSession(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		f.UseLocalhost()
		f.RequireFactor(account.Passkey, auth.Viewer)
		b, key := f.Browser(), f.NewAuthenticator()
		key.Count = 1
		asked := b.EnterPassword()
		if b.SessionCookie() != "" {
			t.Fatal("signed in without a passkey")
		}
		stranger := f.Browser()
		stranger.EnterPassword() // has a token for forms
		if stranger.AddPasskey(asked, f.NewAuthenticator()); stranger.SessionCookie() != "" {
			t.Error("another browser has completed the sign-in")
		}
		asked = b.EnterPassword()
		b.AddPasskey(asked, key).Want(http.StatusSeeOther)
		if !b.SignedIn() {
			t.Fatal("not signed in with the new passkey")
		}
		if b.AddPasskey(asked, f.NewAuthenticator()).Status == http.StatusSeeOther {
			t.Error("the page adds a second passkey")
		}
		again := f.Browser()
		again.UsePasskey(again.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		if !again.SignedIn() {
			t.Error("not signed in with the passkey")
		}
	})
}

// TestCreatingAPasskeyDoesNotReplaceTheCode sends the form that creates a required passkey before the code of
// the app was given.
func TestCreatingAPasskeyDoesNotReplaceTheCode(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	f.OwnersApp()
	for _, policy := range []account.Factor{account.AnyFactor, account.Passkey} {
		f.RequireFactor(policy, auth.Viewer)
		b := f.Browser()
		_, _, values := b.EnterPassword().Form()
		for _, path := range []string{"/sign-in/enrol/passkey", "/sign-in/enrol"} {
			got := b.Do("POST", f.URL+path, values)
			if !got.IsCode() || b.SessionCookie() != "" {
				t.Errorf("%s with %s required: %d %s", path, policy, got.Status, got.Body)
			}
		}
	}
}

// TestRequestedLevelIsVoluntary requests a stronger sign-in of a user who can give none, and of one who can.
func TestRequestedLevelIsVoluntary(t *testing.T) {
	f := providertest.OnSQLite(t)
	client := f.NewApp(providertest.Confidential)
	b := f.Browser()
	b.Complete(b.Get(client.AuthorizeURL("scope", "openid")))
	level := func(code string) any {
		return providertest.Claims(t, client.Redeem(code).Want(http.StatusOK).JSON()["id_token"])["acr"]
	}
	result := b.Get(client.AuthorizeURL("scope", "openid", "acr_values", "phr mfa")).Location()
	if got := level(result.Get("code")); got != "pwd" {
		t.Errorf("acr is %v", got)
	}
	app := b.AddApp()
	result = b.Get(client.AuthorizeURL("scope", "openid", "acr_values", "mfa", "prompt", "none")).Location()
	if got := level(result.Get("code")); got != "pwd" {
		t.Errorf("acr is %v with prompt=none", got)
	}
	asked := b.Get(client.AuthorizeURL("scope", "openid", "acr_values", "phr mfa"))
	if !asked.IsSignIn() {
		t.Fatalf("no stronger sign-in is asked for: %s", asked.Body)
	}
	result = b.Complete(b.Submit(b.SignIn(asked), "code", app.Code()))
	if got := level(result.Get("code")); got != "mfa" {
		t.Errorf("acr is %v after the second factor", got)
	}
	result = b.Get(client.AuthorizeURL("scope", "openid", "acr_values", "phr")).Location()
	if got := level(result.Get("code")); got != "mfa" {
		t.Errorf("acr is %v of a user without a passkey", got)
	}
}
