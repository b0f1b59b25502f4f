// Package providertest makes a provider for the tests of its packages: on a real database, behind a real HTTP
// server, with an organization and its owner, and with browsers and applications that use it.
package providertest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/password"
	"steward/internal/oidc/registration"
	"steward/internal/seal"
	"steward/internal/web"
	"steward/internal/webhook/send"

	"golang.org/x/crypto/argon2"
)

// Clock is a clock that tests advance.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add advances the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture is a provider on a real database behind a real HTTP server, with an organization and its owner.
type Fixture struct {
	T        *testing.T
	DB       *db.DB
	Clock    *Clock
	Provider *provider.Provider
	Accounts *account.Store
	Audit    *audit.Store
	Clients  *oidc.Handler
	Keys     *keys.Store
	URL      string
	OrgID    string
	UserID   string
	Ctx      context.Context // the owner's

	// Calls records the calls to the provider's func fields.
	Calls Recorder
	// Checked counts the passwords that the provider has checked.
	Checked atomic.Int64

	ring *seal.Ring
	mux  atomic.Pointer[http.ServeMux] // serves Provider
}

// Recorder records calls to func fields.
type Recorder struct {
	mu    sync.Mutex
	users []string // from Note
	lines []string // from Issued and Refused
}

func (r *Recorder) note(_, userID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users = append(r.users, userID)
}

func (r *Recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// Take returns the calls since the last Take.
func (r *Recorder) Take() (users, lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	users, lines = r.users, r.lines
	r.users, r.lines = nil, nil
	return users, lines
}

// The organization's owner, and the URIs that clients have registered.
const (
	OwnerEmail    = "owner@example.com"
	OwnerPassword = "correct horse battery"
	Callback      = "https://rp.example.com/callback"
	Bye           = "https://rp.example.com/bye"
)

// Each runs a test on both databases.
func Each(t *testing.T, test func(t *testing.T, f *Fixture)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, New(t, d)) })
}

// OnSQLite returns a fixture for a test that does not depend on the database.
func OnSQLite(t *testing.T) *Fixture {
	t.Helper()
	return New(t, dbtest.Open(t, db.SQLite))
}

// New returns a fixture on a database.
func New(t *testing.T, d *db.DB) *Fixture {
	t.Helper()
	c := &Clock{now: time.Now().Truncate(time.Millisecond)}
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	Must(t, err)
	lines := &audit.Store{DB: d, Now: c.Now, Request: func(ctx context.Context) (string, string) {
		return web.Request(ctx).ID, web.Request(ctx).RemoteAddr
	}}
	accounts := &account.Store{DB: d, Now: c.Now, Audit: lines}
	store := &oidc.Store{DB: d, Now: c.Now, Audit: lines, Accounts: accounts}
	signing := &keys.Store{DB: d, Ring: ring, Now: c.Now, Log: slog.New(slog.DiscardHandler), Audit: lines}
	d.Watch(oidc.Cache, store.Forget)
	d.Watch(auth.Callers, store.Forget)
	d.Watch(keys.Cache, signing.Forget)
	f := &Fixture{
		T: t, DB: d, ring: ring, Clock: c, Accounts: accounts, Audit: lines, Keys: signing,
		Clients: &oidc.Handler{Store: store, Keys: signing},
	}
	Must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		first, err := bootstrap(accounts, tx, strings.ToUpper(OwnerEmail), OwnerPassword) // stored in lower case
		f.OrgID, f.UserID = first.OrgID, first.UserID
		return err
	}))
	f.Ctx = auth.With(t.Context(), &auth.Caller{UserID: f.UserID, OrgID: f.OrgID, Role: auth.Owner})
	srv := httptest.NewUnstartedServer(nil)
	f.URL = "http://" + srv.Listener.Addr().String()
	f.Serve(f.NewProvider())
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.mux.Load().ServeHTTP(w, r) })
	proxies := web.Proxies{netip.MustParsePrefix("127.0.0.0/8")} // so that browsers can have other addresses
	srv.Config.Handler = web.Behind(proxies, web.Observe(slog.New(slog.DiscardHandler), nil, handler))
	srv.Start()
	t.Cleanup(srv.Close)
	return f
}

// NewProvider returns a provider on the fixture's stores. A test may change its settings before it calls
// Serve.
func (f *Fixture) NewProvider() *provider.Provider {
	return &provider.Provider{
		DB: f.DB, Ring: f.ring, Now: f.Clock.Now, Issuer: f.URL, Clients: f.Clients.Store, Keys: f.Keys,
		Log:    slog.New(slog.DiscardHandler),
		Egress: send.Egress{Loopback: true}.Transport(),
		Passwords: password.Policy{
			Compare: func(hash, password string) bool {
				f.Checked.Add(1)
				return account.CheckPassword(hash, password)
			},
			Derive: cheapHash, Problem: account.PasswordProblem, MinLength: account.MinPassword,
		},
		Accounts: f.Accounts, Upstreams: f.upstreams(),
		APIKeys: &apikey.Store{DB: f.DB, Now: f.Clock.Now, Audit: f.Audit, Accounts: f.Accounts},
		Tokens:  &registration.Store{DB: f.DB, Now: f.Clock.Now, Audit: f.Audit},
		Note:    f.Calls.note,
		Issued:  func(grantType string) { f.Calls.add("issued " + grantType) },
		Refused: func(grantType, code string) { f.Calls.add("refused " + grantType + " " + code) },
	}
}

// Serve opens a provider and puts it in the old one's place, as if the process had restarted.
func (f *Fixture) Serve(p *provider.Provider) {
	f.T.Helper()
	Must(f.T, p.Open(f.T.Context()))
	mux := http.NewServeMux()
	p.Mount(mux.Handle)
	f.Provider = p
	f.Accounts.FactorsGone = []func(*db.Tx, string) error{p.ClearFactors}
	f.Accounts.SignInsGone = []func(*db.Tx, string) error{p.RemoveSignIns}
	f.mux.Store(mux)
}

// UseLocalhost moves the provider to the host name localhost, where browsers allow passkeys.
func (f *Fixture) UseLocalhost() {
	f.T.Helper()
	f.URL = strings.Replace(f.URL, "127.0.0.1", "localhost", 1)
	f.Serve(f.NewProvider())
}

// Issuer returns a token issuer like the provider's.
func (f *Fixture) Issuer() *jwt.Issuer {
	return jwt.NewIssuer(f.URL, f.Clock.Now, f.Keys)
}

// SetupToken returns the current setup link's token.
func (f *Fixture) SetupToken() string {
	f.T.Helper()
	link, err := (&account.Setup{Store: f.Accounts, Ring: f.ring}).Link(f.T.Context(), f.URL)
	Must(f.T, err)
	_, token, _ := strings.Cut(link.Link, "#")
	return token
}

// Must fails a test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewUser creates a user in another organization.
func (f *Fixture) NewUser(email, password string) (userID string) {
	f.T.Helper()
	return f.NewOwner(email, password).UserID
}

// NewOwner creates another organization with its owner.
func (f *Fixture) NewOwner(email, password string) (first account.First) {
	f.T.Helper()
	Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) (err error) {
		first, err = bootstrap(f.Accounts, tx, email, password)
		return err
	}))
	return first
}

// bootstrap creates an organization whose owner has a password with a cheap hash.
func bootstrap(accounts *account.Store, tx *db.Tx, email, password string) (account.First, error) {
	first, err := accounts.Bootstrap(tx, email, "")
	if err != nil {
		return first, err
	}
	_, err = tx.Exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, first.UserID, cheapHash(password))
	return first, err
}

// cheapHash returns a hash like package account's, with parameters that make it a thousand times cheaper:
// most tests check passwords, and few care about the cost.
func cheapHash(password string) string {
	salt := make([]byte, 16)
	rand.Read(salt)
	key := argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, encode(salt), encode(key))
}

// Userinfo presents an access token to the userinfo endpoint.
func (f *Fixture) Userinfo(token string) *Response {
	f.T.Helper()
	return f.Browser().Do("GET", f.URL+"/userinfo", nil, "Authorization", "Bearer "+token)
}
