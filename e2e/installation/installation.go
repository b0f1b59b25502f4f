// Package installation starts real installations for end-to-end tests, and uses them as clients do.
//
// Each runs a test on a fresh installation on SQLite and on PostgreSQL. Steward.Call sends a request as a
// user would; Kill, Stop and Start end the process and start it on the same data. There are clients for
// webhooks, buckets, databases, key-value stores and relying parties, and a browser without JavaScript.
// For one with JavaScript, see package chromium.
package installation

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/app/datadir"
	"steward/internal/db"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/keys/keystest"
	"steward/internal/seal"
)

// RequestTimeout bounds a single request. It is long, so that only a test that hangs reaches it.
const RequestTimeout = 5 * time.Minute

// Client sends the tests' requests.
var Client = &http.Client{Timeout: RequestTimeout}

// Steward is an installation, the process that serves it, and a key to use it with.
type Steward struct {
	*process.Steward
	T     testing.TB // the test, or the subtest that uses the installation
	Key   string     // authorizes requests: the root key, unless changed by As
	OrgID string     // the organization that the key belongs to
}

// Each runs a test on a fresh installation on each database.
func Each(t *testing.T, test func(t *testing.T, s *Steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, Start(t, name)) })
	}
}

// Start starts a fresh installation. It adds args to `steward serve`.
func Start(t testing.TB, database string, args ...string) *Steward {
	s := Prepare(t, database, args...)
	s.writeSigningKeys()
	s.Start()
	return s
}

// writeSigningKeys makes a new installation one that has signed in users before, since to generate its RSA
// keys would take more CPU time than most tests.
func (s *Steward) writeSigningKeys() {
	s.T.Helper()
	key := seal.NewKey()
	s.Must(seal.WriteKeyFile(s.Dir, key))
	ring, err := seal.NewRing(key)
	s.Must(err)
	s.WriteSchema()
	s.openDatabase(func(ctx context.Context, d *db.DB) {
		store := &keys.Store{DB: d, Ring: ring, Now: time.Now, NewRSA: keystest.NewRSA()}
		s.Must(store.EnsureFirst(ctx))
	})
}

// Prepare returns an installation that has not started yet, so that you can set s.Env.
func Prepare(t testing.TB, database string, args ...string) *Steward {
	p := process.New(t, database, args...)
	return &Steward{Steward: p, T: t, Key: p.Key}
}

// Replica starts a second process on the same PostgreSQL database.
func (s *Steward) Replica() *Steward {
	r := &Steward{Steward: s.Steward.Replica(), T: s.T, Key: s.Key}
	r.Start()
	return r
}

// Start starts the process, or starts it again, and reads the organization's id.
func (s *Steward) Start() {
	s.T.Helper()
	s.Steward.Start()
	s.ReadOrganization()
}

// ReadOrganization reads the id of the key's organization.
func (s *Steward) ReadOrganization() {
	s.T.Helper()
	var profile struct{ Organizations []struct{ ID string } }
	s.Call("GET", "/cli/auth/user", nil).Want(200).Decode(&profile)
	s.OrgID = profile.Organizations[0].ID
}

// As returns the same installation, used with another key.
func (s *Steward) As(key string) *Steward {
	other := *s
	other.Key = key
	return &other
}

// In returns the same installation, used in a subtest.
func (s *Steward) In(t testing.TB) *Steward {
	other := *s
	other.T = t
	return &other
}

// KeyOf returns the installation with a new key. Unless project is "", the key is confined to that
// project.
func (s *Steward) KeyOf(project string) *Steward {
	s.T.Helper()
	body := map[string]any{"name": "key of " + project}
	if project != "" {
		body["projectId"] = project
	}
	return s.As(s.Call("POST", "/cli/apikey", body).Want(201).Text("value"))
}

// Offline stops the process, calls do with the installation's database, and starts the process again. A
// SQLite file can be open in one process only.
func (s *Steward) Offline(do func(ctx context.Context, d *db.DB)) {
	s.T.Helper()
	s.Stop()
	s.openDatabase(do)
	s.Start()
}

// openDatabase calls do with the database of an installation that is not running.
func (s *Steward) openDatabase(do func(ctx context.Context, d *db.DB)) {
	s.T.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(s.Dir, "steward.db"), URL: s.Database})
	s.Must(err)
	do(ctx, d)
	s.Must(d.Close())
}

// AgeSignIns moves every sign-in, and the codes used for it, an hour into the past.
func (s *Steward) AgeSignIns() {
	s.T.Helper()
	s.Offline(func(ctx context.Context, d *db.DB) {
		_, err := d.Exec(ctx, `UPDATE oidc_sessions SET auth_time = auth_time - 3600000000`)
		s.Must(err)
		_, err = d.Exec(ctx, `UPDATE oidc_authenticators SET last_step = last_step - 120`)
		s.Must(err)
	})
}

// SecondOrganization creates another organization, and returns the installation with its id and its root
// key.
func (s *Steward) SecondOrganization() *Steward {
	s.T.Helper()
	return s.Organization("Second organization")
}

// Organization creates another organization with this name while the process runs.
func (s *Steward) Organization(name string) *Steward {
	s.T.Helper()
	other := s.As(s.Steward.Organization(name))
	other.ReadOrganization()
	return other
}

// Addresses reads steward.json.
func (s *Steward) Addresses() (a datadir.Addresses) {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "steward.json"))
	s.Must(err)
	s.Must(json.Unmarshal(text, &a))
	return a
}

// BalancedReplica starts a replica with the first one's base URL, as behind a load balancer. Its URL
// leads to its own listener.
func (s *Steward) BalancedReplica() *Steward {
	s.T.Helper()
	r := &Steward{Steward: s.Steward.Replica(), T: s.T, Key: s.Key}
	r.Args = []string{"--base-url", s.URL}
	r.Start()
	r.URL = "http://" + r.Addresses().Listen["api"]
	if r.URL == s.URL {
		s.T.Fatal("the replica has no address of its own")
	}
	return r
}
