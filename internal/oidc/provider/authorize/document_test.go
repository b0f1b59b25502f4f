package authorize_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	paging "steward/internal/page"
	"steward/internal/webhook/send"
)

var loopback = send.Egress{Loopback: true}

// clientsOf returns the clients of an organization.
func clientsOf(f *providertest.Fixture, orgID string) []oidc.ClientDetails {
	f.T.Helper()
	list, err := f.Clients.Store.List(f.Ctx, orgID, paging.Paging{Limit: 100})
	providertest.Must(f.T, err)
	return list.Items
}

// TestDocumentDescribesAClient signs a user in to a client that nobody has registered.
func TestDocumentDescribesAClient(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		d := f.NewDocuments(loopback)
		b, a := f.Browser(), d.App()
		page := b.Get(d.AuthorizeURL("scope", "openid email offline_access webhook:read")).Want(http.StatusOK)
		if d.Requests.Load() != 0 || !strings.Contains(page.Body, `name="password"`) {
			t.Fatalf("%d documents were requested for nobody: %s", d.Requests.Load(), page.Body)
		}
		page = b.SignIn(page).Want(http.StatusOK)
		host := strings.TrimPrefix(d.Origin, "https://")
		if !strings.Contains(page.Body, "trust <strong>"+host) || !page.Asks("webhook:read") || page.Asks("webhook:write") {
			t.Errorf("the consent page is %s", page.Body)
		}
		got := b.Complete(page)
		tokens := a.Post("/oauth/token", d.Redeem(got.Get("code"))...).Want(http.StatusOK)
		id, access := providertest.Claims(t, tokens.Text("id_token")), providertest.Claims(t, tokens.Text("access_token"))
		if id["aud"] != d.URI || access["client_id"] != d.URI {
			t.Errorf("the tokens are for %v and %v", id["aud"], access["client_id"])
		}
		f.Userinfo(tokens.Text("access_token")).Want(http.StatusOK)
		next := a.Refresh(tokens.Text("refresh_token")).Want(http.StatusOK)
		made := clientsOf(f, f.OrgID)
		if len(made) != 1 || made[0].Registration != oidc.ByDocument || *made[0].DocumentURI != d.URI || made[0].Name != "Editor" || made[0].IsPublic {
			t.Fatalf("the organization has %+v", made)
		}
		caller, err := f.Provider.Caller(t.Context(), next.Text("access_token"))
		providertest.Must(t, err)
		if caller.OrgID != f.OrgID || caller.UserID != f.UserID || caller.ClientID != made[0].ID {
			t.Errorf("the caller is %+v", caller)
		}

		// The consent is asked for each time, and the id of the row is no client_id.
		if !b.Get(d.AuthorizeURL()).Want(http.StatusOK).Asks("openid") {
			t.Error("the consent is remembered")
		}
		if got := b.Get(d.AuthorizeURL("prompt", "none")).Location(); got.Get("error") != oauth.InteractionRequired {
			t.Errorf("prompt=none: %v", got)
		}
		inside := &providertest.App{Fixture: f, ID: made[0].ID}
		b.Get(inside.AuthorizeURL("redirect_uri", d.Callback)).Want(http.StatusBadRequest)
		inside.Refresh(next.Text("refresh_token")).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.Post("/par", "redirect_uri", d.Callback, "response_type", "code").WantRefused(oauth.UnauthorizedClient)
		if _, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), made[0].ID, paging.IfMatch{}, oidc.ClientPatch{}); err == nil {
			t.Error("an admin changes what the document says")
		}

		// Revoking and deleting end the tokens.
		providertest.Must(t, f.Clients.Store.RevokeConsent(f.Ctx, made[0].ID, f.UserID, ""))
		f.Userinfo(next.Text("access_token")).Want(http.StatusUnauthorized)
		a.Refresh(next.Text("refresh_token")).WantRefused(oauth.InvalidGrant)
		f.Clock.Add(oidc.UnusedAfter + time.Hour)
		providertest.Must(t, f.Clients.Store.DeleteUnused(t.Context(), 10))
		if left := clientsOf(f, f.OrgID); len(left) != 0 {
			t.Errorf("unused clients stay: %+v", left)
		}
	})
}

// TestDocumentIsRequestedAgain changes a document while it is kept, and then.
func TestDocumentIsRequestedAgain(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		d := f.NewDocuments(loopback)
		b := f.Browser()
		b.Complete(b.Get(d.AuthorizeURL()))
		want := func(requests int64, name string) {
			t.Helper()
			page := b.Get(d.AuthorizeURL()).Want(http.StatusOK)
			if d.Requests.Load() != requests || !strings.Contains(page.Body, "<h1>"+name) {
				t.Errorf("%d requests, want %d, and %s: %s", d.Requests.Load(), requests, name, page.Body)
			}
		}
		d.Publish(fmt.Sprintf(`{"client_id": %q, "client_name": "Renamed", "redirect_uris": [%q]}`, d.URI, d.Callback),
			"Cache-Control", "public, max-age=3600")
		f.Clock.Add(4 * time.Minute)
		want(1, "Editor")
		f.Clock.Add(2 * time.Minute)
		want(2, "Renamed")
		f.Clock.Add(50 * time.Minute)
		want(2, "Renamed")
		f.Clock.Add(20 * time.Minute)
		d.Handle(http.NotFound)
		if page := b.Get(d.AuthorizeURL()).Want(http.StatusBadRequest); !strings.Contains(page.Body, "cannot be read") {
			t.Errorf("without a document: %s", page.Body)
		}
	})
}

// TestDocumentsAreForEveryOrganization has users of two organizations, and one of both, sign in to a client.
func TestDocumentsAreForEveryOrganization(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		d := f.NewDocuments(loopback)
		other := f.NewOwner("owner@b.example", "a long password of b")
		token := func(b *providertest.Browser, page *providertest.Response, email, password string) *providertest.Response {
			t.Helper()
			code := b.CompleteAs(page, email, password).Get("code")
			return d.App().Post("/oauth/token", d.Redeem(code)...).Want(http.StatusOK)
		}
		orgOf := func(tokens *providertest.Response) string {
			t.Helper()
			caller, err := f.Provider.Caller(t.Context(), tokens.Text("access_token"))
			providertest.Must(t, err)
			return caller.OrgID
		}
		request := d.AuthorizeURL("scope", "openid offline_access webhook:read")
		first, second := f.Browser(), f.Browser()
		mine := token(first, first.Get(request), providertest.OwnerEmail, providertest.OwnerPassword)
		theirs := token(second, second.Get(request), "owner@b.example", "a long password of b")
		if orgOf(mine) != f.OrgID || orgOf(theirs) != other.OrgID {
			t.Errorf("the tokens are for %s and %s", orgOf(mine), orgOf(theirs))
		}
		for _, tokens := range []*providertest.Response{mine, theirs} {
			d.App().Refresh(tokens.Text("refresh_token")).Want(http.StatusOK)
		}
		if a, b := clientsOf(f, f.OrgID), clientsOf(f, other.OrgID); len(a) != 1 || len(b) != 1 || a[0].ID == b[0].ID || b[0].UserCount != 1 {
			t.Errorf("the organizations have %+v and %+v", a, b)
		}
		addMember(f, other, f.UserID)
		page := first.Get(request).Want(http.StatusOK)
		if !strings.Contains(page.Body, "Choose an organization") {
			t.Fatalf("a user of two organizations gets %s", page.Body)
		}
		chosen := first.Get(request + "&organization=" + other.OrgID)
		if got := orgOf(token(first, chosen, "", "")); got != other.OrgID {
			t.Errorf("the token is for %s", got)
		}
		first.Get(request + "&organization=org_other").Want(http.StatusBadRequest)
		d.App().Post("/revoke", "token", theirs.Text("refresh_token")).Want(http.StatusOK)
		f.Userinfo(theirs.Text("access_token")).Want(http.StatusUnauthorized)
		f.Userinfo(mine.Text("access_token")).Want(http.StatusOK)
	})
}

// addMember makes a user a member of another organization.
func addMember(f *providertest.Fixture, org account.First, userID string) {
	f.T.Helper()
	providertest.Must(f.T, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, 'member', 1, 0, 0)`, org.OrgID, userID)
		return err
	}))
}

func TestScopesOfADocument(t *testing.T) {
	f := providertest.OnSQLite(t)
	d := f.NewDocuments(loopback)
	b := f.Browser()
	page := b.SignIn(b.Get(d.AuthorizeURL("scope", "")))
	if page.Asks("webhook:read") || !page.Asks("openid") {
		t.Errorf("without a scope, the client gets scopes of the API: %s", page.Body)
	}
	d.Describe(`"scope": "openid webhook:read another:scope", `)
	f.Clock.Add(time.Hour)
	page = b.Get(d.AuthorizeURL("scope", "openid webhook:read webhook:write"))
	if !page.Asks("webhook:read") || page.Asks("webhook:write") {
		t.Errorf("the scopes of the document do not limit the client: %s", page.Body)
	}
}

// TestHostileDocuments also checks that nothing is stored for them.
func TestHostileDocuments(t *testing.T) {
	f := providertest.OnSQLite(t)
	d := f.NewDocuments(loopback)
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	good := fmt.Sprintf(`"client_id": %q, "redirect_uris": [%q]`, d.URI, d.Callback)
	text := func(text string, headers ...string) func() { return func() { d.Publish(text, headers...) } }
	const unread, invalid = "cannot be read", "is not valid"
	for name, c := range map[string]struct {
		publish func()
		problem string
	}{
		"redirect": {func() {
			d.Handle(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/client.json" {
					http.Redirect(w, r, "/other.json", http.StatusFound)
					return
				}
				t.Error("a redirect was followed")
			})
		}, unread},
		"missing":           {func() { d.Handle(http.NotFound) }, unread},
		"not JSON":          {text("{"+good+"}", "Content-Type", "text/html"), unread},
		"too large":         {text("{" + good + `, "padding": "` + strings.Repeat("x", 5<<10) + `"}`), unread},
		"endless":           {func() { d.Handle(endless) }, unread},
		"broken":            {text("{" + good), invalid},
		"a list":            {text("[]"), invalid},
		"another client_id": {text(`{"client_id": "https://other.example/client.json", "redirect_uris": ["` + d.Callback + `"]}`), "client_id: expected"},
		"no client_id":      {text(`{"redirect_uris": ["` + d.Callback + `"]}`), "client_id: expected"},
		"no redirect":       {text(fmt.Sprintf(`{"client_id": %q}`, d.URI)), "redirect_uris: expected"},
		"another host":      {text(fmt.Sprintf(`{"client_id": %q, "redirect_uris": [%q, "https://other.example/cb"]}`, d.URI, d.Callback)), "redirect_uris[1]: expected"},
		"plain http":        {text(fmt.Sprintf(`{"client_id": %q, "redirect_uris": ["http://rp.example/cb"]}`, d.URI)), "redirect_uris[0]: expected"},
		"a scheme":          {text(fmt.Sprintf(`{"client_id": %q, "redirect_uris": ["com.example.app:/cb"]}`, d.URI)), "redirect_uris[0]: expected"},
		"a secret":          {text("{" + good + `, "client_secret": "secret"}`), "client_secret: expected none"},
		"a shared secret":   {text("{" + good + `, "token_endpoint_auth_method": "client_secret_basic"}`), "token_endpoint_auth_method: expected"},
		"keys missing":      {text("{" + good + `, "token_endpoint_auth_method": "private_key_jwt"}`), "token_endpoint_auth_method: expected"},
		"a private key": {text("{" + good + `, "token_endpoint_auth_method": "private_key_jwt",
			"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}`), "jwks.keys[0]: expected"},
		"only other grants":  {text("{" + good + `, "grant_types": ["client_credentials"]}`), "grant_types: expected"},
		"a name in disguise": {text("{" + good + `, "client_name": "\u202ereknaB"}`), "name: expected"},
	} {
		c.publish()
		f.Clock.Add(time.Hour) // so that the limit is no matter
		if page := b.Get(d.AuthorizeURL()).Want(http.StatusBadRequest); !strings.Contains(page.Body, c.problem) {
			t.Errorf("%s: %s", name, page.Body)
		}
	}
	if made := clientsOf(f, f.OrgID); len(made) != 0 || d.Requests.Load() != 19 {
		t.Errorf("after %d requests, clients were stored: %+v", d.Requests.Load(), made)
	}
}

// endless serves a document without an end.
func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
			return
		}
	}
}

func TestDocumentsAreLimitedAndGuarded(t *testing.T) {
	f := providertest.OnSQLite(t)
	d := f.NewDocuments(loopback)
	d.Handle(http.NotFound)
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	for range 10 {
		b.Get(d.AuthorizeURL()).Want(http.StatusBadRequest)
	}
	b.Get(d.AuthorizeURL()).Want(http.StatusTooManyRequests)
	f.Clock.Add(time.Minute)
	b.Get(d.AuthorizeURL()).Want(http.StatusBadRequest)

	guarded := f.NewDocuments(send.Egress{})
	if b.Get(f.URL + "/.well-known/oauth-authorization-server").JSON()["client_id_metadata_document_supported"] != true {
		t.Error("documents are not advertised")
	}
	f.Clock.Add(time.Hour)
	b.Get(guarded.AuthorizeURL()).Want(http.StatusBadRequest)
	if n := guarded.Requests.Load(); n != 0 {
		t.Errorf("%d requests to a loopback address", n)
	}
	for _, id := range []string{
		"http://rp.example.com/client.json", "https://rp.example.com", "https://rp.example.com/a/../b", "https://u@rp.example.com/c",
		"https://rp.example.com/%2e/c", "https://rp.example.com/c#d", "https:rp.example.com/c", "HTTPS://rp.example.com/c",
	} {
		if page := b.Get(d.AuthorizeURL("client_id", id)).Want(http.StatusBadRequest); !strings.Contains(page.Body, "does not exist") {
			t.Errorf("%s: %s", id, page.Body)
		}
	}
	f.Serve(f.NewProvider()) // registration is off
	if page := b.Get(d.AuthorizeURL()).Want(http.StatusBadRequest); !strings.Contains(page.Body, "does not exist") {
		t.Errorf("while registration is off: %s", page.Body)
	}
	if b.Get(f.URL + "/.well-known/oauth-authorization-server").JSON()["client_id_metadata_document_supported"] != nil {
		t.Error("documents are advertised while registration is off")
	}
}
