package db_test

import (
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestEarlierSchemaIsMigratedLater opens a database with the first migrations, and then with all.
func TestEarlierSchemaIsMigratedLater(t *testing.T) {
	newest, err := db.NewestSchema()
	must(t, err)
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Empty(t, dialect)
			for _, want := range []int64{12, newest} {
				o.Migrations = db.MigrationsUpTo(want)
				d, err := db.Open(t.Context(), o)
				must(t, err)
				got, err := db.Schema(d.Read(t.Context()))
				must(t, err)
				must(t, d.Close())
				if got != want {
					t.Errorf("the schema has version %d, want %d", got, want)
				}
			}
		})
	}
}

// TestUnfinishedRestoreIsNotOpened opens a database between BeginRestore and EndRestore.
func TestUnfinishedRestoreIsNotOpened(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Options(t, dialect)
			for i, change := range []func(*db.Tx) error{(*db.Tx).BeginRestore, (*db.Tx).EndRestore} {
				o.Restoring = true
				d, err := db.Open(t.Context(), o)
				must(t, err)
				must(t, d.Write(t.Context(), change))
				must(t, d.Close())
				o.Restoring = false
				d, err = db.Open(t.Context(), o)
				if (err == nil) != (i == 1) {
					t.Errorf("after step %d: %v", i, err)
				}
				if err == nil {
					must(t, d.Close())
				}
			}
		})
	}
}
