package pages

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/oidc/upstream"
)

// startUpstream starts two installations, of which the second one is an upstream of the first, and owns the
// domain example.org there. Their hosts differ, since browsers share cookies between ports.
func startUpstream(t *testing.T) (here, there *installation.Steward) {
	t.Helper()
	here = installation.Prepare(t, "sqlite", "--upstream-domains", "example.org")
	here.Env = []string{
		"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword,
	}
	here.Start()
	there = installation.StartOnLocalhost(t, "sqlite")
	app := there.NewApplication(object{
		"redirect_uris": []string{here.URL + upstream.PathCallback}, "scopes": []string{"openid", "profile", "email"},
	})
	here.Call("POST", "/oidc/upstream", object{
		"name": longName, "issuer": there.URL, "client_id": app.ID, "client_secret": app.Secret,
		"default_role": "viewer", "domains": []string{"example.org"},
	}).Want(201)
	return here, there
}

// longName is the name of a provider that does not fit into a line of a phone.
const longName = "Acme Corporation of North America, Europe and the Pacific"

// signInThere fills in the sign-in page of the upstream, on which the browser is, and consents.
func signInThere(b *chromium.Browser, there *installation.Steward, email, password string) {
	b.T.Helper()
	if at := chromium.Evaluate[string](b, `location.origin`); at != there.URL {
		b.T.Fatalf("the browser is at %s: %s", at, chromium.Evaluate[string](b, `document.body.innerText`))
	}
	b.Submit("email", email, "password", password)
	if chromium.Evaluate[bool](b, `!!document.querySelector('button[value="approve"]')`) {
		click(b, `button[value="approve"]`)
	}
}

// TestUpstreamWithChromium signs people in with a second Steward: by the button on the sign-in page, by the
// domain of an address, with an invitation, and by an account that was linked while signed in.
func TestUpstreamWithChromium(t *testing.T) {
	t.Parallel()
	here, there := startUpstream(t)
	there.Invite("bob@example.org", "member")
	there.Invite("carol@example.org", "member")
	const providerButton, theirPassword = `form[action="/sign-in/upstream"] button`, "a first password"

	bob := chromium.New(t)
	bob.LoadAxe()
	bob.DisableAutofill()
	bob.Open(here.URL + "/account")
	bob.Check("upstream-sign-in")
	click(bob, providerButton)
	signInThere(bob, there, "bob@example.org", theirPassword)
	if text := onPage(bob, "Your account"); !strings.Contains(text, "You signed in with your organization’s provider") {
		t.Errorf("the account page says %s", text)
	}
	bob.Check("upstream-account")
	bob.Open(here.URL + "/console/sign-in")
	onPage(bob, "Overview")

	signOut(bob, here)
	bob.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), "bob@example.com"))
	click(bob, `button[formaction="/sign-in/upstream"]`)
	if text := onPage(bob, "Sign in"); !strings.Contains(text, "There is no single sign-on for this email address") {
		t.Errorf("the page says %s", text)
	}
	bob.Check("upstream-no-domain")
	bob.Do(chromedp.SetValue(chromedp.CSS(`input[name="email"]`), "bob@example.org"))
	click(bob, `button[formaction="/sign-in/upstream"]`)
	onPage(bob, "Your account") // he is still signed in there, and has consented

	invited := here.Call("POST", "/oidc/org/members", object{"email": "dora@example.org", "role": "admin"}).Want(201)
	dora := chromium.New(t)
	dora.LoadAxe()
	dora.Open(invited.Text("link"))
	dora.Check("upstream-invitation")
	click(dora, providerButton)
	signInThere(dora, there, "carol@example.org", theirPassword)
	onPage(dora, "Overview") // with an account of her own, since the address is not the invited one

	ada := chromium.New(t)
	ada.LoadAxe()
	ada.DisableAutofill()
	ada.Open(here.URL + "/account")
	click(ada, providerButton)
	signInThere(ada, there, installation.AdminEmail, installation.AdminPassword)
	if text := onPage(ada, "Sign in"); !strings.Contains(text, "does not open the organization") {
		t.Errorf("an account that is not linked has the page %s", text)
	}
	ada.Check("upstream-not-linked")
	ada.Submit("email", installation.AdminEmail, "password", installation.AdminPassword)
	click(ada, `[aria-label="Link `+longName+`"]`)
	if text := onPage(ada, "Your account"); !strings.Contains(text, "linked") {
		t.Errorf("the account page says %s", text)
	}
	ada.Check("upstream-linked")
	signOut(ada, here)
	click(ada, providerButton)
	if text := onPage(ada, "Your account"); !strings.Contains(text, installation.AdminEmail) {
		t.Errorf("the linked account opens %s", text)
	}

	var members []struct{ Role string }
	here.Call("GET", "/oidc/org/members", nil).Want(200).Decode(&members)
	roles := map[string]int{}
	for _, m := range members {
		roles[m.Role]++
	}
	if roles["owner"] != 1 || roles["viewer"] != 2 || roles["admin"] != 1 {
		t.Errorf("the roles are %v, want the owner, two new viewers and an invitation", roles)
	}
}
