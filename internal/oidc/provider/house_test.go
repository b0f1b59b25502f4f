package provider

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// clock is a time that tests move.
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

// house is a provider on a real database behind a real HTTP server, with an organization and its owner.
type house struct {
	t        *testing.T
	db       *db.DB
	clock    *clock
	provider *Provider
	accounts *account.Store
	clients  *oidc.Handler
	keys     *keys.Store
	url      string
	orgID    string
	userID   string
	ctx      context.Context // as the owner
}

const (
	ownerEmail    = "owner@example.com"
	ownerPassword = "correct horse battery"
	callback      = "https://rp.example.com/callback"
)

func each(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newHouse(t, d)) })
}

func newHouse(t *testing.T, d *db.DB) *house {
	t.Helper()
	c := &clock{now: time.Now().Truncate(time.Millisecond)}
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	lines := &audit.Store{DB: d, Now: c.Now}
	accounts := &account.Store{DB: d, Now: c.Now, Audit: lines.Record}
	store := &oidc.Store{DB: d, Now: c.Now, Audit: lines.Record, Project: accounts.Require}
	signing := &keys.Store{DB: d, Ring: ring, Now: c.Now, Audit: lines.Record}
	d.Watch(oidc.Cache, store.Forget)
	d.Watch(auth.Callers, store.Forget)
	d.Watch(keys.Cache, signing.Forget)
	h := &house{t: t, db: d, clock: c, accounts: accounts, keys: signing, clients: &oidc.Handler{Store: store, Keys: signing}}
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		first, err := accounts.MakeFirst(tx, strings.ToUpper(ownerEmail), ownerPassword) // stored in lower case
		h.orgID, h.userID = first.OrgID, first.UserID
		return err
	}))
	h.ctx = auth.With(t.Context(), &auth.Caller{UserID: h.userID, OrgID: h.orgID, Role: auth.Owner})
	srv := httptest.NewUnstartedServer(nil)
	h.url = "http://" + srv.Listener.Addr().String()
	h.provider = &Provider{
		DB: d, Ring: ring, Now: c.Now, Issuer: h.url, Clients: store, Keys: signing, Users: usersOf(accounts), Note: func(string, string) {},
	}
	must(t, h.provider.Open(t.Context()))
	mux := http.NewServeMux()
	h.provider.Mount(mux.Handle)
	srv.Config.Handler = web.Observe(slog.New(slog.DiscardHandler), nil, mux)
	srv.Start()
	t.Cleanup(srv.Close)
	return h
}

// usersOf is what package app does too: the accounts, as the provider sees them.
func usersOf(a *account.Store) Users {
	return Users{
		ByEmail: func(ctx context.Context, email string) (User, error) {
			l, err := a.LoginByEmail(ctx, email)
			return User(l), err
		},
		ByID: func(ctx context.Context, userID string) (User, error) {
			l, err := a.LoginByID(ctx, userID)
			return User(l), err
		},
		Invitation: func(ctx context.Context, token string) (Invitation, error) {
			i, err := a.InvitationOf(ctx, token)
			return Invitation(i), err
		},
		Role: a.Role, CheckPassword: account.CheckPassword, HashPassword: account.HashPassword, SetPassword: a.SetPassword, Accept: a.Accept,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// app is a client as its own program knows it.
type app struct {
	h      *house
	id     string
	secret string
}

// newApp makes a client from the JSON that the management route takes; name, description and homepage are put in.
func (h *house) newApp(settings string) *app {
	h.t.Helper()
	var in oidc.NewClient
	must(h.t, json.Unmarshal([]byte(settings), &in))
	in.Name, in.Description, in.HomepageURL = "Test app", "For tests", "https://rp.example.com"
	made, err := h.clients.Create(h.ctx, &struct{ Body oidc.NewClient }{in})
	must(h.t, err)
	return &app{h: h, id: made.Client.ID, secret: made.ClientSecret}
}

const (
	confidential = `{"redirect_uris": ["https://rp.example.com/callback"], "post_logout_redirect_uris": ["https://rp.example.com/bye"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials"],
		"scopes": ["openid", "profile", "email", "offline_access", "webhook:read", "webhook:write"]}`
	public = `{"client_type": "public", "redirect_uris": ["https://rp.example.com/callback"],
		"grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]}`
)

// newUser makes a user who is no member of the organization.
func (h *house) newUser(email, password string) (userID string) {
	h.t.Helper()
	userID = id.New(id.User)
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO users (id, email, password_hash, version, created_at, updated_at) VALUES ($1, $2, $3, 1, 1, 1)`,
			userID, email, account.HashPassword(password))
		return err
	}))
	return userID
}

// reply is an answer that was read.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("got status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// fault wants an OAuth error.
func (r *reply) fault(status int, code string) *reply {
	r.t.Helper()
	r.want(status)
	if got := r.json()["error"]; got != code {
		r.t.Fatalf("got error %v, want %s: %s", got, code, r.body)
	}
	return r
}

func (r *reply) json() map[string]any {
	r.t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		r.t.Fatalf("not JSON: %s", r.body)
	}
	return out
}

func (r *reply) text(field string) string {
	r.t.Helper()
	s, _ := r.json()[field].(string)
	return s
}

// browser is a user at a browser: it keeps cookies and follows no redirect by itself.
type browser struct {
	h    *house
	http *http.Client
}

func (h *house) browser() *browser {
	jar, _ := cookiejar.New(nil)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{h: h, http: &http.Client{Jar: jar, CheckRedirect: stay}}
}

func (b *browser) do(method, target string, form url.Values, headers ...string) *reply {
	b.h.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, target, body)
	must(b.h.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	must(b.h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(b.h.t, err)
	return &reply{t: b.h.t, status: resp.StatusCode, header: resp.Header, body: string(text)}
}

func (b *browser) get(target string) *reply { b.h.t.Helper(); return b.do("GET", target, nil) }

var (
	formTag  = regexp.MustCompile(`(?s)<form method="(\w+)" action="([^"]+)">(.*?)</form>`)
	inputTag = regexp.MustCompile(`<input ([^>]*)>`)
	attr     = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
	button   = regexp.MustCompile(`<button [^>]*type="submit"([^>]*)>`)
)

// form gives the first form of a page as a browser would send it with its first button.
func (r *reply) form() (method, action string, values url.Values) {
	r.t.Helper()
	m := formTag.FindStringSubmatch(r.body)
	if m == nil {
		r.t.Fatalf("no form on this page (%d): %s", r.status, r.body)
	}
	values = url.Values{}
	for _, tag := range inputTag.FindAllStringSubmatch(m[3], -1) {
		a := map[string]string{}
		for _, pair := range attr.FindAllStringSubmatch(tag[1], -1) {
			a[pair[1]] = html.UnescapeString(pair[2])
		}
		if a["name"] == "" || a["type"] == "checkbox" && !strings.Contains(tag[1], "checked") {
			continue
		}
		values.Add(a["name"], a["value"])
	}
	if b := button.FindStringSubmatch(m[3]); b != nil {
		a := map[string]string{}
		for _, pair := range attr.FindAllStringSubmatch(b[1], -1) {
			a[pair[1]] = pair[2]
		}
		if a["name"] != "" {
			values.Set(a["name"], a["value"])
		}
	}
	return strings.ToUpper(m[1]), html.UnescapeString(m[2]), values
}

// submit sends the page's first form with some fields filled in.
func (b *browser) submit(r *reply, fields ...string) *reply {
	b.h.t.Helper()
	method, action, values := r.form()
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	if method == "GET" {
		return b.get(b.h.url + action + "?" + values.Encode())
	}
	return b.do(method, b.h.url+action, values)
}

// follow goes on while the provider redirects to itself.
func (b *browser) follow(r *reply) *reply {
	b.h.t.Helper()
	for r.status == http.StatusSeeOther && strings.HasPrefix(r.header.Get("Location"), "/") {
		r = b.get(b.h.url + r.header.Get("Location"))
	}
	return r
}

// through goes through whatever pages come, as the owner, until the client's address is reached, and gives what was sent there.
func (b *browser) through(r *reply) url.Values {
	b.h.t.Helper()
	return b.throughAs(r, ownerEmail, ownerPassword)
}

func (b *browser) throughAs(r *reply, email, password string) url.Values {
	b.h.t.Helper()
	for range 5 {
		r = b.follow(r)
		if r.status == http.StatusSeeOther {
			u, err := url.Parse(r.header.Get("Location"))
			must(b.h.t, err)
			return u.Query()
		}
		r.want(http.StatusOK)
		r = b.submit(r, "email", email, "password", password)
	}
	b.h.t.Fatalf("the pages do not end: %s", r.body)
	return nil
}

const verifier = "a-verifier-of-at-least-43-characters-0123456789"

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// params are those of an ordinary authorization request; pairs replace or, when empty, remove some.
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
	return a.h.url + "/authorize?" + a.params(pairs...).Encode()
}

// code gets a code through the pages, in a new browser.
func (a *app) code(pairs ...string) string {
	a.h.t.Helper()
	b := a.h.browser()
	answer := b.through(b.get(a.authorizeURL(pairs...)))
	if answer.Get("code") == "" {
		a.h.t.Fatalf("no code: %v", answer)
	}
	return answer.Get("code")
}

// post sends a form to an endpoint, authenticated by Basic when the client has a secret.
func (a *app) post(path string, pairs ...string) *reply {
	a.h.t.Helper()
	return a.postAs(a.h.browser(), path, pairs)
}

func (a *app) postAs(b *browser, path string, pairs []string, headers ...string) *reply {
	a.h.t.Helper()
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
	return b.do("POST", a.h.url+path, form, headers...)
}

func (a *app) redeem(code string) *reply {
	a.h.t.Helper()
	return a.post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback, "code_verifier", verifier)
}

func (a *app) refresh(token string) *reply {
	a.h.t.Helper()
	return a.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token)
}

// tokens gets tokens by the code flow.
func (a *app) tokens(pairs ...string) map[string]any {
	a.h.t.Helper()
	return a.redeem(a.code(pairs...)).want(http.StatusOK).json()
}

func (h *house) userinfo(token string) *reply {
	h.t.Helper()
	return h.browser().do("GET", h.url+"/userinfo", nil, "Authorization", "Bearer "+token)
}

func (a *app) active(token string) bool {
	a.h.t.Helper()
	return a.post("/introspect", "token", token).want(http.StatusOK).json()["active"] == true
}

// dead wants that an access token is refused everywhere.
func (a *app) dead(token any, why string) {
	a.h.t.Helper()
	text := fmt.Sprint(token)
	a.h.userinfo(text).fault(http.StatusUnauthorized, invalidToken)
	if _, err := a.h.provider.Caller(a.h.t.Context(), text); err == nil {
		a.h.t.Errorf("%s: the management API takes the token", why)
	}
	// A client that is gone cannot ask any more.
	if r := a.post("/introspect", "token", text); r.status != http.StatusUnauthorized && (r.want(http.StatusOK).body != `{"active":false}`) {
		a.h.t.Errorf("%s: introspection says %s", why, r.body)
	}
}

// revokeMany voids n grants that are of no interest.
func (h *house) revokeMany(n int) {
	h.t.Helper()
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		for i := range n {
			if err := revokeID(tx, fmt.Sprintf("grt_%d", i), stamp.Of(h.clock.Now()).Add(time.Hour)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// otherOrg makes another organization.
func (h *house) otherOrg() (orgID string) {
	h.t.Helper()
	orgID = id.New(id.Org)
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'Other', 1)`, orgID)
		return err
	}))
	return orgID
}
