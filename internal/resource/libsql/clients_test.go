package libsql_test

import (
	"os"
	"os/exec"
	"testing"

	"steward/internal/db/dbtest"
)

// node runs a script of e2e/clients with the URL and the token of a database.
func (d *database) node(script string) {
	d.t.Helper()
	const clients = "../../../e2e/clients"
	if _, err := os.Stat(clients + "/node_modules/@libsql/client"); err != nil {
		d.t.Fatal("@libsql/client is not installed: run `make deps`")
	}
	connection := d.Connection(d.p)
	cmd := exec.CommandContext(d.t.Context(), "node", clients+"/"+script, connection.Env["DATABASE_URL"], connection.Env["DATABASE_AUTH_TOKEN"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	d.t.Logf("%s", out)
}

func TestLibSQLClient(t *testing.T) { newDatabase(t).node("libsql.mjs") }

func TestDrizzle(t *testing.T) {
	dbtest.Long(t)
	newDatabase(t).node("drizzle.mjs")
}
