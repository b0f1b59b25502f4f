package installation

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"steward/e2e/process"
	"steward/internal/db/dbtest"
	"steward/internal/resource/rediskv/redistest"
)

// External is an installation with two regions: local, which is embedded, and far, whose databases are on
// a PostgreSQL server and whose stores are on a redis-server.
type External struct {
	*Steward
	Postgres *dbtest.Server
	Redis    *redistest.Server
}

// EachExternal runs a test on an installation with other servers, on each database.
func EachExternal(t *testing.T, test func(t *testing.T, s *External)) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) { test(t, StartExternal(t, database)) })
	}
}

// StartExternal starts an installation with other servers.
func StartExternal(t *testing.T, database string) *External {
	t.Helper()
	s := &External{Postgres: dbtest.NewServer(t), Redis: redistest.Start(t)}
	s.Steward = Prepare(t, database, "--config", RegionsFile(t, s.Postgres.URL, s.Redis.URL))
	s.Start()
	return s
}

// RegionsFile writes a configuration. It puts the Redis URL into a separate file.
func RegionsFile(t *testing.T, databases, stores string) string {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "redis-url")
	config := filepath.Join(dir, "steward.yaml")
	text := fmt.Sprintf("regions:\n- {region: local}\n- {region: far, description: Other servers, db: %q, kv_file: %q}\n", databases, secret)
	for path, content := range map[string]string{secret: stores + "\n", config: text} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// CreatedResource is a resource in the response to a creation.
type CreatedResource struct {
	Type, Name, Username, Password, URL, Engine string
	Env                                         map[string]string
}

// Create creates resources named after their types.
func (s *External) Create(region string, types ...string) map[string]CreatedResource {
	s.T.Helper()
	var wanted []map[string]any
	for _, kind := range types {
		wanted = append(wanted, map[string]any{"type": kind, "name": "the-" + kind})
	}
	var response struct{ Created []CreatedResource }
	s.Call("POST", s.Path(region), map[string]any{"resources": wanted}).Want(201).Decode(&response)
	created := map[string]CreatedResource{}
	for _, r := range response.Created {
		created[r.Type] = r
	}
	return created
}

// Path returns the path to a region's resources.
func (s *External) Path(region string) string { return "/resource/" + s.OrgID + "/" + region }

// Remove deletes the resources from Create.
func (s *External) Remove(region string, types ...string) *Response {
	s.T.Helper()
	var named []map[string]any
	for _, kind := range types {
		named = append(named, map[string]any{"type": kind, "name": "the-" + kind})
	}
	return s.Call("DELETE", s.Path(region), map[string]any{"resources": named})
}

// Run runs a client and returns its output.
func (s *External) Run(name string, args ...string) string {
	s.T.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("%s: %v: %s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// DialPostgres connects with pgx, until the test ends.
func (s *External) DialPostgres(address string) *pgx.Conn {
	s.T.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	s.Must(err)
	s.T.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// DialRedis returns a client with one connection. It does not retry.
func (s *External) DialRedis(address string) *redis.Client {
	s.T.Helper()
	o, err := redis.ParseURL(address)
	s.Must(err)
	o.MaxRetries = -1
	o.DialTimeout = RequestTimeout
	o.ReadTimeout = RequestTimeout
	o.WriteTimeout = RequestTimeout
	c := redis.NewClient(o)
	s.T.Cleanup(func() { _ = c.Close() })
	return c
}

// WantRefused fails the test if credentials are accepted.
func (s *External) WantRefused(db, kv CreatedResource) {
	s.T.Helper()
	if conn, err := pgx.Connect(context.Background(), db.URL); err == nil {
		_ = conn.Close(context.Background())
		s.T.Error("PostgreSQL accepts credentials that should be dead")
	}
	if err := s.DialRedis(kv.URL).Ping(context.Background()).Err(); err == nil {
		s.T.Error("Redis accepts credentials that should be dead")
	}
}

// WithPassword returns a URL with another password.
func WithPassword(t *testing.T, address, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
