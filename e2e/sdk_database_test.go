package e2e

import (
	"strings"
	"testing"
)

// TestPlatformCLIManagesDatabases covers `cloud db` and `cloud redis`.
func TestPlatformCLIManagesDatabases(t *testing.T) {
	t.Parallel()
	eachAtOnce(t, func(t *testing.T, s *steward) {
		c := s.platformCLI()
		db := func(args ...string) *response { return c.cloud(append([]string{"db"}, args...)...) }
		if got := db("create", "--name", "shop", "--description", "Orders"); got.text("name") != "shop" {
			t.Errorf("create: %s", got.body)
		}
		got := db("get", "shop")
		if got.text("description") != "Orders" || got.text("org_id") != s.orgID || !strings.HasPrefix(got.text("url"), s.URL+"/db/") {
			t.Errorf("get: %s", got.body)
		}
		generated := db("create").text("name")
		c.wantText("cloud db list --name-only", "shop", generated)

		db("sql", "shop", "CREATE TABLE orders (id integer PRIMARY KEY, item text NOT NULL)")
		db("sql", "shop", "INSERT INTO orders (item) VALUES ('tea'), ('ü')")
		rows := db("sql", "shop", "SELECT * FROM orders")
		if rows.get("rowCount") != 2.0 || !strings.Contains(string(rows.body), `"item": "ü"`) {
			t.Errorf("sql: %s", rows.body)
		}
		c.wantText("cloud db get shop --show-tables --sql", "CREATE TABLE orders", "PRIMARY KEY (id)")

		c.wantError(1, "syntax error", "cloud", "db", "sql", "shop", "SELEC")
		c.wantError(10, "already exists", "cloud", "db", "create", "--name", "shop")
		c.wantError(10, "must be lowercase", "cloud", "db", "create", "--name", "Shop")
		c.wantError(12, "'missing' not found", "cloud", "db", "get", "missing")
		c.wantError(12, "'missing' not found", "cloud", "db", "delete", "missing", "--confirm")
		if got := db("delete", "shop", "--confirm"); got.get("success") != true {
			t.Errorf("delete: %s", got.body)
		}
		c.wantError(12, "'shop' not found", "cloud", "db", "get", "shop")

		c.wantText("cloud redis show", "No Redis provisioned")
		made := s.call("POST", "/resource/"+s.orgID+"/local", object{"resources": []object{{"type": "kv", "name": "cache"}}}).want(201)
		if got := c.cloud("redis", "show"); !strings.Contains(string(made.body), `"REDIS_URL":"`+got.text("url")+`"`) {
			t.Errorf("redis: %s, created %s", got.body, made.body)
		}
	})
}
