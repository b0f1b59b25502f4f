package resource

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// TestLockedResourceDelaysNoOther has a transaction that never ends, such as that of a frozen replica,
// hold the row of a resource that is being deleted. The recovery goes on with the others.
func TestLockedResourceDelaysNoOther(t *testing.T) {
	options := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	f := newFixture(t, d, t.TempDir(), "node")
	_, err = f.create(NewResource{Type: DB, Name: new("stuck")}, NewResource{Type: DB, Name: new("free")}, NewResource{Type: DB, Name: new("active")})
	f.must(err)
	_, err = d.Exec(t.Context(), `UPDATE resources SET state = 'deleting', worker = 'gone', until = 0 WHERE name <> 'active'`)
	f.must(err)
	frozen, err := pgx.Connect(t.Context(), options.URL)
	f.must(err)
	defer func() { _ = frozen.Close(context.Background()) }()
	_, err = frozen.Exec(t.Context(), `BEGIN; UPDATE resources SET version = version + 1 WHERE name IN ('stuck', 'active')`)
	f.must(err)

	f.must(f.restart(t.Context()))
	names := func() (names []string) {
		all, err := f.Store.all(t.Context(), `ORDER BY name`)
		f.must(err)
		for _, p := range all {
			names = append(names, p.Name)
		}
		return names
	}
	if got := names(); len(got) != 2 || got[1] != "stuck" {
		t.Errorf("after the recovery there are %v", got)
	}
	f.want(errs.Conflict, f.delete(Named{Type: DB, Name: "active"}))
	_, err = frozen.Exec(t.Context(), `ROLLBACK`)
	f.must(err)
	f.must(f.delete(Named{Type: DB, Name: "active"}))
	f.must(f.Recover(t.Context()))
	if got := names(); len(got) != 0 {
		t.Errorf("at the end there are %v", got)
	}
}
