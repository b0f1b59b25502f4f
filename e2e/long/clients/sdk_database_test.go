package clients

import (
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestPlatformCLIManagesDatabases covers `cloud db` and `cloud redis`.
func TestPlatformCLIManagesDatabases(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	db := func(args ...string) *installation.Response { return c.cloud(append([]string{"db"}, args...)...) }
	if got := db("create", "--name", "shop", "--description", "Orders"); got.Text("name") != "shop" {
		t.Errorf("create: %s", got.Body)
	}
	got := db("get", "shop")
	if got.Text("description") != "Orders" || got.Text("org_id") != s.OrgID || !strings.HasPrefix(got.Text("url"), s.URL+"/db/") {
		t.Errorf("get: %s", got.Body)
	}
	generated := db("create").Text("name")
	c.wantText("cloud db list --name-only", "shop", generated)

	db("sql", "shop", "CREATE TABLE orders (id integer PRIMARY KEY, item text NOT NULL)")
	db("sql", "shop", "INSERT INTO orders (item) VALUES ('tea'), ('ü')")
	rows := db("sql", "shop", "SELECT * FROM orders")
	if rows.Get("rowCount") != 2.0 || !strings.Contains(string(rows.Body), `"item": "ü"`) {
		t.Errorf("sql: %s", rows.Body)
	}
	c.wantText("cloud db get shop --show-tables --sql", "CREATE TABLE orders", "PRIMARY KEY (id)")

	c.wantError(1, "syntax error", "cloud", "db", "sql", "shop", "SELEC")
	c.wantError(10, "already exists", "cloud", "db", "create", "--name", "shop")
	c.wantError(10, "must be lowercase", "cloud", "db", "create", "--name", "Shop")
	c.wantError(12, "'missing' not found", "cloud", "db", "get", "missing")
	c.wantError(12, "'missing' not found", "cloud", "db", "delete", "missing", "--confirm")
	if got := db("delete", "shop", "--confirm"); got.Get("success") != true {
		t.Errorf("delete: %s", got.Body)
	}
	c.wantError(12, "'shop' not found", "cloud", "db", "get", "shop")

	c.wantText("cloud redis show", "No Redis provisioned")
	made := s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": []object{{"type": "kv", "name": "cache"}}}).Want(201)
	if got := c.cloud("redis", "show"); !strings.Contains(string(made.Body), `"REDIS_URL":"`+got.Text("url")+`"`) {
		t.Errorf("redis: %s, created %s", got.Body, made.Body)
	}
}
