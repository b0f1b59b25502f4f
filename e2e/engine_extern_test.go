package e2e

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

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db/dbtest"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// external is an installation with the region local, which is embedded, and the region far, whose
// databases are on a PostgreSQL server and whose stores are on a redis-server.
type external struct {
	*installation.Steward
	postgres *dbtest.Server
	redis    *redistest.Server
}

// eachExternal runs a test on an installation with other servers, on each database.
func eachExternal(t *testing.T, test func(t *testing.T, s *external)) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := &external{postgres: dbtest.NewServer(t), redis: redistest.Start(t)}
			s.Steward = installation.Prepare(t, database, "--config", regionsFile(t, s.postgres.URL, s.redis.URL))
			s.Start()
			test(t, s)
		})
	}
}

// regionsFile writes a configuration. The URL of Redis is in a file of its own.
func regionsFile(t *testing.T, databases, stores string) string {
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

// createdResource is a resource in the response to a creation.
type createdResource struct {
	Type, Name, Username, Password, URL, Engine string
	Env                                         map[string]string
}

// create creates resources named after their types.
func (s *external) create(region string, types ...string) map[string]createdResource {
	s.T.Helper()
	var wanted []object
	for _, kind := range types {
		wanted = append(wanted, object{"type": kind, "name": "the-" + kind})
	}
	var response struct{ Created []createdResource }
	s.Call("POST", s.path(region), object{"resources": wanted}).Want(201).Decode(&response)
	created := map[string]createdResource{}
	for _, r := range response.Created {
		created[r.Type] = r
	}
	return created
}

func (s *external) path(region string) string { return "/resource/" + s.OrgID + "/" + region }

// remove deletes what create has created.
func (s *external) remove(region string, types ...string) *installation.Response {
	s.T.Helper()
	var named []object
	for _, kind := range types {
		named = append(named, object{"type": kind, "name": "the-" + kind})
	}
	return s.Call("DELETE", s.path(region), object{"resources": named})
}

// run runs a client and returns what it prints.
func (s *external) run(name string, args ...string) string {
	s.T.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("%s: %v: %s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// dialPostgres connects with pgx, until the test ends.
func (s *external) dialPostgres(address string) *pgx.Conn {
	s.T.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	s.Must(err)
	s.T.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// dialRedis returns a client with one connection that is not repeated.
func (s *external) dialRedis(address string) *redis.Client {
	s.T.Helper()
	o, err := redis.ParseURL(address)
	s.Must(err)
	o.MaxRetries = -1
	o.DialTimeout = installation.RequestTimeout
	o.ReadTimeout = installation.RequestTimeout
	o.WriteTimeout = installation.RequestTimeout
	c := redis.NewClient(o)
	s.T.Cleanup(func() { _ = c.Close() })
	return c
}

func TestResourcesOnOtherServersWorkAtOnce(t *testing.T) {
	t.Parallel()
	eachExternal(t, func(t *testing.T, s *external) {
		ctx := t.Context()
		made := s.create("far", "db", "s3", "kv")
		db := made["db"]
		kv := made["kv"]
		if db.Engine != "postgres" || kv.Engine != "redis" || db.URL != db.Env["DATABASE_URL"] || kv.URL != kv.Env["REDIS_URL"] {
			t.Errorf("created %+v and %+v", db, kv)
		}

		conn := s.dialPostgres(db.Env["DATABASE_URL"])
		_, err := conn.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY)")
		s.Must(err)
		if out := s.run("psql", db.Env["DATABASE_URL"], "-AtXc", "INSERT INTO t VALUES (41), (1)", "-c", "SELECT sum(a) FROM t"); !strings.HasSuffix(out, "42") {
			t.Errorf("psql: %s", out)
		}

		key := kv.Env["REDIS_KEY_PREFIX"] + "a"
		client := s.dialRedis(kv.Env["REDIS_URL"])
		s.Must(client.Set(ctx, key, "1", 0).Err())
		if out := s.run("redis-cli", "--no-auth-warning", "-u", kv.Env["REDIS_URL"], "INCR", key); out != "2" {
			t.Errorf("redis-cli: %s", out)
		}
		if err := client.Get(ctx, "a").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("a key without the prefix: %v", err)
		}

		s.Call("GET", s.path("far")+"/the-db/tables", nil).Want(200)
		rows := s.Call("POST", s.path("far")+"/the-db/query", object{"query": "SELECT a FROM t WHERE a > $1", "args": []any{2}}).Want(200)
		if got := string(rows.Body); !strings.Contains(got, "[[41]]") {
			t.Errorf("query: %s", got)
		}
		if got := string(s.Call("GET", s.path("far")+"/the-kv/keys", nil).Want(200).Body); !strings.Contains(got, key) {
			t.Errorf("keys: %s", got)
		}

		s.remove("far", "db", "s3", "kv").Want(204)
		s.refused(db, kv)
		if err := conn.Ping(ctx); err == nil {
			t.Error("a connection to the deleted database still works")
		}
		if err := client.Get(ctx, key).Err(); err == nil {
			t.Error("a connection to the deleted store still works")
		}
		admin := s.dialRedis(s.redis.URL)
		if n, err := admin.DBSize(ctx).Result(); err != nil || n != 0 {
			t.Errorf("%d keys are left: %v", n, err)
		}
	})
}

// refused fails the test if credentials are accepted.
func (s *external) refused(db, kv createdResource) {
	s.T.Helper()
	if conn, err := pgx.Connect(context.Background(), db.URL); err == nil {
		_ = conn.Close(context.Background())
		s.T.Error("PostgreSQL accepts credentials that should be dead")
	}
	if err := s.dialRedis(kv.URL).Ping(context.Background()).Err(); err == nil {
		s.T.Error("Redis accepts credentials that should be dead")
	}
}

func TestRotationOnOtherServers(t *testing.T) {
	t.Parallel()
	eachExternal(t, func(t *testing.T, s *external) {
		made := s.create("far", "db", "kv")
		conn := s.dialPostgres(made["db"].URL)
		client := s.dialRedis(made["kv"].URL)
		s.Must(client.Ping(t.Context()).Err())
		newDB := s.Call("POST", s.path("far")+"/the-db/rotate", nil).Want(200).Text("url")
		newKV := s.Call("POST", s.path("far")+"/the-kv/rotate", nil).Want(200).Text("url")
		s.refused(made["db"], made["kv"])
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a connection with the old password still works")
		}
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Error("a connection with the old password still works")
		}
		s.Must(s.dialPostgres(newDB).Ping(t.Context()))
		s.Must(s.dialRedis(newKV).Ping(t.Context()).Err())
	})
}

func TestServerThatIsDownConcernsItsResourcesOnly(t *testing.T) {
	t.Parallel()
	eachExternal(t, func(t *testing.T, s *external) {
		s.create("far", "db", "kv")
		s.postgres.Stop()
		if code := s.Call("POST", s.path("far"), object{"resources": []object{{"type": "kv"}, {"type": "db"}}}).Want(503).Code(); code != "unavailable" {
			t.Errorf("code %s", code)
		}
		s.remove("far", "kv", "db").Want(503)
		s.Call("POST", s.path("far")+"/the-db/query", object{"query": "SELECT 1"}).Want(503)
		s.Call("POST", s.path("far")+"/the-db/rotate", nil).Want(503)
		s.Call("GET", s.path("far"), nil).Want(200)
		s.Call("GET", s.path("far")+"/the-kv/keys", nil).Want(200)
		s.create("local", "db", "kv", "s3")
		s.remove("local", "db", "kv", "s3").Want(204)

		waittest.True(t, "the status to tell which engine is down", func() bool {
			for _, r := range getStatus(s.Steward).Regions {
				down := r.Region == "far"
				if r.Engines["db"].OK == down || down != (r.Engines["db"].Error != "") || !r.Engines["kv"].OK {
					return false
				}
			}
			return true
		})

		s.redis.Stop()
		s.Call("GET", s.path("far")+"/the-kv/keys", nil).Want(503)
		s.Stop()
		s.Start() // a server that cannot be reached does not stop the start
		s.Call("GET", s.path("far")+"/the-kv/keys", nil).Want(503)

		s.postgres.Start()
		s.redis.Restart()
		waittest.True(t, "the engines to be used again", func() bool { return s.remove("far", "kv", "db").Status == 204 })
		s.create("far", "db", "kv")
	})
}

// TestForgottenUsersComeBack restarts a Redis without an ACL file, which forgets its users.
func TestForgottenUsersComeBack(t *testing.T) {
	t.Parallel()
	eachExternal(t, func(t *testing.T, s *external) {
		kv := s.create("far", "kv")["kv"]
		s.redis.Restart()
		client := s.dialRedis(kv.URL)
		waittest.True(t, "the user to be created again", func() bool { return client.Ping(t.Context()).Err() == nil })
	})
}

func TestRefusingServerStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			pg := dbtest.NewServer(t).URL
			kv := redistest.Start(t).URL
			for name, config := range map[string]string{
				"db": regionsFile(t, withPassword(t, pg, "wrong-secret"), kv),
				"kv": regionsFile(t, pg, withPassword(t, kv, "wrong-secret")),
			} {
				s := installation.Prepare(t, database)
				cmd := s.Serve("--config", config)
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "far") || !strings.Contains(string(out), name) || strings.Contains(string(out), "wrong-secret") {
					t.Errorf("%s: %v: %s", name, err, out)
				}
			}
		})
	}
}

// withPassword returns a URL with another password.
func withPassword(t *testing.T, address, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
