package federation_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
	"steward/internal/page"
	"steward/internal/webhook/send"
)

// claims are those of an ID token.
type claims = map[string]any

// wantRefused requires that an identity is not admitted.
func wantRefused(r *providertest.Response, b *providertest.Browser) {
	r.T.Helper()
	if r.Want(http.StatusForbidden); !strings.Contains(r.Body, "does not open the organization") || b.SignedIn() {
		r.T.Fatalf("the identity was admitted: %s", r.Body)
	}
}

// twoStewards returns two installations, of which the second one is an upstream of the first.
func twoStewards(t *testing.T, d *db.DB) (here, there *providertest.Fixture, u upstream.Upstream) {
	here = providertest.New(t, d)
	there = providertest.New(t, dbtest.Open(t, d.Dialect()))
	app := there.NewApp(`{"redirect_uris": ["` + here.URL + upstream.PathCallback + `"], "scopes": ["openid", "profile", "email"]}`)
	n := upstream.NewUpstream{Name: "There", Issuer: there.URL, ClientID: app.ID}
	n.ClientSecret = page.Some(app.Secret)
	n.DefaultRole = page.Some(auth.Viewer)
	return here, there, here.NewUpstream(n)
}

// through takes a browser of the second Steward through its pages and returns where it is sent back to.
func through(there *providertest.Fixture, location, email, password string) (back string) {
	there.T.Helper()
	b := there.Browser()
	r := b.Get(location)
	for range 5 {
		r = b.Follow(r)
		if r.Status == http.StatusSeeOther {
			return r.Header.Get("Location")
		}
		r = b.Submit(r.Want(http.StatusOK), "email", email, "password", password)
	}
	there.T.Fatal("the second Steward does not send the browser back")
	return ""
}

func TestSecondStewardSignsItsUsersIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		here, there, u := twoStewards(t, d)
		there.NewUser("bob@example.org", "a password of bob")
		sign := func() string {
			b := here.Browser()
			page := b.Get(here.URL + "/account").Want(http.StatusOK)
			if !strings.Contains(page.Body, "Continue with There") {
				t.Fatalf("the only organization's provider is not offered: %s", page.Body)
			}
			_, _, values := page.Form()
			started := b.Do("POST", here.URL+upstream.PathSignIn, url.Values{
				"csrf": {values.Get("csrf")}, "flow": {values.Get("flow")}, "upstream": {u.ID},
			})
			back := through(there, started.Want(http.StatusSeeOther).Header.Get("Location"), "bob@example.org", "a password of bob")
			r := b.Get(back)
			if got := r.Want(http.StatusSeeOther).Header.Get("Location"); got != "/account" {
				t.Fatalf("the flow continues at %s", got)
			}
			return b.CurrentUser()
		}
		first := sign()
		if got := here.Role(here.OrgID, first); got != auth.Viewer {
			t.Errorf("the new user has the role %q", got)
		}
		if again := sign(); again != first {
			t.Errorf("the second sign-in is that of %s, the first was %s", again, first)
		}
		var address *string
		var methods string
		providertest.Must(t, here.DB.Read(t.Context()).Row(`SELECT u.email, s.amr FROM users u
			JOIN oidc_sessions s ON s.user_id = u.id WHERE u.id = $1`, first).Scan(&address, &methods))
		if address != nil {
			t.Errorf("the account has taken the address %s, which is not verified", *address)
		}
		if methods != "pwd" {
			t.Errorf("the methods of the second Steward became %q", methods)
		}
	})
}

func TestUserLinksAnAccountWhileSignedIn(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	here, there, u := twoStewards(t, d)
	link := here.URL + upstream.PathSignIn + "/" + u.ID
	enter := func(b *providertest.Browser) *providertest.Response {
		location := b.Get(link).Want(http.StatusSeeOther).Header.Get("Location")
		return b.Get(through(there, location, providertest.OwnerEmail, providertest.OwnerPassword))
	}
	stranger := here.Browser()
	wantRefused(enter(stranger), stranger) // the address is that of a member

	b := here.Browser()
	account := b.SignIn(b.Get(here.URL + "/account"))
	if !strings.Contains(account.Body, `aria-label="Link There"`) {
		t.Fatalf("the provider cannot be linked: %s", account.Body)
	}
	_, _, values := account.Form()
	form := url.Values{"csrf": {values.Get("csrf")}, "upstream": {u.ID}}
	started := b.Do("POST", here.URL+"/account/upstream", form).Want(http.StatusSeeOther)
	back := through(there, started.Header.Get("Location"), providertest.OwnerEmail, providertest.OwnerPassword)
	here.Browser().Get(back).Want(http.StatusBadRequest) // another browser cannot complete it
	linked := b.Follow(b.Get(back))
	if !strings.Contains(linked.Body, `aria-label="Unlink There"`) {
		t.Fatalf("the provider is not linked: %s", linked.Body)
	}

	other := here.Browser()
	if got := other.WantIn(enter(other)); got != here.UserID {
		t.Fatalf("the linked account signs in %s", got)
	}
	page := other.Get(here.URL + "/account")
	if strings.Contains(page.Body, "Change password") || strings.Contains(page.Body, "Unlink") {
		t.Errorf("a session of the provider can change how the user signs in: %s", page.Body)
	}
	_, _, values = page.Form()
	for _, path := range []string{"/account/password", "/account/upstream", "/account/upstream/unlink"} {
		other.Do("POST", here.URL+path, url.Values{"csrf": {values.Get("csrf")}, "upstream": {u.ID}}).Want(http.StatusForbidden)
	}

	b.Do("POST", here.URL+"/account/upstream/unlink", form).Want(http.StatusSeeOther)
	again := here.Browser()
	wantRefused(enter(again), again)
}

// TestSessionOfAProviderOpensOneOrganization links an account of a user of two organizations.
func TestSessionOfAProviderOpensOneOrganization(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Settings())
	own := f.NewApp(providertest.Confidential)
	second := f.NewOwner("second@example.org", "a password of second")
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
				VALUES ($1, $2, 'owner', 1, 1, 1)`, second.OrgID, f.UserID); err != nil {
			return err
		}
		return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
			OrgID: f.OrgID, Issuer: s.URL, Subject: "anna", UserID: f.UserID, Linked: true,
		})
	}))
	ctx := f.Ctx
	f.Ctx = auth.With(t.Context(), &auth.Caller{UserID: second.UserID, OrgID: second.OrgID, Role: auth.Owner})
	foreign := f.NewApp(providertest.Confidential)
	f.Ctx = ctx

	b := f.Browser()
	if got := b.WantIn(s.Enter(b, u)); got != f.UserID {
		t.Fatalf("the linked account signs in %s", got)
	}
	if page := b.Get(own.AuthorizeURL()).Want(http.StatusOK); strings.Contains(page.Body, `action="/sign-in"`) {
		t.Error("an application of the organization asks for a sign-in")
	}
	if page := b.Get(foreign.AuthorizeURL()).Want(http.StatusOK); !strings.Contains(page.Body, `action="/sign-in"`) {
		t.Errorf("an application of another organization is open: %s", page.Body)
	}
	if got := b.Get(foreign.AuthorizeURL("prompt", "none")).Location().Get("error"); got != "login_required" {
		t.Errorf("without a prompt: %q", got)
	}
	if page := b.Get(f.URL + "/account"); strings.Contains(page.Body, second.OrgID) {
		t.Error("the account page offers API keys of another organization")
	}
	var sessionID string
	providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT id FROM oidc_sessions`).Scan(&sessionID))
	if got, err := f.Provider.Session(t.Context(), sessionID); err != nil || got.OrgID != f.OrgID {
		t.Errorf("the console may open %+v: %v", got, err)
	}
	b.Complete(b.Get(foreign.AuthorizeURL())) // with the password, it is open
	if got, err := f.Provider.Session(t.Context(), sessionID); err != nil || got.OrgID != "" {
		t.Errorf("after a sign-in with the password, the session opens %+v: %v", got, err)
	}
}

// TestProviderAddsNoWayToSignIn has an organization require a factor that its provider does not tell of: whoever
// manages both must not add a passkey or an app to the account of a user.
func TestProviderAddsNoWayToSignIn(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	s := f.NewStranger()
	u := f.NewUpstream(s.Settings())
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
			OrgID: f.OrgID, Issuer: s.URL, Subject: "anna", UserID: f.UserID, Linked: true,
		})
	}))
	for _, policy := range []account.Factor{account.AnyFactor, account.Passkey} {
		f.RequireFactor(policy, auth.Viewer)
		b := f.Browser()
		refused := s.Enter(b, u).Want(http.StatusForbidden)
		if strings.Contains(refused.Body, "<form") || b.SessionCookie() != "" {
			t.Errorf("with %s required: %s", policy, refused.Body)
		}
	}
}

// TestCodeAfterAProviderKeepsTheSessionConfined signs in a linked user who has an authenticator app.
func TestCodeAfterAProviderKeepsTheSessionConfined(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	s := f.NewStranger()
	u := f.NewUpstream(s.Settings())
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`DELETE FROM oidc_sessions`); err != nil {
			return err
		}
		return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
			OrgID: f.OrgID, Issuer: s.URL, Subject: "anna", UserID: f.UserID, Linked: true,
		})
	}))
	b := f.Browser()
	asked := s.Enter(b, u)
	if !asked.IsCode() || b.SessionCookie() != "" {
		t.Fatalf("no code is asked for: %s", asked.Body)
	}
	b.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther)
	var orgID string
	providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT org_id FROM oidc_sessions`).Scan(&orgID))
	if orgID != f.OrgID {
		t.Errorf("the session opens %q", orgID)
	}
}

func TestProvidersOfOthersAreNotListed(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	f.NewUpstream(s.Settings())
	app := f.NewApp(providertest.Confidential)
	f.NewUser("other@example.org", "a password of another")
	if page := f.Browser().Get(f.URL + "/account"); strings.Contains(page.Body, "Continue with Stranger") {
		t.Error("everybody sees the provider of an organization")
	}
	if page := f.Browser().Get(app.AuthorizeURL()); !strings.Contains(page.Body, "Continue with Stranger") {
		t.Error("users of an application do not see the provider of its organization")
	}
	f.Browser().Get(f.URL + upstream.PathSignIn + "/ups_unknown").Want(http.StatusNotFound)
}

func TestStateIsBoundToTheBrowserAndUsedOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		s := f.NewStranger()
		u := f.NewUpstream(s.Welcoming())
		b := f.Browser()
		state := s.Receive(b.Get(f.URL + upstream.PathSignIn + "/" + u.ID))
		for name, target := range map[string]string{
			"no state":  f.URL + upstream.PathCallback + "?code=c0de",
			"forged":    s.Back(f, "AAAA"),
			"truncated": s.Back(f, state[:len(state)-4]),
		} {
			if r := b.Get(target); r.Status != http.StatusBadRequest {
				t.Errorf("%s: %d", name, r.Status)
			}
		}
		f.Browser().Get(s.Back(f, state)).Want(http.StatusBadRequest) // another browser
		b.WantIn(b.Get(s.Back(f, state)))
		b.Get(s.Back(f, state)).Want(http.StatusBadRequest) // again

		late := f.Browser()
		state = s.Receive(late.Get(f.URL + upstream.PathSignIn + "/" + u.ID))
		f.Clock.Add(21 * time.Minute)
		late.Get(s.Back(f, state)).Want(http.StatusBadRequest)
	})
}

func TestMixedUpProvidersAreNoticed(t *testing.T) {
	f := providertest.OnSQLite(t)
	honest, attacker := f.NewStranger(), f.NewStranger()
	honest.SendsIssuer = true
	u, evil := f.NewUpstream(honest.Welcoming()), f.NewUpstream(attacker.Welcoming())
	b := f.Browser()
	// The attacker's provider has sent the browser on to the honest one, whose code comes back.
	refused := attacker.Enter(b, evil, "iss", honest.URL)
	if refused.Want(http.StatusBadRequest); b.SignedIn() {
		t.Fatal("the code of another provider was accepted")
	}
	honest.Enter(b, u).Want(http.StatusBadRequest) // the provider says that it sends its issuer
	b.WantIn(honest.Enter(b, u, "iss", honest.URL))
}

func TestInvalidIDTokensAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := func(payload []byte) string { return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "." }
	tampered := func(payload []byte) string {
		parts := strings.Split(s.Sign([]byte(`{}`)), ".")
		return parts[0] + "." + encode(payload) + "." + parts[2]
	}
	for name, test := range map[string]struct {
		said  claims
		token func([]byte) string
	}{
		"audience":            {said: claims{"aud": "another"}},
		"party":               {said: claims{"aud": []string{"steward", "another"}, "azp": "another"}},
		"nonce":               {said: claims{"nonce": "replayed"}},
		"no nonce":            {said: claims{"nonce": nil}},
		"issuer":              {said: claims{"iss": "https://another.example"}},
		"expired":             {said: claims{"exp": f.Clock.Now().Add(-time.Hour).Unix()}},
		"no subject":          {said: claims{"sub": ""}},
		"long subject":        {said: claims{"sub": strings.Repeat("x", 256)}},
		"without a signature": {token: unsigned},
		"tampered":            {token: tampered},
		"no token":            {token: func([]byte) string { return "" }},
	} {
		s.Say(test.said)
		s.Token = test.token
		b := f.Browser()
		if r := s.Enter(b, u); r.Status != http.StatusBadGateway || b.SignedIn() {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	s.Say(nil)
	s.Token = nil
	b := f.Browser()
	b.WantIn(s.Enter(b, u))
}

func TestDisabledProviderSignsNobodyIn(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	b := f.Browser()
	state := s.Receive(b.Get(f.URL + upstream.PathSignIn + "/" + u.ID))
	store := f.Provider.Upstreams.Store
	_, err := store.Update(f.Ctx, auth.From(f.Ctx), upstream.Change{ID: u.ID},
		upstream.Patch{Settings: upstream.Settings{Enabled: page.Some(false)}})
	providertest.Must(t, err)
	b.Get(s.Back(f, state)).Want(http.StatusNotFound) // on the way
	b.Get(f.URL + upstream.PathSignIn + "/" + u.ID).Want(http.StatusNotFound)
	if page := b.Get(f.URL + "/account"); strings.Contains(page.Body, "Continue with") {
		t.Error("the sign-in page offers a provider that is switched off")
	}
}

func TestEgressGuardAppliesToProviders(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	p := f.NewProvider()
	p.Egress = send.Egress{}.Transport()
	f.Serve(p)
	r := f.Browser().Get(f.URL + upstream.PathSignIn + "/" + u.ID).Want(http.StatusBadGateway)
	if !strings.Contains(r.Body, "not allowed: it is in a loopback range") || strings.Contains(r.Body, "127.0.0.1") {
		t.Errorf("the page says %s", r.Body)
	}
}

func TestReauthenticationIsDemandedOfTheProvider(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	app := f.NewApp(providertest.Confidential)
	start := func(b *providertest.Browser) string {
		_, _, values := b.Get(app.AuthorizeURL("prompt", "login")).Form()
		started := b.Do("POST", f.URL+upstream.PathSignIn, url.Values{
			"csrf": {values.Get("csrf")}, "flow": {values.Get("flow")}, "upstream": {u.ID},
		})
		if query := started.Location(); query.Get("prompt") != "login" || query.Get("max_age") != "0" {
			t.Errorf("the provider is asked %v", query)
		}
		return s.Receive(started)
	}
	for name, said := range map[string]claims{
		"long ago": {"auth_time": f.Clock.Now().Add(-time.Hour).Unix()}, "not told": {},
	} {
		b := f.Browser()
		s.Say(said)
		if r := b.Get(s.Back(f, start(b))); r.Status != http.StatusForbidden || b.SignedIn() {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	b := f.Browser()
	s.Say(claims{"auth_time": f.Clock.Now().Unix()})
	b.WantIn(b.Get(s.Back(f, start(b))))
	old := f.Browser()
	authenticated := f.Clock.Now().Add(-time.Hour).Truncate(time.Second)
	s.Say(claims{"auth_time": authenticated.Unix(), "amr": []string{"otp", "made-up"}})
	old.WantIn(s.Enter(old, u))
	result := old.Complete(old.Get(app.AuthorizeURL()))
	tokens := app.Redeem(result.Get("code")).Want(http.StatusOK)
	told := providertest.Claims(t, tokens.Text("id_token"))
	if told["auth_time"] != float64(authenticated.Unix()) || told["acr"] != nil || len(told["amr"].([]any)) != 1 {
		t.Errorf("auth_time, acr and amr are %v, %v and %v", told["auth_time"], told["acr"], told["amr"])
	}
}

// TestProviderSendsBackToTheBaseURL starts a sign-in at a provider with a request that names another host.
func TestProviderSendsBackToTheBaseURL(t *testing.T) {
	f := providertest.OnSQLite(t)
	u := f.NewUpstream(f.NewStranger().Welcoming())
	r := f.Browser().Do("GET", f.URL+upstream.PathSignIn+"/"+u.ID, nil,
		"Host", "evil.example", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example").
		Want(http.StatusSeeOther)
	if got := r.Location().Get("redirect_uri"); got != f.URL+upstream.PathCallback {
		t.Errorf("the provider sends the code to %s", got)
	}
}
