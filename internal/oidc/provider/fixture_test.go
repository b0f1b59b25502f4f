package provider

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/signin"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a provider on a real database behind a real HTTP server, with an organization and its owner.
type fixture struct {
	t        *testing.T
	db       *db.DB
	clock    *clock
	provider *Provider
	accounts *account.Store
	audit    *audit.Store
	clients  *oidc.Handler
	keys     *keys.Store
	url      string
	orgID    string
	userID   string
	ctx      context.Context // of the owner

	// calls records what the provider reports through its func fields.
	calls recorder
	// checked counts the passwords that were checked.
	checked atomic.Int64
}

// recorder records the calls of func fields.
type recorder struct {
	mu    sync.Mutex
	users []string // of Note
	lines []string // of Issued and Refused
}

func (r *recorder) note(_, userID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users = append(r.users, userID)
}

func (r *recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// take returns what was recorded since the last call.
func (r *recorder) take() (users, lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	users, lines = r.users, r.lines
	r.users, r.lines = nil, nil
	return users, lines
}

const (
	ownerEmail    = "owner@example.com"
	ownerPassword = "correct horse battery"
	callback      = "https://rp.example.com/callback"
)

// each runs a test on both databases.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newFixture(t, d)) })
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	c := &clock{now: time.Now().Truncate(time.Millisecond)}
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	lines := &audit.Store{DB: d, Now: c.Now, Request: func(ctx context.Context) (string, string) {
		return web.Request(ctx).ID, web.Request(ctx).RemoteAddr
	}}
	accounts := &account.Store{DB: d, Now: c.Now, Audit: lines.Record}
	store := &oidc.Store{DB: d, Now: c.Now, Audit: lines.Record, Project: accounts.EnsureProject}
	signing := &keys.Store{DB: d, Ring: ring, Now: c.Now, Log: slog.New(slog.DiscardHandler), Audit: lines.Record}
	d.Watch(oidc.Cache, store.Forget)
	d.Watch(auth.Callers, store.Forget)
	d.Watch(keys.Cache, signing.Forget)
	f := &fixture{
		t: t, db: d, clock: c, accounts: accounts, audit: lines, keys: signing, clients: &oidc.Handler{Store: store, Keys: signing},
	}
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		first, err := accounts.Bootstrap(tx, strings.ToUpper(ownerEmail), ownerPassword) // stored in lower case
		f.orgID, f.userID = first.OrgID, first.UserID
		return err
	}))
	f.ctx = auth.With(t.Context(), &auth.Caller{UserID: f.userID, OrgID: f.orgID, Role: auth.Owner})
	srv := httptest.NewUnstartedServer(nil)
	f.url = "http://" + srv.Listener.Addr().String()
	f.provider = &Provider{
		DB: d, Ring: ring, Now: c.Now, Issuer: f.url, Clients: store, Keys: signing, Users: f.directory(),
		OrgName: accounts.OrgName,
		APIKeys: f.apiKeys(),
		Note:    f.calls.note,
		Issued:  func(grantType string) { f.calls.add("issued " + grantType) },
		Refused: func(grantType, code string) { f.calls.add("refused " + grantType + " " + code) },
	}
	must(t, f.provider.Open(t.Context()))
	mux := http.NewServeMux()
	f.provider.Mount(mux.Handle)
	proxies := web.Proxies{netip.MustParsePrefix("127.0.0.0/8")} // so that browsers can have other addresses
	srv.Config.Handler = web.Behind(proxies, web.Observe(slog.New(slog.DiscardHandler), nil, mux))
	srv.Start()
	t.Cleanup(srv.Close)
	return f
}

// directory is the user directory of the fixture's accounts, as package app makes it.
func (f *fixture) directory() signin.Directory {
	a := f.accounts
	return signin.Directory{
		ByEmail: func(ctx context.Context, email string) (oidc.User, error) {
			l, err := a.LoginByEmail(ctx, email)
			return oidc.User(l), err
		},
		ByID: func(ctx context.Context, userID string) (oidc.User, error) {
			l, err := a.LoginByID(ctx, userID)
			return oidc.User(l), err
		},
		Invitation: func(ctx context.Context, token string) (signin.Invitation, error) {
			i, err := a.InvitationOf(ctx, token)
			return signin.Invitation(i), err
		},
		Invited: func(ctx context.Context, token, email string) (oidc.User, error) {
			l, err := a.LoginInvited(ctx, token, email)
			return oidc.User(l), err
		},
		ProfileProblem: func(p signin.Profile) string { return account.UserProfile(p).Problem() },
		SetProfile: func(tx *db.Tx, userID string, p signin.Profile) error {
			return a.SetProfile(tx, userID, account.UserProfile(p))
		},
		CheckPassword: func(hash, password string) bool {
			f.checked.Add(1)
			return account.CheckPassword(hash, password)
		},
		Role: a.Role, HashPassword: account.HashPassword, SetPassword: a.SetPassword,
		Register: a.Register, Join: a.Join, Decline: a.Decline,
		PasswordProblem: account.PasswordProblem, UseReset: a.UseReset, Audit: f.audit.RecordUser,
		Reset: func(ctx context.Context, token string) (oidc.User, error) {
			l, err := a.ResetOf(ctx, token)
			return oidc.User(l), err
		},
		Memberships: func(ctx context.Context, userID string) ([]signin.Membership, error) {
			list, err := a.Memberships(ctx, userID)
			out := make([]signin.Membership, len(list))
			for i, m := range list {
				out[i] = signin.Membership(m)
			}
			return out, err
		},
	}
}

// apiKeys gives access to real API keys, with what the account page needs of them.
func (f *fixture) apiKeys() signin.APIKeys {
	store := &apikey.Store{DB: f.db, Now: f.clock.Now, Audit: f.audit.Record, Project: f.accounts.EnsureProject}
	handler := &apikey.Handler{Store: store}
	return signin.APIKeys{
		List: func(ctx context.Context, caller *auth.Caller, limit int) (list []signin.APIKey, err error) {
			found, err := store.List(ctx, caller.OrgID, apikey.Filter{UserID: caller.UserID}, page.Paging{Limit: limit})
			for _, k := range found.Items {
				list = append(list, signin.APIKey{ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt})
			}
			return list, err
		},
		Create: func(ctx context.Context, caller *auth.Caller, name string, expires *stamp.Time) (string, error) {
			body := apikey.NewKey{Name: name}
			if expires != nil {
				body.ExpiresAt = new(expires.String())
			}
			made, err := handler.Create(ctx, &struct{ Body apikey.NewKey }{body})
			return made.Value, err
		},
		Delete: func(ctx context.Context, caller *auth.Caller, keyID string) error {
			return store.Delete(ctx, caller, keyID, page.IfMatch{})
		},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// app is an application that uses a client.
type app struct {
	f      *fixture
	id     string
	secret string
}

// newApp creates a client with the given settings of the management API.
func (f *fixture) newApp(settings string) *app {
	f.t.Helper()
	var in oidc.NewClient
	must(f.t, json.Unmarshal([]byte(settings), &in))
	in.Name, in.Description, in.HomepageURL = "Test app", "For tests", "https://rp.example.com"
	made, err := f.clients.Create(f.ctx, &struct{ Body oidc.NewClient }{in})
	must(f.t, err)
	return &app{f: f, id: made.Client.ID, secret: made.ClientSecret}
}

const (
	confidential = `{"redirect_uris": ["https://rp.example.com/callback"],
		"post_logout_redirect_uris": ["https://rp.example.com/bye"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials"],
		"scopes": ["openid", "profile", "email", "offline_access", "webhook:read", "webhook:write"]}`
	public = `{"client_type": "public", "redirect_uris": ["https://rp.example.com/callback"],
		"grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]}`
)

// newUser creates a user of another organization.
func (f *fixture) newUser(email, password string) (userID string) {
	f.t.Helper()
	var first account.First
	must(f.t, f.db.Write(f.t.Context(), func(tx *db.Tx) (err error) {
		first, err = f.accounts.Bootstrap(tx, email, password)
		return err
	}))
	return first.UserID
}

// response is an HTTP response with its body.
type response struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// want requires a status.
func (r *response) want(status int) *response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("got status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// wantError requires an OAuth error.
func (r *response) wantError(status int, code string) *response {
	r.t.Helper()
	r.want(status)
	if got := r.json()["error"]; got != code {
		r.t.Fatalf("got error %v, want %s: %s", got, code, r.body)
	}
	return r
}

// wantRefused requires an OAuth error with status 400.
func (r *response) wantRefused(code string) *response {
	r.t.Helper()
	return r.wantError(http.StatusBadRequest, code)
}

func (r *response) json() map[string]any {
	r.t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		r.t.Fatalf("not JSON: %s", r.body)
	}
	return out
}

func (r *response) text(field string) string {
	r.t.Helper()
	s, _ := r.json()[field].(string)
	return s
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// params returns the parameters of an ordinary authorization request. Pairs replace some of them, or
// remove them if the value is empty.
func (a *app) params(pairs ...string) url.Values {
	v := url.Values{
		"client_id": {a.id}, "redirect_uri": {callback}, "response_type": {"code"},
		"scope": {"openid profile email offline_access"}, "state": {"xyz"},
		"nonce": {"n-0S6"}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			v.Del(pairs[i])
		}
	}
	return v
}

func (a *app) authorizeURL(pairs ...string) string {
	return a.f.url + "/authorize?" + a.params(pairs...).Encode()
}

// code gets an authorization code in a new browser.
func (a *app) code(pairs ...string) string {
	a.f.t.Helper()
	b := a.f.browser()
	result := b.complete(b.get(a.authorizeURL(pairs...)))
	if result.Get("code") == "" {
		a.f.t.Fatalf("no code: %v", result)
	}
	return result.Get("code")
}

// post sends a form to an endpoint, with client_secret_basic if the client has a secret.
func (a *app) post(path string, pairs ...string) *response {
	a.f.t.Helper()
	return a.postAs(a.f.browser(), path, pairs)
}

func (a *app) postAs(b *browser, path string, pairs []string, headers ...string) *response {
	a.f.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	if a.secret == "" {
		form.Set("client_id", a.id)
	} else {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(a.id) + ":" + url.QueryEscape(a.secret)))
		headers = append(headers, "Authorization", "Basic "+basic)
	}
	return b.do("POST", a.f.url+path, form, headers...)
}

func (a *app) redeem(code string) *response {
	a.f.t.Helper()
	return a.post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback,
		"code_verifier", verifier)
}

func (a *app) refresh(token string) *response {
	a.f.t.Helper()
	return a.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token)
}

// tokens gets tokens with an authorization code.
func (a *app) tokens(pairs ...string) map[string]any {
	a.f.t.Helper()
	return a.redeem(a.code(pairs...)).want(http.StatusOK).json()
}

func (f *fixture) userinfo(token string) *response {
	f.t.Helper()
	return f.browser().do("GET", f.url+"/userinfo", nil, "Authorization", "Bearer "+token)
}

func (a *app) active(token string) bool {
	a.f.t.Helper()
	return a.post("/introspect", "token", token).want(http.StatusOK).json()["active"] == true
}

// wantInvalid requires that an access token is refused everywhere.
func (a *app) wantInvalid(token any, why string) {
	a.f.t.Helper()
	text := fmt.Sprint(token)
	a.f.userinfo(text).wantError(http.StatusUnauthorized, oauth.InvalidToken)
	if _, err := a.f.provider.Caller(a.f.t.Context(), text); err == nil {
		a.f.t.Errorf("%s: the management API accepts the token", why)
	}
	// A deleted client cannot authenticate.
	r := a.post("/introspect", "token", text)
	if r.status != http.StatusUnauthorized && r.want(http.StatusOK).body != `{"active":false}` {
		a.f.t.Errorf("%s: introspection returns %s", why, r.body)
	}
}

// revokeMany revokes n access tokens that do not exist.
func (f *fixture) revokeMany(n int) {
	f.t.Helper()
	must(f.t, f.db.Write(f.t.Context(), func(tx *db.Tx) error {
		for i := range n {
			if err := grant.RevokeToken(tx, fmt.Sprintf("grt_%d", i), f.clock.Now().Add(time.Hour)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// otherOrg creates another organization.
func (f *fixture) otherOrg() (orgID string) {
	f.t.Helper()
	orgID = id.New(id.Org)
	must(f.t, f.db.Write(f.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'Other', 1)`, orgID)
		return err
	}))
	return orgID
}
