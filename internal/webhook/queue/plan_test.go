package queue

import (
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestPlans shows that SQLite reads the queue from the index that is meant for each statement.
func TestPlans(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	plan := func(text string, args ...any) string {
		lines, err := db.Collect(d.Read(t.Context()), func(row db.Row) (s string, err error) {
			var a, b, c int
			return s, row.Scan(&a, &b, &c, &s)
		}, "EXPLAIN QUERY PLAN "+text, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "; ")
	}
	got := plan(`SELECT key, due_at, date`+laterText+`10`, "x", 1, "y")
	if !strings.Contains(got, "webhook_queue_retries (destination_id=? AND (due_at,key)>(?,?))") || strings.Contains(got, "TEMP B-TREE") {
		t.Errorf("attempts to recover: %s", got)
	}
	got = plan(`SELECT 1`+laterText+`10`, "x", 1, "y")
	if !strings.Contains(got, "USING COVERING INDEX webhook_queue_retries") {
		t.Errorf("number of attempts to recover: %s", got)
	}
	got = plan(`SELECT key FROM webhook_queue WHERE destination_id > $1 ORDER BY destination_id, due_at, key LIMIT 1`, "x")
	if !strings.Contains(got, "webhook_queue_due (destination_id>?)") {
		t.Errorf("destinations with rows: %s", got)
	}
}
