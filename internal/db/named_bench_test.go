package db_test

import (
	"fmt"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// BenchmarkNameIndex searches 100,000 names of an organization beside another of that size: for a beginning, for one
// that no name has, and for a letter that all names have, but no word begins with.
func BenchmarkNameIndex(b *testing.B) {
	for _, dialect := range []db.Dialect{db.SQLite, db.Postgres} {
		d := dbtest.Open(b, dialect)
		insertNames(b, d, "org_a", 100_000)
		insertNames(b, d, "org_b", 100_000)
		index := db.NameIndex{Table: "projects", ID: "id", Index: "projects_name"}
		for _, text := range []string{"service", "photos", "e"} {
			b.Run(fmt.Sprintf("%v/%s", dialect, text), func(b *testing.B) {
				for b.Loop() {
					if _, err := index.Find(d.Read(b.Context()), "org_a", text, 20); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// insertNames adds projects.
func insertNames(t testing.TB, d *db.DB, orgID string, n int) {
	t.Helper()
	type project struct{ OrgID, ID, Name string }
	for first := 0; first < n; first += 1000 {
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			var rows db.Bulk[project]
			for i := first; i < first+1000; i++ {
				rows = append(rows, project{orgID, fmt.Sprintf("prj_%d", i), fmt.Sprintf("service-%d-production", i)})
			}
			return rows.Send(tx, `INSERT INTO projects (org_id, id, name, created_at, version)
				SELECT v.org_id, v.id, v.name, 0, 1 FROM {v}`)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
