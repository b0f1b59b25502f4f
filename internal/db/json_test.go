package db_test

import (
	"slices"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestJSONIsScannedIntoItsValue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		scan := func(text any) (list []string, err error) {
			err = d.Read(t.Context()).Row(`SELECT CAST($1 AS TEXT)`, text).Scan(db.FromJSON(&list))
			return list, err
		}
		if got, err := scan(db.ToJSON([]string{"a", "b"})); err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("got %v, %v", got, err)
		}
		if got, err := scan(nil); err != nil || got != nil {
			t.Errorf("NULL: got %v, %v", got, err)
		}
		if got, err := scan("[]"); err != nil || got == nil {
			t.Errorf("an empty list: got %v, %v", got, err)
		}
		if _, err := scan("{"); err == nil {
			t.Error("no error for broken JSON")
		}
		var list []string
		if err := d.Read(t.Context()).Row(`SELECT 1`).Scan(db.FromJSON(&list)); err == nil {
			t.Error("no error for a number")
		}
	})
}
