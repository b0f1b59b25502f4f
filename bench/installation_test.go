//go:build bench

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/e2e/process"
	"steward/internal/db"
)

// installation is a running Steward and what loads need to know about it.
type installation struct {
	*process.Steward
	server
	t     *testing.T
	orgID string
}

// install starts a fresh installation of this tree. BENCH_PPROF names an address at which profiles can
// be read during a load, such as 127.0.0.1:9464.
func install(t *testing.T, database string) *installation {
	t.Helper()
	s := process.New(t, database)
	if address := os.Getenv("BENCH_PPROF"); address != "" {
		s.Args = []string{"--metrics-listen", address}
	}
	return begin(t, s)
}

// begin starts an installation.
func begin(t *testing.T, s *process.Steward) *installation {
	t.Helper()
	in := &installation{Steward: s, t: t}
	in.start()
	var orgs []struct{ ID string }
	in.call("GET", "/cli/organization", nil, &orgs)
	in.orgID = orgs[0].ID
	return in
}

func (in *installation) start() {
	in.t.Helper()
	in.Start()
	in.server = server{address: strings.TrimPrefix(in.URL, "http://"), pid: in.Cmd.Process.Pid}
}

// replica starts a second process on the same PostgreSQL database.
func (in *installation) replica() *installation {
	in.t.Helper()
	r := &installation{Steward: in.Replica(), t: in.t, orgID: in.orgID}
	r.start()
	return r
}

// replicas returns the processes that a test kills in turn: one on SQLite, two on PostgreSQL.
func (in *installation) replicas() []*installation {
	in.t.Helper()
	if in.Database == "" {
		return []*installation{in}
	}
	return []*installation{in, in.replica()}
}

// restart runs a function between a stop and a start, while no process uses the database.
func (in *installation) restart(meanwhile func()) {
	in.t.Helper()
	in.Stop()
	meanwhile()
	in.start()
}

// pause stops the process until resume, and waits for what it has started in the database.
func (in *installation) pause() {
	in.Must(in.Cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(50 * time.Millisecond)
}

func (in *installation) resume() { in.Must(in.Cmd.Process.Signal(syscall.SIGCONT)) }

// call sends a request, decodes the response into a value, if there is one, and returns its header.
func (in *installation) call(method, path string, body, into any) http.Header {
	in.t.Helper()
	text, err := json.Marshal(body)
	in.Must(err)
	req, err := http.NewRequest(method, in.URL+path, bytes.NewReader(text))
	in.Must(err)
	req.Header.Set("Authorization", "Bearer "+in.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	in.Must(err)
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		in.t.Fatalf("%s %s: %s", method, path, res.Status)
	}
	if into != nil {
		in.Must(json.NewDecoder(res.Body).Decode(into))
	}
	return res.Header
}

// hook is a webhook and the path of its ingest URL.
type hook struct{ id, path string }

// hook creates a webhook.
func (in *installation) hook() hook {
	in.t.Helper()
	var made struct{ ID, URL string }
	in.call("POST", "/webhook/create", map[string]any{"name": "bench"}, &made)
	u, err := url.Parse(made.URL)
	in.Must(err)
	return hook{made.ID, u.Path}
}

// destination creates a destination with the default settings, but for those that are given in pairs,
// and returns its id.
func (in *installation) destination(h hook, address string, settings ...any) string {
	in.t.Helper()
	var made struct{ ID string }
	config := map[string]any{"url": "http://" + address}
	for i := 0; i < len(settings); i += 2 {
		config[settings[i].(string)] = settings[i+1]
	}
	in.call("POST", "/webhook/destination-create/"+h.id, map[string]any{"type": "url", "config": config}, &made)
	return made.ID
}

// projectKey creates a project and a key that is confined to it.
func (in *installation) projectKey(projectID string) string {
	in.t.Helper()
	in.call("PUT", "/thread/first", map[string]any{"project_id": projectID}, new(any)) // registers the project
	var made struct{ Value string }
	in.call("POST", "/cli/apikey", map[string]any{
		"name": "bench", "projectId": projectID, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}, &made)
	return made.Value
}

// fill writes rows into the database while Steward is stopped. It calls insert with one range of
// numbers after the other, each in a transaction.
func (in *installation) fill(rows int, insert func(tx *db.Tx, from, to int) error) {
	in.t.Helper()
	const step = 100_000
	start := time.Now()
	in.restart(func() {
		d, err := db.Open(in.t.Context(), db.Options{URL: in.Database, Path: filepath.Join(in.Dir, "steward.db")})
		in.Must(err)
		for from := 0; from < rows; from += step {
			in.Must(d.Write(in.t.Context(), func(tx *db.Tx) error { return insert(tx, from, min(from+step, rows)) }))
		}
		in.Must(d.Close())
		in.analyze()
	})
	fmt.Printf("%s: %d rows were loaded in %.0f s\n", in.engine(), rows, time.Since(start).Seconds())
}

func (in *installation) engine() string {
	if in.Database != "" {
		return "postgres"
	}
	return "sqlite"
}

// analyze does on PostgreSQL what autovacuum would have done by the time that so many rows were
// written.
func (in *installation) analyze() {
	in.t.Helper()
	if in.Database == "" {
		return
	}
	conn, err := pgx.Connect(in.t.Context(), in.Database)
	in.Must(err)
	defer conn.Close(in.t.Context())
	_, err = conn.Exec(in.t.Context(), "VACUUM ANALYZE")
	in.Must(err)
}
