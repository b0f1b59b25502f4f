// Package e2e runs the real binary on free ports, on both databases, and uses it through real
// clients.
//
// each runs a test on a fresh installation on SQLite and on PostgreSQL. steward.call sends a request
// as a user would; steward.kill, stop and start end the process and start it on the same data. Waits
// end by success, or when nothing has moved for a minute (package waittest).
package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// requestTimeout bounds a single request. It is long, so that only a test that hangs reaches it.
const requestTimeout = 5 * time.Minute

// client sends the requests of the tests.
var client = &http.Client{Timeout: requestTimeout}

type object = map[string]any

// steward is an installation, the process that serves it, and a key to use it with.
type steward struct {
	*process.Steward
	t     testing.TB
	key   string // the root key, unless changed by as
	orgID string
}

// each runs a test on a fresh installation on each database.
func each(t *testing.T, test func(t *testing.T, s *steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, start(t, name)) })
	}
}

// start starts a fresh installation. The arguments are added to those of `steward serve`.
func start(t testing.TB, database string, args ...string) *steward {
	s := prepare(t, database, args...)
	s.start()
	return s
}

// prepare returns an installation that is not started yet, so that s.Env can be set.
func prepare(t testing.TB, database string, args ...string) *steward {
	p := process.New(t, database, args...)
	return &steward{Steward: p, t: t, key: p.Key}
}

// replica starts a second process on the same PostgreSQL database.
func (s *steward) replica() *steward {
	r := &steward{Steward: s.Replica(), t: s.t, key: s.key}
	r.start()
	return r
}

// start starts the process, also again, and reads the organization's id.
func (s *steward) start() {
	s.t.Helper()
	s.Start()
	s.readOrganization()
}

// readOrganization reads the id of the organization that the key belongs to.
func (s *steward) readOrganization() {
	s.t.Helper()
	var profile struct{ Organizations []struct{ ID string } }
	s.call("GET", "/cli/auth/user", nil).want(200).decode(&profile)
	s.orgID = profile.Organizations[0].ID
}

func (s *steward) kill()          { s.Kill() }
func (s *steward) stop()          { s.t.Helper(); s.Stop() }
func (s *steward) must(err error) { s.t.Helper(); s.Must(err) }

// as returns the same installation, used with another key.
func (s *steward) as(key string) *steward {
	other := *s
	other.key = key
	return &other
}

// keyOf returns the installation with a new key, which is confined to a project unless that is "".
func (s *steward) keyOf(project string) *steward {
	s.t.Helper()
	body := object{"name": "key of " + project}
	if project != "" {
		body["projectId"] = project
	}
	return s.as(s.call("POST", "/cli/apikey", body).want(201).text("value"))
}

// offline calls a function with the installation's database while the process is stopped, since a
// SQLite file is open in one process only.
func (s *steward) offline(do func(ctx context.Context, d *db.DB)) {
	s.t.Helper()
	s.stop()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(s.Dir, "steward.db"), URL: s.Database})
	s.must(err)
	do(ctx, d)
	s.must(d.Close())
	s.start()
}

// secondOrganization creates another organization, and returns the installation with its id and its
// root key.
func (s *steward) secondOrganization() *steward {
	s.t.Helper()
	return s.organization("Second organization")
}

// organization creates another organization of this name while the process runs.
func (s *steward) organization(name string) *steward {
	s.t.Helper()
	other := s.as(s.Organization(name))
	other.readOrganization()
	return other
}

// within waits for something that is promised within a time. It does not mistake a slow machine for
// a broken promise: it fails when the time has passed and 200 more checks, each of which sends a
// request to the process, have been made since.
func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	start := time.Now()
	late := 0
	waittest.Until(t, what, func() (checks int, done bool) {
		if holds() {
			return late, true
		}
		if time.Since(start) > limit {
			late++
		}
		if late > 200 {
			t.Fatalf("waiting for %s: not within %v", what, limit)
		}
		return late, false
	})
}
