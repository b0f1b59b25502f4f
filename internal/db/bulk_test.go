package db_test

import (
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestBulkFindsFieldsByTheirColumns reads columns of fields whose case differs, of embedded structs, and of
// unexported fields, next to a table whose name ends in v.
func TestBulkFindsFieldsByTheirColumns(t *testing.T) {
	type place struct{ OrgID, ID string }
	type row struct {
		place
		ETag  string
		dueAt int
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		rows := db.Bulk[row]{{place{"org_a", "x"}, "e", 7}, {place{"org_b", "y"}, "f", 8}}
		got, err := db.CollectBulk(d.Read(t.Context()), rows, db.Value[string],
			`SELECT v.etag || ev.text || v.org_id || CAST(v.due_at + v.due_at AS TEXT) || v.id
			FROM {v} CROSS JOIN (SELECT '-' AS text) AS ev ORDER BY v.id`)
		if must(t, err); strings.Join(got, " ") != "e-org_a14x f-org_b16y" {
			t.Errorf("got %q", got)
		}
	})
}

func TestBulkHasFractionsAndNulls(t *testing.T) {
	type row struct {
		N     int
		Score *float64
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		rows := db.Bulk[row]{{1, new(0.1)}, {2, nil}, {3, new(-1e300)}}
		got, err := db.CollectBulk(d.Read(t.Context()), rows, db.Value[*float64], `SELECT v.score FROM {v} ORDER BY v.n`)
		if must(t, err); len(got) != 3 || *got[0] != 0.1 || got[1] != nil || *got[2] != -1e300 {
			t.Errorf("got %v", got)
		}
	})
}

func TestBulkPanicsWithoutAField(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	defer func() {
		if message, _ := recover().(string); !strings.Contains(message, "v.nmae") {
			t.Errorf("panicked with %q", message)
		}
	}()
	_, _ = db.CollectBulk(d.Read(t.Context()), db.Bulk[struct{ Name string }]{{"a"}}, db.Value[string], `SELECT v.nmae FROM {v}`)
}
