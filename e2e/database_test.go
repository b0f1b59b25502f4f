package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"steward/internal/waittest"
)

// sqlDatabase is a libSQL database with its credentials.
type sqlDatabase struct {
	*steward
	name  string
	url   string
	token string
}

// database creates a database in the region local.
func (s *steward) database(name string) *sqlDatabase {
	s.t.Helper()
	created := s.call("POST", "/resource/"+s.orgID+"/local", object{"resources": []object{{"type": "db", "name": name}}}).want(201)
	d := &sqlDatabase{
		steward: s, name: created.at("created.0.name"),
		url: created.at("created.0.env.DATABASE_URL"), token: created.at("created.0.env.DATABASE_AUTH_TOKEN"),
	}
	if created.at("created.0.url") != d.url || created.at("created.0.password") != d.token || created.at("created.0.engine") != "libsql" {
		s.t.Errorf("created %s", created.body)
	}
	if !strings.HasPrefix(d.url, s.URL+"/db/") || !strings.HasSuffix(d.url, "/") {
		s.t.Errorf("the URL is %s", d.url)
	}
	return d
}

// moved follows the server to its new port after a restart.
func (d *sqlDatabase) moved() {
	_, path, _ := strings.Cut(d.url, "/db/")
	d.url = d.URL + "/db/" + path
}

// remove deletes the database.
func (d *sqlDatabase) remove() {
	d.t.Helper()
	d.call("DELETE", "/resource/"+d.orgID+"/local", object{"resources": []object{{"type": "db", "name": d.name}}}).want(204)
}

// pipeline sends requests as a client does.
func (d *sqlDatabase) pipeline(baton any, requests ...object) *response {
	d.t.Helper()
	body, err := json.Marshal(object{"baton": baton, "requests": requests})
	d.must(err)
	r, err := http.NewRequest("POST", d.url+"v2/pipeline", strings.NewReader(string(body)))
	d.must(err)
	r.Header.Set("Authorization", "Bearer "+d.token)
	res, err := client.Do(r)
	d.must(err)
	defer func() { _ = res.Body.Close() }()
	got, err := read(d.t, res)
	d.must(err)
	return got
}

func executeSQL(sql string) object { return object{"type": "execute", "stmt": object{"sql": sql}} }

// exec executes a statement, which must succeed.
func (d *sqlDatabase) exec(sql string) *response {
	d.t.Helper()
	got := d.pipeline(nil, executeSQL(sql), object{"type": "close"}).want(200)
	if got.at("results.0.type") != "ok" {
		d.t.Fatalf("%s: %s", sql, got.body)
	}
	return got
}

// wantCount fails unless a table has a number of rows.
func (d *sqlDatabase) wantCount(table, want string) {
	d.t.Helper()
	got := d.exec("SELECT count(*) FROM " + table).at("results.0.response.result.rows.0.0.value")
	if got != want {
		d.t.Errorf("%s has %s rows, want %s", table, got, want)
	}
}

// node runs a script of clients with the database.
func (d *sqlDatabase) node(script string) {
	d.t.Helper()
	if _, err := os.Stat("clients/node_modules/@libsql/client"); err != nil {
		d.t.Fatal("@libsql/client is not installed: run `make deps`")
	}
	out, err := exec.CommandContext(d.t.Context(), "node", "clients/"+script, d.url, d.token).CombinedOutput()
	if err != nil {
		d.t.Errorf("%s: %v\n%s", script, err, out)
	}
}

// at returns the string at a path of the body whose keys may be indices of arrays, or "".
func (r *response) at(path string) string {
	r.t.Helper()
	var value any
	r.decode(&value)
	for key := range strings.SplitSeq(path, ".") {
		if list, ok := value.([]any); ok {
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(list) {
				return ""
			}
			value = list[i]
			continue
		}
		members, _ := value.(object)
		value = members[key]
	}
	text, _ := value.(string)
	return text
}

// TestDatabaseClients uses databases with @libsql/client and drizzle-orm at once after their creation.
func TestDatabaseClients(t *testing.T) {
	t.Parallel()
	each(t, func(_ *testing.T, s *steward) {
		s.database("client").node("libsql.mjs")
		s.database("drizzle").node("drizzle.mjs")
	})
}

// TestDatabaseLifecycle follows a database through restarts, a rotation and its deletion.
func TestDatabaseLifecycle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		d := s.database("shop")
		d.exec("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
		d.exec("INSERT INTO items (name) VALUES ('one'), ('two')")
		s.stop()
		s.start()
		d.moved()
		d.wantCount("items", "2")
		d.exec("INSERT INTO items (name) VALUES ('three')")
		s.kill()
		s.start()
		d.moved()
		d.wantCount("items", "3")

		base := "/resource/" + s.orgID + "/local/shop"
		tables := s.call("GET", base+"/tables", nil).want(200)
		if !strings.Contains(string(tables.body), `"items"`) {
			t.Errorf("tables: %s", tables.body)
		}
		rows := s.call("POST", base+"/query", object{"query": "SELECT name FROM items WHERE id > ? ORDER BY id", "args": []any{1}}).want(200)
		if rows.at("rows.0.0") != "two" || rows.at("rows.1.0") != "three" {
			t.Errorf("query: %s", rows.body)
		}
		s.call("POST", base+"/query", object{"query": "SELECT * FROM nowhere"}).want(422)

		d.checkRotation(base)
		d.checkDeletion()
	})
}

// checkRotation rotates the credentials in the middle of a transaction.
func (d *sqlDatabase) checkRotation(base string) {
	d.t.Helper()
	open := d.pipeline(nil, executeSQL("BEGIN IMMEDIATE"), executeSQL("DELETE FROM items")).want(200)
	rotated := d.call("POST", base+"/rotate", nil).want(200)
	d.pipeline(open.text("baton"), executeSQL("COMMIT")).want(401)
	d.pipeline(nil, executeSQL("SELECT 1")).want(401)
	d.token = rotated.text("env.DATABASE_AUTH_TOKEN")
	d.wantCount("items", "3")
	d.exec("INSERT INTO items (name) VALUES ('four')")
}

// checkDeletion deletes the database while a transaction is open and a statement runs.
func (d *sqlDatabase) checkDeletion() {
	d.t.Helper()
	open := d.pipeline(nil, executeSQL("BEGIN IMMEDIATE"), executeSQL("DELETE FROM items")).want(200)
	ended := make(chan string, 1)
	go func() {
		got := d.pipeline(nil, executeSQL("WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"), object{"type": "close"})
		ended <- string(got.body)
	}()
	d.remove()
	if got := waittest.Receive(d.t, "the end of the statement", ended); strings.Contains(got, `"ok"`) && !strings.Contains(got, `"error"`) {
		d.t.Errorf("the statement has ended with %s", got)
	}
	d.pipeline(open.text("baton"), executeSQL("COMMIT")).want(401)
	d.pipeline(nil, executeSQL("SELECT 1")).want(401)
	files, err := filepath.Glob(filepath.Join(d.Dir, "databases", "db_*"))
	d.must(err)
	if len(files) > 0 {
		d.t.Errorf("the files %v are left", files)
	}
	if list := d.call("GET", "/resource/"+d.orgID+"/local", nil).want(200); strings.Contains(string(list.body), d.token) {
		d.t.Errorf("the list has %s", list.body)
	}
}

// TestFilesOfUnknownDatabasesAreKept starts a data directory with an empty database of the server, as
// after a mistake with backups, and then with the right one again.
func TestFilesOfUnknownDatabasesAreKept(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	d := s.database("shop")
	d.exec("CREATE TABLE items (v)")
	s.stop()
	own, aside := filepath.Join(s.Dir, "steward.db"), filepath.Join(t.TempDir(), "steward.db")
	s.must(os.Rename(own, aside))
	s.start()
	if !strings.Contains(s.Log(), "that this database does not know") {
		t.Errorf("the log says nothing: %s", s.Log())
	}
	s.stop()
	s.must(os.Rename(aside, own))
	s.start()
	d.moved()
	d.wantCount("items", "0")
}

// TestDatabasesAreIsolated uses databases of two organizations, which have the same name.
func TestDatabasesAreIsolated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		mine, theirs := s.database("shop"), other.database("shop")
		mine.exec("CREATE TABLE items (v)")
		theirs.exec("CREATE TABLE secrets (v)")

		confused := *theirs
		confused.token = mine.token
		confused.pipeline(nil, executeSQL("SELECT 1")).want(401)
		s.call("GET", "/resource/"+other.orgID+"/local/shop/tables", nil).want(404)
		s.call("POST", "/resource/"+other.orgID+"/local/shop/query", object{"query": "SELECT 1"}).want(404)
		for _, sql := range []string{
			"SELECT * FROM secrets",
			"ATTACH '" + filepath.Join(s.Dir, "steward.db") + "' AS server",
			"ATTACH '../../steward.db' AS server",
			"VACUUM INTO '" + filepath.Join(s.Dir, "copy.db") + "'",
			"SELECT load_extension('x')",
			"SELECT * FROM api_keys",
			"PRAGMA database_list",
		} {
			got := mine.pipeline(nil, executeSQL(sql), object{"type": "close"}).want(200)
			if got.at("results.0.type") != "error" {
				t.Errorf("%s: %s", sql, got.body)
			}
			s.call("POST", "/resource/"+s.orgID+"/local/shop/query", object{"query": sql}).want(422)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, "copy.db")); !os.IsNotExist(err) {
			t.Errorf("a file was written: %v", err)
		}
		for _, path := range []string{"/db/..%2f..%2fsteward.db/v2/pipeline", "/db/%2e%2e/v2/pipeline", "/db/db_x/v2/pipeline"} {
			got := s.as(mine.token).call("POST", path, object{"requests": []object{}})
			if got.status != 401 && got.status != 404 {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
	})
}
