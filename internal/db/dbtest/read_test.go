package dbtest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
)

// TestVacuumWaitsForOlderSnapshots has a snapshot open while rows are written, as autovacuum may, and closes
// it once VACUUM has run.
func TestVacuumWaitsForOlderSnapshots(t *testing.T) {
	o := Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	old, err := pgx.Connect(t.Context(), o.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM pg_class`); err != nil {
		t.Fatal(err)
	}
	command(t, o.URL, `CREATE TABLE numbers AS SELECT generate_series(1, 10000) AS n`)
	command(t, o.URL, `VACUUM numbers`)
	var visible int
	count := func() {
		if err := d.Read(t.Context()).Row(`SELECT relallvisible FROM pg_class WHERE relname = 'numbers'`).Scan(&visible); err != nil {
			t.Fatal(err)
		}
	}
	if count(); visible > 0 {
		t.Fatalf("%d pages are visible to all beside an older snapshot", visible)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = old.Close(t.Context())
	}()
	Vacuum(t, o.URL)
	<-ended
	if count(); visible == 0 {
		t.Fatal("no page is visible to all after Vacuum")
	}
}
