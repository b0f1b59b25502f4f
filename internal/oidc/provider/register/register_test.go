package register_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/registration"
	"steward/internal/page"
)

// editor are the metadata of a program on the machine of its user.
const editor = `{"client_name": "Editor", "redirect_uris": ["http://127.0.0.1/callback"],
	"grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
	"token_endpoint_auth_method": "none"}`

// site are the metadata of a web application.
const site = `{"client_name": "Site", "redirect_uris": ["https://rp.example.com/callback"],
	"grant_types": ["authorization_code", "refresh_token"], "client_uri": "https://rp.example.com"}`

// fixture is a provider with a registration endpoint.
type fixture struct{ *providertest.Fixture }

func each(t *testing.T, mode registration.Mode, test func(t *testing.T, f *fixture)) {
	t.Helper()
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) { test(t, open(f, mode)) })
}

// onSQLite returns a fixture for a test of what does not depend on the database.
func onSQLite(t *testing.T, mode registration.Mode) *fixture {
	t.Helper()
	return open(providertest.OnSQLite(t), mode)
}

func open(f *providertest.Fixture, mode registration.Mode) *fixture {
	p := f.NewProvider()
	p.Registration = mode
	f.Serve(p)
	return &fixture{f}
}

// token creates an initial access token.
func (f *fixture) token(n registration.NewToken) registration.Created {
	f.T.Helper()
	made, err := f.Provider.Registrations.Create(f.Ctx, auth.From(f.Ctx), n)
	providertest.Must(f.T, err)
	return made
}

// send sends a request with a JSON body and a bearer token, each unless it is empty, from an address.
type send struct{ method, target, body, token, address string }

func (f *fixture) do(s send) *providertest.Response {
	f.T.Helper()
	target := s.target
	if !strings.HasPrefix(target, "http") {
		target = f.URL + target
	}
	req, err := http.NewRequestWithContext(f.T.Context(), s.method, target, bytes.NewBufferString(s.body))
	providertest.Must(f.T, err)
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if s.address != "" {
		req.Header.Set("X-Forwarded-For", s.address)
	}
	resp, err := http.DefaultClient.Do(req)
	providertest.Must(f.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	providertest.Must(f.T, err)
	return &providertest.Response{T: f.T, Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// register registers a client, with an initial access token unless it is empty.
func (f *fixture) register(body, token string) *providertest.Response {
	f.T.Helper()
	return f.do(send{method: "POST", target: "/register", body: body, token: token})
}

// app returns the application that a response to a registration is about.
func (f *fixture) app(r *providertest.Response) *providertest.App {
	return &providertest.App{Fixture: f.Fixture, ID: r.Text("client_id"), Secret: r.Text("client_secret")}
}

func TestRegistrationIsOffByDefault(t *testing.T) {
	plain := providertest.OnSQLite(t)
	f := &fixture{plain}
	f.register(editor, "").Want(http.StatusNotFound)
	document := f.Browser().Get(f.URL + "/.well-known/openid-configuration").Want(http.StatusOK).JSON()
	if _, has := document["registration_endpoint"]; has {
		t.Error("the discovery document has a registration endpoint")
	}
}

// TestClientSignsAUserInWithNothingButTheAddress does what an MCP client does that knows the address of an
// API. What the API itself answers is tested with the whole program.
func TestClientSignsAUserInWithNothingButTheAddress(t *testing.T) {
	each(t, registration.Loopback, func(t *testing.T, f *fixture) {
		b := f.Browser()
		resource := b.Get(f.Provider.ResourceMetadata()).Want(http.StatusOK)
		server := resource.JSON()["authorization_servers"].([]any)[0].(string)
		document := b.Get(server + "/.well-known/oauth-authorization-server").Want(http.StatusOK)
		metadata := strings.Replace(editor, `"client_name"`, `"scope": "openid offline_access thread:read", "client_name"`, 1)
		made := f.do(send{method: "POST", target: document.Text("registration_endpoint"), body: metadata}).Want(http.StatusCreated)
		if made.Header.Get("Cache-Control") != "no-store" || made.Header.Get("Access-Control-Allow-Origin") != "*" ||
			made.Text("client_secret") != "" || made.Text("registration_client_uri") != f.URL+"/register/"+made.Text("client_id") {
			t.Errorf("got %v %s", made.Header, made.Body)
		}

		a := f.app(made)
		callback := "http://127.0.0.1:4711/callback"
		code := a.Code("redirect_uri", callback, "resource", resource.Text("resource"), "scope", "")
		tokens := a.Post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback,
			"code_verifier", providertest.Verifier, "resource", resource.Text("resource")).Want(http.StatusOK)
		tokens = a.Refresh(tokens.Text("refresh_token")).Want(http.StatusOK)
		caller, err := f.Provider.Caller(f.Ctx, tokens.Text("access_token"))
		providertest.Must(t, err)
		if caller.UserID != f.UserID || caller.ClientID != a.ID || !caller.May(auth.ReadThreads) || caller.May(auth.WriteThreads) {
			t.Errorf("got %+v", caller)
		}

		own := send{target: made.Text("registration_client_uri"), token: made.Text("registration_access_token")}
		own.method = "DELETE"
		f.do(own).Want(http.StatusNoContent)
		a.WantInvalid(tokens.Text("access_token"), "the client has deleted itself")
		f.do(own).WantError(http.StatusUnauthorized, "invalid_token")
	})
}

// TestRegisteredClientAsksEachTime also checks that a client with an https redirect URI asks.
func TestRegisteredClientAsksEachTime(t *testing.T) {
	f := onSQLite(t, registration.ByToken)
	a := f.app(f.register(site, f.token(registration.NewToken{}).Value).Want(http.StatusCreated))
	b := f.Browser()
	b.Complete(b.Get(a.AuthorizeURL()))
	again := b.Get(a.AuthorizeURL()).Want(http.StatusOK)
	if !strings.Contains(again.Body, "registered itself") {
		t.Errorf("got %s", again.Body)
	}
	if got := b.Get(a.AuthorizeURL("prompt", "none")).Location().Get("error"); got != "interaction_required" {
		t.Errorf("got %s", got)
	}
}

func TestRegistrationNeedsAToken(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		once := f.token(registration.NewToken{Uses: new(int64(1))})
		for name, token := range map[string]string{"none": "", "wrong": once.Value + "x"} {
			r := f.register(editor, token).WantError(http.StatusUnauthorized, "invalid_token")
			if r.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
				t.Errorf("%s: %v", name, r.Header)
			}
		}
		f.register(`{}`, once.Value).WantRefused("invalid_redirect_uri") // is not counted
		made := f.register(site, once.Value).Want(http.StatusCreated)
		if made.Text("client_secret") == "" || made.JSON()["client_secret_expires_at"] != 0.0 ||
			made.Text("token_endpoint_auth_method") != "client_secret_basic" {
			t.Errorf("got %s", made.Body)
		}
		f.register(site, once.Value).WantError(http.StatusUnauthorized, "invalid_token")

		list, err := f.Clients.List(f.Ctx, &struct{ oidc.WholeList }{oidc.WholeList{Limit: 10}})
		providertest.Must(t, err)
		if len(list.Items) != 1 || list.Items[0].Registration != oidc.WithToken || list.Items[0].IsPublic {
			t.Errorf("got %+v", list.Items)
		}
		providertest.Must(t, f.Provider.Registrations.Delete(f.Ctx, auth.From(f.Ctx), once.ID))
		f.app(made).Tokens() // the client stays
	})
}

func TestAnonymousClientsAreOnTheMachineOfTheirUser(t *testing.T) {
	f := onSQLite(t, registration.Loopback)
	f.register(site, "").WantRefused("invalid_redirect_uri")
	f.register(strings.Replace(editor, "none", "client_secret_post", 1), "").WantRefused("invalid_client_metadata")
	f.register(strings.Replace(editor, "http://127.0.0.1/", "http://127.0.0.1.evil.example/", 1), "").WantRefused("invalid_redirect_uri")
	f.register(strings.Replace(editor, "http://127.0.0.1/", "com.example.app:/", 1), "").WantRefused("invalid_redirect_uri")
	f.register(editor, "iat_wrong").WantError(http.StatusUnauthorized, "invalid_token")
	f.register(site, f.token(registration.NewToken{}).Value).Want(http.StatusCreated)
	if f.register(editor, "").Want(http.StatusCreated).Text("scope") != "openid profile email offline_access" {
		t.Error("the default scopes are others")
	}
}

func TestMetadataThatAreRefused(t *testing.T) {
	f := onSQLite(t, registration.ByToken)
	token := f.token(registration.NewToken{}).Value
	with := func(field, value string) string {
		var m map[string]json.RawMessage
		providertest.Must(t, json.Unmarshal([]byte(site), &m))
		m[field] = json.RawMessage(value)
		text, err := json.Marshal(m)
		providertest.Must(t, err)
		return string(text)
	}
	for body, code := range map[string]string{
		with("redirect_uris", `["http://rp.example.com/"]`):      "invalid_redirect_uri",
		with("redirect_uris", `["https://rp.example.com/#a"]`):   "invalid_redirect_uri",
		with("redirect_uris", `[]`):                              "invalid_redirect_uri",
		with("redirect_uris", `"https://rp.example.com/"`):       "invalid_redirect_uri",
		with("grant_types", `["client_credentials"]`):            "invalid_client_metadata",
		with("grant_types", `["implicit"]`):                      "invalid_client_metadata",
		with("response_types", `["token"]`):                      "invalid_client_metadata",
		with("token_endpoint_auth_method", `"tls_client_auth"`):  "invalid_client_metadata",
		with("token_endpoint_auth_method", `"private_key_jwt"`):  "invalid_client_metadata",
		with("scope", `"openid root"`):                           "invalid_client_metadata",
		with("client_name", `"a\u0000b"`):                        "invalid_client_metadata",
		with("client_uri", `"javascript:alert(1)"`):              "invalid_client_metadata",
		with("client_name", `"`+strings.Repeat("a", 300)+`"`):    "invalid_client_metadata",
		with("client_name", `"`+strings.Repeat("a", 70_000)+`"`): "invalid_client_metadata",
		`[]`:   "invalid_client_metadata",
		`{`:    "invalid_client_metadata",
		"null": "invalid_client_metadata",
		with("grant_types", `["urn:ietf:params:oauth:grant-type:device_code"]`):    "invalid_client_metadata",
		with("grant_types", `["urn:ietf:params:oauth:grant-type:token-exchange"]`): "invalid_client_metadata",
	} {
		r := f.register(body, token)
		if r.Status != http.StatusBadRequest || r.JSON()["error"] != code {
			t.Errorf("%.80s: %d %s", body, r.Status, r.Body)
		}
	}
}

func TestFloodOfRegistrationsHurtsOneAddressOnly(t *testing.T) {
	f := onSQLite(t, registration.Loopback)
	one := send{method: "POST", target: "/register", body: editor, address: "192.0.2.1"}
	made := f.do(one).Want(http.StatusCreated)
	for range 19 {
		f.do(one).Want(http.StatusCreated)
	}
	refused := f.do(one).WantError(http.StatusTooManyRequests, "temporarily_unavailable")
	if refused.Header.Get("Retry-After") == "" {
		t.Errorf("got %v", refused.Header)
	}
	change := one
	change.method, change.target = "PUT", made.Text("registration_client_uri")
	change.token = made.Text("registration_access_token")
	f.do(change).Want(http.StatusTooManyRequests)

	other := one
	other.address = "192.0.2.2"
	f.do(other).Want(http.StatusCreated)
	token := f.token(registration.NewToken{}).Value
	for range 25 { // with a token, an address can register as many as it likes
		other.token = token
		f.do(other).Want(http.StatusCreated)
	}
	other.token = ""
	f.do(other).Want(http.StatusCreated)
}

func TestClientManagesItselfOnly(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		token := f.token(registration.NewToken{}).Value
		one := f.register(site, token).Want(http.StatusCreated)
		two := f.register(site, token).Want(http.StatusCreated)
		own := send{method: "GET", target: one.Text("registration_client_uri"), token: one.Text("registration_access_token")}
		shown := f.do(own).Want(http.StatusOK)
		if shown.Text("client_id") != one.Text("client_id") || shown.Text("client_secret") != "" ||
			shown.Text("registration_access_token") != own.token {
			t.Errorf("got %s", shown.Body)
		}
		for name, wrong := range map[string]string{
			"token of another client": two.Text("registration_access_token"), "initial access token": token, "none": "",
		} {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				try := send{method: method, target: own.target, body: site, token: wrong}
				if r := f.do(try); r.Status != http.StatusUnauthorized || r.Text("error") != "invalid_token" {
					t.Errorf("%s, %s: %d %s", name, method, r.Status, r.Body)
				}
			}
		}
		f.do(own).Want(http.StatusOK)
	})
}

func TestUpdateReplacesTheMetadata(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		made := f.register(site, f.token(registration.NewToken{}).Value).Want(http.StatusCreated)
		clientID := made.Text("client_id")
		own := send{method: "PUT", target: made.Text("registration_client_uri"), token: made.Text("registration_access_token")}
		put := func(fields map[string]any) *providertest.Response {
			text, err := json.Marshal(fields)
			providertest.Must(t, err)
			own.body = string(text)
			return f.do(own)
		}
		uris := []string{"https://rp.example.com/new"}
		secret := made.Text("client_secret")
		updated := put(map[string]any{"client_id": clientID, "client_secret": secret, "redirect_uris": uris}).Want(http.StatusOK)
		if updated.Text("client_name") != "Unnamed application" || updated.Text("client_uri") != "https://rp.example.com" ||
			updated.Text("client_secret") != "" || updated.Text("registration_access_token") != own.token {
			t.Errorf("got %s", updated.Body)
		}
		put(map[string]any{"redirect_uris": uris}).WantRefused("invalid_client_metadata")
		put(map[string]any{"client_id": clientID, "redirect_uris": uris, "client_secret": "wrong"}).WantRefused("invalid_client_metadata")
		put(map[string]any{"client_id": clientID, "redirect_uris": uris, "scope": "openid thread:write"}).
			WantRefused("invalid_client_metadata")
		public := put(map[string]any{"client_id": clientID, "redirect_uris": uris, "token_endpoint_auth_method": "none"})
		public.Want(http.StatusOK)
		again := put(map[string]any{"client_id": clientID, "redirect_uris": uris}).Want(http.StatusOK)
		if again.Text("client_secret") == "" || again.Text("client_secret") == secret {
			t.Errorf("got %s", again.Body)
		}
	})
}

// TestUpdateKeepsWhatAnAdminHasSet also checks that a client does not get back a scope that was taken away.
func TestUpdateKeepsWhatAnAdminHasSet(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		scoped := strings.Replace(site, `"client_name"`, `"scope": "openid thread:read", "client_name"`, 1)
		made := f.register(scoped, f.token(registration.NewToken{}).Value).Want(http.StatusCreated)
		clientID := made.Text("client_id")
		f.app(made).Update(oidc.ClientPatch{Settings: oidc.Settings{
			Scopes: page.Some([]string{"openid"}), AllowedUserIDs: page.Some([]string{f.UserID}),
		}})
		own := send{method: "PUT", target: made.Text("registration_client_uri"), token: made.Text("registration_access_token")}
		own.body = strings.Replace(scoped, `{`, `{"client_id": "`+clientID+`", `, 1)
		f.do(own).WantRefused("invalid_client_metadata")
		own.body = strings.Replace(site, `{`, `{"client_id": "`+clientID+`", `, 1)
		f.do(own).Want(http.StatusOK)
		c, err := f.Clients.Store.Lookup(f.Ctx, clientID)
		providertest.Must(t, err)
		if len(c.AllowedUserIDs) != 1 {
			t.Errorf("got %+v", c.Client)
		}
	})
}

// TestScopesOfTheAPI checks that they are granted by name only, and that a token of a restricted creator
// allows no others than those of the creator.
func TestScopesOfTheAPI(t *testing.T) {
	f := onSQLite(t, registration.ByToken)
	scoped := strings.Replace(site, `"client_name"`, `"scope": "openid thread:read", "client_name"`, 1)
	caller := *auth.From(f.Ctx)
	caller.Scopes = []string{"oauth:write"}
	weak, err := f.Provider.Registrations.Create(f.Ctx, &caller, registration.NewToken{})
	providertest.Must(t, err)
	f.register(scoped, weak.Value).WantRefused("invalid_client_metadata")
	plain := f.app(f.register(site, weak.Value).Want(http.StatusCreated))
	if got := plain.Tokens("scope", "openid thread:read")["scope"]; got != "openid" {
		t.Errorf("got %v", got)
	}

	a := f.app(f.register(scoped, f.token(registration.NewToken{}).Value).Want(http.StatusCreated))
	f.NewUser("stranger@example.com", "a long password of hers")
	b := f.Browser()
	got := b.CompleteAs(b.Get(a.AuthorizeURL("scope", "openid thread:read")), "stranger@example.com", "a long password of hers")
	if got.Get("error") != "access_denied" {
		t.Errorf("a user of another organization gets %v", got)
	}
}

func TestRegistrationEndsWithTheOrganization(t *testing.T) {
	each(t, registration.ByToken, func(t *testing.T, f *fixture) {
		token := f.token(registration.NewToken{}).Value
		made := f.register(site, token).Want(http.StatusCreated)
		providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE orgs SET deleted_at = 1 WHERE id = $1`, f.OrgID)
			return err
		}))
		f.register(site, token).WantError(http.StatusUnauthorized, "invalid_token")
		f.do(send{method: "GET", target: made.Text("registration_client_uri"), token: made.Text("registration_access_token")}).
			WantError(http.StatusUnauthorized, "invalid_token")
	})
}

func TestBrowserApplicationsCanRegister(t *testing.T) {
	f := onSQLite(t, registration.Loopback)
	for _, path := range []string{"/register", "/register/oac_1"} {
		r := f.Browser().Do("OPTIONS", f.URL+path, url.Values{}, "Origin", "http://localhost:6274")
		r.Want(http.StatusNoContent)
		if !strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), "PUT") {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}
