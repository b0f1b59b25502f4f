// Package providertest makes a provider for testing the provider's packages: on a real database, behind
// a real HTTP server, with an organization and its owner, and with browsers and applications that use
// it.
package providertest

import (
	"context"
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
	"steward/internal/oidc/keys/keystest"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/seal"
	"steward/internal/web"
	"steward/internal/webhook/send"
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

	// Observed records the token endpoint's responses.
	Observed Recorder
	// Checked counts password checks.
	Checked atomic.Int64

	stores *provider.Stores
	mux    atomic.Pointer[http.ServeMux] // Provider's
}

// Recorder records what an observer is told.
type Recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *Recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// Take returns what was recorded since the last Take.
func (r *Recorder) Take() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines, r.lines = r.lines, nil
	return lines
}

// Activity returns the accesses of a client and its users so far.
func (f *Fixture) Activity(clientID string) (total int64, users []string) {
	f.T.Helper()
	ctx := f.T.Context()
	Must(f.T, f.stores.Activity.Flush(ctx))
	Must(f.T, f.DB.Read(ctx).Row(`SELECT coalesce(sum(total), 0) FROM oidc_client_days WHERE client_id = $1`, clientID).Scan(&total))
	users, err := db.Collect(f.DB.Read(ctx), db.Value[string],
		`SELECT DISTINCT user_id FROM oidc_client_day_users WHERE client_id = $1 ORDER BY user_id`, clientID)
	Must(f.T, err)
	return total, users
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
	lines := &audit.Store{DB: d, Now: c.Now}
	accounts := &account.Store{DB: d, Now: c.Now, Audit: lines}
	stores := provider.NewStores(accounts, ring, slog.New(slog.DiscardHandler), map[string]string{})
	stores.Keys.NewRSA = keystest.NewRSA()
	f := &Fixture{
		T: t, DB: d, stores: stores, Clock: c, Accounts: accounts, Audit: lines, Keys: stores.Keys,
		Clients: &oidc.Handler{Store: stores.Clients, Keys: stores.Keys},
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
	proxies := web.Proxies{netip.MustParsePrefix("127.0.0.0/8")} // lets browsers have other addresses
	srv.Config.Handler = web.Behind(proxies, web.Observe(slog.New(slog.DiscardHandler), nil, handler))
	srv.Start()
	t.Cleanup(srv.Close)
	return f
}

// NewProvider returns a provider on the fixture's stores. A test may change its settings before it
// calls Serve.
func (f *Fixture) NewProvider() *provider.Provider {
	p := provider.New(f.stores, f.URL)
	p.APIKeys = &apikey.Store{DB: f.DB, Now: f.Clock.Now, Audit: f.Audit, Accounts: f.Accounts}
	p.Egress = send.Egress{Loopback: true}.Transport()
	p.Passwords.Compare = func(hash, password string) bool {
		f.Checked.Add(1)
		return account.CheckPassword(hash, password)
	}
	p.Passwords.Cost = cheap
	p.Observer.Issued = func(grantType string) { f.Observed.add("issued " + grantType) }
	p.Observer.Refused = func(grantType, code string) { f.Observed.add("refused " + grantType + " " + code) }
	return p
}

// Serve opens a provider in place of the previous one, as if the process had restarted.
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

// UseLocalhost moves the provider to the host name localhost, where browsers use passkeys.
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
	link, err := (&account.Setup{Store: f.Accounts, Ring: f.stores.Ring}).Link(f.T.Context(), f.URL)
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
	_, err = tx.Exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, first.UserID, cheap.Hash(password))
	return first, err
}

// cheap makes hashing a password a thousand times cheaper: most tests check passwords, and few test the
// cost.
var cheap = account.PasswordCost{Memory: 8, Passes: 1}

// Userinfo presents an access token to the userinfo endpoint.
func (f *Fixture) Userinfo(token string) *Response {
	f.T.Helper()
	return f.Browser().Do("GET", f.URL+"/userinfo", nil, "Authorization", "Bearer "+token)
}
