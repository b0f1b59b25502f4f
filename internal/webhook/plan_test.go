package webhook

import (
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
	"steward/internal/web"
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
		text := c.page(web.Paging{Limit: 10})
		got := plan(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE `+text, c.args...)
		if !strings.Contains(got, test.index) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := plan(`SELECT key FROM webhook_receipts WHERE key >= $1 AND key < $2`+settledOnly+` ORDER BY key`, "a", "b")
	if !strings.Contains(got, "webhook_deliveries_receipt (receipt_id=?") {
		t.Errorf("retention: %s", got)
	}
	got = plan(`SELECT destination_id FROM webhook_queue WHERE ready AND destination_id > $1 ORDER BY destination_id LIMIT 1`, "x")
	if !strings.Contains(got, "webhook_queue_ready (destination_id>?)") {
		t.Errorf("ready destinations: %s", got)
	}
}
