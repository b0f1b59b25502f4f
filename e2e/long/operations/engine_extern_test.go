package operations

import (
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db/dbtest"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

func TestResourcesOnOtherServersWorkAtOnce(t *testing.T) {
	t.Parallel()
	installation.EachExternal(t, func(t *testing.T, s *installation.External) {
		ctx := t.Context()
		made := s.Create("far", "db", "s3", "kv")
		db := made["db"]
		kv := made["kv"]
		if db.Engine != "postgres" || kv.Engine != "redis" || db.URL != db.Env["DATABASE_URL"] || kv.URL != kv.Env["REDIS_URL"] {
			t.Errorf("created %+v and %+v", db, kv)
		}

		conn := s.DialPostgres(db.Env["DATABASE_URL"])
		_, err := conn.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY)")
		s.Must(err)
		if out := s.Run("psql", db.Env["DATABASE_URL"], "-AtXc", "INSERT INTO t VALUES (41), (1)", "-c", "SELECT sum(a) FROM t"); !strings.HasSuffix(out, "42") {
			t.Errorf("psql: %s", out)
		}

		key := kv.Env["REDIS_KEY_PREFIX"] + "a"
		client := s.DialRedis(kv.Env["REDIS_URL"])
		s.Must(client.Set(ctx, key, "1", 0).Err())
		if out := s.Run("redis-cli", "--no-auth-warning", "-u", kv.Env["REDIS_URL"], "INCR", key); out != "2" {
			t.Errorf("redis-cli: %s", out)
		}
		if err := client.Get(ctx, "a").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("a key without the prefix: %v", err)
		}

		s.Call("GET", s.Path("far")+"/the-db/tables", nil).Want(200)
		rows := s.Call("POST", s.Path("far")+"/the-db/query", object{"query": "SELECT a FROM t WHERE a > $1", "args": []any{2}}).Want(200)
		if got := string(rows.Body); !strings.Contains(got, "[[41]]") {
			t.Errorf("query: %s", got)
		}
		if got := string(s.Call("GET", s.Path("far")+"/the-kv/keys", nil).Want(200).Body); !strings.Contains(got, key) {
			t.Errorf("keys: %s", got)
		}

		s.Remove("far", "db", "s3", "kv").Want(204)
		s.WantRefused(db, kv)
		if err := conn.Ping(ctx); err == nil {
			t.Error("a connection to the deleted database still works")
		}
		if err := client.Get(ctx, key).Err(); err == nil {
			t.Error("a connection to the deleted store still works")
		}
		admin := s.DialRedis(s.Redis.URL)
		if n, err := admin.DBSize(ctx).Result(); err != nil || n != 0 {
			t.Errorf("%d keys are left: %v", n, err)
		}
	})
}

func TestRotationOnOtherServers(t *testing.T) {
	t.Parallel()
	installation.EachExternal(t, func(t *testing.T, s *installation.External) {
		made := s.Create("far", "db", "kv")
		conn := s.DialPostgres(made["db"].URL)
		client := s.DialRedis(made["kv"].URL)
		s.Must(client.Ping(t.Context()).Err())
		newDB := s.Call("POST", s.Path("far")+"/the-db/rotate", nil).Want(200).Text("url")
		newKV := s.Call("POST", s.Path("far")+"/the-kv/rotate", nil).Want(200).Text("url")
		s.WantRefused(made["db"], made["kv"])
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a connection with the old password still works")
		}
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Error("a connection with the old password still works")
		}
		s.Must(s.DialPostgres(newDB).Ping(t.Context()))
		s.Must(s.DialRedis(newKV).Ping(t.Context()).Err())
	})
}

func TestServerThatIsDownConcernsItsResourcesOnly(t *testing.T) {
	t.Parallel()
	installation.EachExternal(t, func(t *testing.T, s *installation.External) {
		s.Create("far", "db", "kv")
		s.Postgres.Stop()
		if code := s.Call("POST", s.Path("far"), object{"resources": []object{{"type": "kv"}, {"type": "db"}}}).Want(503).Code(); code != "unavailable" {
			t.Errorf("code %s", code)
		}
		s.Remove("far", "kv", "db").Want(503)
		s.Call("POST", s.Path("far")+"/the-db/query", object{"query": "SELECT 1"}).Want(503)
		s.Call("POST", s.Path("far")+"/the-db/rotate", nil).Want(503)
		s.Call("GET", s.Path("far"), nil).Want(200)
		s.Call("GET", s.Path("far")+"/the-kv/keys", nil).Want(200)
		s.Create("local", "db", "kv", "s3")
		s.Remove("local", "db", "kv", "s3").Want(204)

		waittest.True(t, "the status to tell which engine is down", func() bool {
			for _, r := range s.Steward.Status().Regions {
				down := r.Region == "far"
				if r.Engines["db"].OK == down || down != (r.Engines["db"].Error != "") || !r.Engines["kv"].OK {
					return false
				}
			}
			return true
		})

		s.Redis.Stop()
		s.Call("GET", s.Path("far")+"/the-kv/keys", nil).Want(503)
		s.Stop()
		s.Start() // a server that cannot be reached does not stop the start
		s.Call("GET", s.Path("far")+"/the-kv/keys", nil).Want(503)

		s.Postgres.Start()
		s.Redis.Restart()
		waittest.True(t, "the engines to be used again", func() bool { return s.Remove("far", "kv", "db").Status == 204 })
		s.Create("far", "db", "kv")
	})
}

// TestForgottenUsersComeBack restarts a Redis without an ACL file, which forgets its users.
func TestForgottenUsersComeBack(t *testing.T) {
	t.Parallel()
	installation.EachExternal(t, func(t *testing.T, s *installation.External) {
		kv := s.Create("far", "kv")["kv"]
		s.Redis.Restart()
		client := s.DialRedis(kv.URL)
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
				"db": installation.RegionsFile(t, installation.WithPassword(t, pg, "wrong-secret"), kv),
				"kv": installation.RegionsFile(t, pg, installation.WithPassword(t, kv, "wrong-secret")),
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
