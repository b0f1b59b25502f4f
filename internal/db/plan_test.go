package db_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// TestPlansFollowTheSizeOfTables makes a plan when a table is known to be empty, and fills the table
// where no autovacuum comes by.
func TestPlansFollowTheSizeOfTables(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	o.MaxConns = 1 // plans belong to a connection
	o.Replan = 10 * time.Millisecond
	d := open(t, o)
	execute(t, o.URL, "CREATE TABLE things (id BIGINT PRIMARY KEY) WITH (autovacuum_enabled = off)", "VACUUM ANALYZE things")
	const lookup = "SELECT id FROM things WHERE id = $1"
	for range 10 { // the sixth plan is kept
		_, err := db.Collect(d.Read(t.Context()), db.Value[int64], lookup, int64(1))
		must(t, err)
	}
	var name string
	must(t, d.Read(t.Context()).Row("SELECT name FROM pg_prepared_statements WHERE statement = $1", lookup).Scan(&name))
	plan := func() string {
		lines, err := db.Collect(d.Read(t.Context()), db.Value[string], "EXPLAIN EXECUTE "+name+"(1)")
		must(t, err)
		return strings.Join(lines, "\n")
	}
	if before := plan(); !strings.Contains(before, "Seq Scan") {
		t.Fatalf("the plan for an empty table:\n%s", before)
	}
	execute(t, o.URL, "INSERT INTO things SELECT generate_series(1, 20000)")
	waittest.Until(t, "a plan that uses the index", func() (string, bool) {
		now := plan()
		return now, strings.Contains(now, "Index Only Scan")
	})
}

// TestJITIsOff reads what a connection has set on a server with the defaults, of which
// JIT is one.
func TestJITIsOff(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	for name, want := range map[string]string{
		"jit": "off", "enable_seqscan": "on", "plan_cache_mode": "auto", "random_page_cost": "4",
	} {
		var got string
		must(t, d.Read(t.Context()).Row("SELECT current_setting($1)", name).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// execute runs statements on a connection of its own, with the settings of the server.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
