package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestDatabaseLifecycle follows a database through restarts, a rotation and its deletion.
func TestDatabaseLifecycle(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		d := s.NewDatabase("shop")
		d.Exec("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
		d.Exec("INSERT INTO items (name) VALUES ('one'), ('two')")
		s.Stop()
		s.Start()
		d.FollowPort()
		d.WantCount("items", "2")
		d.Exec("INSERT INTO items (name) VALUES ('three')")
		s.Kill()
		s.Start()
		d.FollowPort()
		d.WantCount("items", "3")

		base := "/resource/" + s.OrgID + "/local/shop"
		tables := s.Call("GET", base+"/tables", nil).Want(200)
		if !strings.Contains(string(tables.Body), `"items"`) {
			t.Errorf("tables: %s", tables.Body)
		}
		rows := s.Call("POST", base+"/query", object{"query": "SELECT name FROM items WHERE id > ? ORDER BY id", "args": []any{1}}).Want(200)
		if rows.At("rows.0.0") != "two" || rows.At("rows.1.0") != "three" {
			t.Errorf("query: %s", rows.Body)
		}
		s.Call("POST", base+"/query", object{"query": "SELECT * FROM nowhere"}).Want(422)

		checkRotation(d, base)
		checkDeletion(d)
	})
}

// checkRotation rotates the credentials in the middle of a transaction.
func checkRotation(d *installation.SQLDatabase, base string) {
	d.T.Helper()
	open := d.Pipeline(nil, installation.ExecuteSQL("BEGIN IMMEDIATE"), installation.ExecuteSQL("DELETE FROM items")).Want(200)
	rotated := d.Call("POST", base+"/rotate", nil).Want(200)
	d.Pipeline(open.Text("baton"), installation.ExecuteSQL("COMMIT")).Want(401)
	d.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
	d.Token = rotated.Text("env.DATABASE_AUTH_TOKEN")
	d.WantCount("items", "3")
	d.Exec("INSERT INTO items (name) VALUES ('four')")
}

// checkDeletion deletes the database while a transaction is open and a statement runs.
func checkDeletion(d *installation.SQLDatabase) {
	d.T.Helper()
	open := d.Pipeline(nil, installation.ExecuteSQL("BEGIN IMMEDIATE"), installation.ExecuteSQL("DELETE FROM items")).Want(200)
	ended := make(chan string, 1)
	go func() {
		got := d.Pipeline(nil, installation.ExecuteSQL("WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"), object{"type": "close"})
		ended <- string(got.Body)
	}()
	d.Remove()
	if got := waittest.Receive(d.T, "the end of the statement", ended); strings.Contains(got, `"ok"`) && !strings.Contains(got, `"error"`) {
		d.T.Errorf("the statement has ended with %s", got)
	}
	d.Pipeline(open.Text("baton"), installation.ExecuteSQL("COMMIT")).Want(401)
	d.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
	files, err := filepath.Glob(filepath.Join(d.Dir, "databases", "db_*"))
	d.Must(err)
	if len(files) > 0 {
		d.T.Errorf("the files %v are left", files)
	}
	if list := d.Call("GET", "/resource/"+d.OrgID+"/local", nil).Want(200); strings.Contains(string(list.Body), d.Token) {
		d.T.Errorf("the list has %s", list.Body)
	}
}

// TestFilesOfUnknownDatabasesAreKept starts a data directory with an empty database of the server, as
// after a mistake with backups, and then with the right one again.
func TestFilesOfUnknownDatabasesAreKept(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	d := s.NewDatabase("shop")
	d.Exec("CREATE TABLE items (v)")
	s.Stop()
	own, aside := filepath.Join(s.Dir, "steward.db"), filepath.Join(t.TempDir(), "steward.db")
	s.Must(os.Rename(own, aside))
	s.Start()
	if !strings.Contains(s.Log(), "that this database does not know") {
		t.Errorf("the log says nothing: %s", s.Log())
	}
	s.Stop()
	s.Must(os.Rename(aside, own))
	s.Start()
	d.FollowPort()
	d.WantCount("items", "0")
}

// TestDatabasesAreIsolated uses databases of two organizations, which have the same name.
func TestDatabasesAreIsolated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		mine, theirs := s.NewDatabase("shop"), other.NewDatabase("shop")
		mine.Exec("CREATE TABLE items (v)")
		theirs.Exec("CREATE TABLE secrets (v)")

		confused := *theirs
		confused.Token = mine.Token
		confused.Pipeline(nil, installation.ExecuteSQL("SELECT 1")).Want(401)
		s.Call("GET", "/resource/"+other.OrgID+"/local/shop/tables", nil).Want(404)
		s.Call("POST", "/resource/"+other.OrgID+"/local/shop/query", object{"query": "SELECT 1"}).Want(404)
		for _, sql := range []string{
			"SELECT * FROM secrets",
			"ATTACH '" + filepath.Join(s.Dir, "steward.db") + "' AS server",
			"ATTACH '../../steward.db' AS server",
			"VACUUM INTO '" + filepath.Join(s.Dir, "copy.db") + "'",
			"SELECT load_extension('x')",
			"SELECT * FROM api_keys",
			"PRAGMA database_list",
		} {
			got := mine.Pipeline(nil, installation.ExecuteSQL(sql), object{"type": "close"}).Want(200)
			if got.At("results.0.type") != "error" {
				t.Errorf("%s: %s", sql, got.Body)
			}
			s.Call("POST", "/resource/"+s.OrgID+"/local/shop/query", object{"query": sql}).Want(422)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, "copy.db")); !os.IsNotExist(err) {
			t.Errorf("a file was written: %v", err)
		}
		for _, path := range []string{"/db/..%2f..%2fsteward.db/v2/pipeline", "/db/%2e%2e/v2/pipeline", "/db/db_x/v2/pipeline"} {
			got := s.As(mine.Token).Call("POST", path, object{"requests": []object{}})
			if got.Status != 401 && got.Status != 404 {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
	})
}
