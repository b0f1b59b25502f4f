package db_test

import (
	"fmt"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// BenchmarkNameIndex searches 100,000 names of an organization: for a beginning, for a word inside of one
// name, and for a letter that most names have, but no word begins with.
func BenchmarkNameIndex(b *testing.B) {
	for _, dialect := range []db.Dialect{db.SQLite, db.Postgres} {
		d := dbtest.Open(b, dialect)
		insertNames(b, d, 100_000)
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

// insertNames adds projects, the last of which is product-photos.
func insertNames(t testing.TB, d *db.DB, n int) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		rows := db.NewBulk(db.Text, db.Text)
		for i := range n - 1 {
			rows.Add(fmt.Sprintf("prj_%d", i), fmt.Sprintf("service-%d-production", i))
		}
		rows.Add("prj_photos", "zz-product-photos")
		return rows.Send(tx, `INSERT INTO projects (org_id, id, name, created_at, version)
			SELECT 'org_a', v.column1, v.column2, 0, 1 FROM {v}`)
	})
	if err != nil {
		t.Fatal(err)
	}
}
