package webhook

import (
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
)

// TestPlans shows that SQLite answers filtered lists, retention and retry from the index that is meant for each.
func TestPlans(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	plan := func(text string, args ...any) string {
		lines, err := db.Collect(d.Read(t.Context()), func(row db.Row) (s string, err error) {
			var a, b, c int
			return s, row.Scan(&a, &b, &c, &s)
		}, "EXPLAIN QUERY PLAN "+text, args...)
		must(t, err)
		return strings.Join(lines, "; ")
	}
	at := stamp.Of(newClock())
	for name, test := range map[string]struct {
		f     Filter
		index string
	}{
		"all":         {Filter{}, "PRIMARY KEY (key>? AND key<?)"},
		"time":        {Filter{Since: &at}, "PRIMARY KEY (key>? AND key<?)"},
		"success":     {Filter{Status: Success}, "PRIMARY KEY"},
		"failed":      {Filter{Status: Failed}, "webhook_deliveries_failed (key>? AND key<?)"},
		"failed then": {Filter{Status: Failed, Since: &at}, "webhook_deliveries_failed (key>? AND key<?)"},
		"destination": {Filter{DestinationID: "x"}, "webhook_deliveries_destination (destination_id=? AND key>? AND key<?)"},
		"receipt":     {Filter{ReceiptID: "x", Status: Failed}, "webhook_deliveries_receipt (receipt_id=?"},
	} {
		var c clauses
		c.within(keysOf("wh_w", test.f.Since, test.f.Until))
		c.narrow(test.f)
		text := c.page(page.Paging{Limit: 10})
		got := plan(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE `+text, c.args...)
		if !strings.Contains(got, test.index) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: %s", name, got)
		}
	}
	var c clauses
	counted := c.count(list{deliveryRows, "org_a", "wh_w"}, Filter{DestinationID: "x", Since: &at})
	got := plan(`SELECT `+counted, c.args...)
	if !strings.Contains(got, "COVERING INDEX webhook_deliveries_destination (destination_id=? AND key>? AND key<?)") {
		t.Errorf("count: %s", got)
	}
	got = plan(`SELECT key FROM webhook_receipts WHERE key >= $1 AND key < $2`+settledOnly+` ORDER BY key`, "a", "b")
	if !strings.Contains(got, "webhook_deliveries_receipt (receipt_id=?") {
		t.Errorf("retention: %s", got)
	}
	got = plan(`SELECT destination_id FROM webhook_queue WHERE ready AND destination_id > $1 ORDER BY destination_id LIMIT 1`, "x")
	if !strings.Contains(got, "webhook_queue_ready (destination_id>?)") {
		t.Errorf("ready destinations: %s", got)
	}
}

// TestRowsRead shows that PostgreSQL finds the rows of a batch by their keys, also with the plans that it made when there was one: each is
// read a few times, where a plan that walks a table would read all of them again for each batch.
func TestRowsRead(t *testing.T) {
	const size, batches = 50, 40
	h := newHouse(t, dbtest.Open(t, db.Postgres))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	forward := func() (sent int) {
		tasks, _ := h.store.claim(t, to.ID, nil, size)
		var results []Result
		for _, task := range tasks {
			results = append(results, Result{Delivery: &task.Delivery, At: stamp.Of(h.clock.now())})
		}
		counted, err := h.store.Finish(t.Context(), results)
		must(t, err)
		return len(counted)
	}
	h.accept(w, alice, "the first")
	forward()
	h.accept(w, alice, numbered(size*batches)...)
	for range batches {
		if n := forward(); n != size {
			t.Fatalf("a batch of %d", n)
		}
	}
	for _, table := range []string{"webhook_queue", "webhook_deliveries", "webhook_receipts"} {
		read := 0
		eventually(t, "PostgreSQL counts what was read of "+table, func() bool {
			forward() // sessions tell what they read when they do something
			must(t, h.db.Read(t.Context()).Row(`SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
				WHERE relname = $1`, table).Scan(&read))
			return read >= size*batches
		})
		if read > 4*size*batches {
			t.Errorf("%s: %d rows were read for %d deliveries", table, read, size*batches)
		}
	}
}
