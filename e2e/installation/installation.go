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
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/app/datadir"
	"steward/internal/db"
	"steward/internal/mail/mailtest"
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

// Status is the response from GET /status.
type Status struct {
	Version  string
	Replicas int
	Database struct {
		Engine string
		OK     bool
	}
	Regions []struct {
		Region  string
		Engines map[string]struct {
			Engine, Error string
			OK            bool
		}
	}
	Webhooks struct {
		Pending     int
		OldestDueAt *string `json:"oldest_due_at"`
		Failing     []struct {
			WebhookID     string `json:"webhook_id"`
			DestinationID string `json:"destination_id"`
			Host          string
			Count         int
			LastError     string `json:"last_error"`
		}
	}
}

// Status returns the installation's status.
func (s *Steward) Status() (got Status) {
	s.T.Helper()
	s.Call("GET", "/status", nil).Want(200).Decode(&got)
	return got
}

// StartWithMail starts an installation with an owner and a mail server.
func StartWithMail(t *testing.T, database string, flags ...string) (*Steward, *mailtest.Server) {
	t.Helper()
	mail := mailtest.Prepare(t)
	mail.User = "steward"
	mail.Password = "p@ss"
	mail.Start()
	s := Prepare(t, database, append(flags, "--mail-from", "Steward <steward@example.com>")...)
	s.Env = []string{
		"STEWARD_ADMIN_EMAIL=" + AdminEmail, "STEWARD_ADMIN_PASSWORD=" + AdminPassword,
		"STEWARD_SMTP_URL=smtp://steward:p%40ss@" + mail.Address,
	}
	s.Start()
	return s, mail
}

// RunDoctor runs `steward doctor` on the installation and returns its output and its exit code.
func (s *Steward) RunDoctor(args ...string) (out string, code int) {
	s.T.Helper()
	cmd := s.Command(append([]string{"doctor"}, args...)...)
	text, err := cmd.CombinedOutput()
	code, err = ExitCode(err)
	s.Must(err)
	return string(text), code
}

// WantChecks requires checks with a status and a detail, such as "database ok .*schema".
func WantChecks(t *testing.T, out string, checks ...string) {
	t.Helper()
	for _, check := range checks {
		pattern := "(?m)^" + strings.ReplaceAll(check, "  ", " +")
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("no line matches %s in\n%s", pattern, out)
		}
	}
}

// ExitCode returns a command's exit code, given the error from running it. It returns an error if the
// command could not run.
func ExitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
