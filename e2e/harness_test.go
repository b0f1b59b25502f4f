// Package e2e starts the real binary on free ports, on both databases, and uses it through real clients.
//
// A test asks for each(t, …), which gives it a fresh installation on SQLite and one on PostgreSQL; s.call speaks to the API as a user
// would, s.kill and s.run take the process down and up again on the same data.
package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// requestTimeout bounds one request of a test. It is long enough for a busy machine, and ends a test that hangs.
const requestTimeout = 5 * time.Minute

// client sends the requests of the tests.
var client = &http.Client{Timeout: requestTimeout}

// steward is one installation with the process that serves it, and a key to use it with.
type steward struct {
	*process.Steward
	t     testing.TB
	key   string // the root key, unless as gave another
	orgID string
}

// each runs a test on a fresh installation on either database.
func each(t *testing.T, test func(t *testing.T, s *steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) { test(t, begin(t, name)) })
	}
}

// begin makes a fresh installation and starts it. Further arguments go to `steward serve`.
func begin(t testing.TB, database string, args ...string) *steward {
	s := prepare(t, database, args...)
	s.run()
	return s
}

// prepare makes an installation that is not started yet; s.Env may be set before s.run.
func prepare(t testing.TB, database string, args ...string) *steward {
	p := process.New(t, database, args...)
	return &steward{Steward: p, t: t, key: p.Key}
}

// replica starts a second process on the same PostgreSQL database.
func (s *steward) replica() *steward {
	r := &steward{Steward: s.Replica(), t: s.t, key: s.key}
	r.run()
	return r
}

// run starts the process (again) and learns the organization's id.
func (s *steward) run() {
	s.t.Helper()
	s.Start()
	var profile struct{ Organizations []struct{ ID string } }
	s.call("GET", "/cli/auth/user", nil).want(200).into(&profile)
	s.orgID = profile.Organizations[0].ID
}

func (s *steward) kill()          { s.Kill() }
func (s *steward) stop()          { s.t.Helper(); s.Stop() }
func (s *steward) must(err error) { s.t.Helper(); s.Must(err) }

// as gives the same installation, used with another key.
func (s *steward) as(key string) *steward {
	other := *s
	other.key = key
	return &other
}

// answer is what came back.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   []byte
}

// call sends a request with the installation's key and a JSON body, unless that is nil. Headers come in pairs.
func (s *steward) call(method, path string, body any, headers ...string) *answer {
	s.t.Helper()
	a, err := s.try(method, path, body, headers...)
	s.must(err)
	return a
}

// try is call for requests that may fail to be answered, as when the process is killed.
func (s *steward) try(method, path string, body any, headers ...string) (*answer, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		s.must(err)
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, s.URL+path, content)
	s.must(err)
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return &answer{t: s.t, what: method + " " + path, status: res.StatusCode, header: res.Header, body: text}, err
}

// want fails unless the answer has that status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// into reads the body as JSON.
func (a *answer) into(v any) *answer {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%s: %v: %s", a.what, err, a.body)
	}
	return a
}

// code gives the code of an error.
func (a *answer) code() string {
	a.t.Helper()
	var p struct{ Code string }
	a.into(&p)
	return p.Code
}

// get reads a value out of the body by its path, such as "client.id".
func (a *answer) get(path string) any {
	a.t.Helper()
	var value any
	a.into(&value)
	for _, key := range strings.Split(path, ".") {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

// text is get for a string that must be there.
func (a *answer) text(path string) string {
	a.t.Helper()
	s, ok := a.get(path).(string)
	if !ok {
		a.t.Fatalf("%s: no text at %s: %s", a.what, path, a.body)
	}
	return s
}

// within waits for something that is promised within a time. A slow machine is not mistaken for a
// broken promise: the test fails when the time has passed and another 200 checks, each of which asks
// the process, have been made since.
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
