package webhook

import (
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
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
		"all":         {Filter{}, "PRIMARY KEY (org_id=? AND webhook_id=? AND id<?)"},
		"time":        {Filter{Since: &at}, "PRIMARY KEY (org_id=? AND webhook_id=? AND id>? AND id<?)"},
		"success":     {Filter{Status: Success}, "PRIMARY KEY"},
		"failed":      {Filter{Status: Failed}, "webhook_deliveries_failed (org_id=? AND webhook_id=? AND id<?)"},
		"failed then": {Filter{Status: Failed, Since: &at}, "webhook_deliveries_failed (org_id=? AND webhook_id=? AND id>? AND id<?)"},
		"destination": {Filter{DestinationID: "x"}, "webhook_deliveries_destination (org_id=? AND webhook_id=? AND destination_id=? AND id<?)"},
		"receipt":     {Filter{ReceiptID: "x", Status: Failed}, "webhook_deliveries_receipt (org_id=? AND webhook_id=? AND receipt_id=?"},
	} {
		var c clauses
		c.within(id.Delivery, "o", "w", test.f)
		c.narrow(test.f)
		text := c.page(afterAll, web.Paging{Limit: 10})
		got := plan(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE `+text, c.args...)
		if !strings.Contains(got, test.index) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := plan(`SELECT id FROM webhook_receipts WHERE org_id = $1 AND webhook_id = $2 AND id < $3`+settledOnly+` ORDER BY id`, "o", "w", "x")
	if !strings.Contains(got, "webhook_deliveries_receipt (org_id=? AND webhook_id=? AND receipt_id=?") {
		t.Errorf("retention: %s", got)
	}
	got = plan(`SELECT destination_id FROM webhook_queue WHERE ready AND destination_id > $1 ORDER BY destination_id LIMIT 1`, "x")
	if !strings.Contains(got, "webhook_queue_ready (destination_id>?)") {
		t.Errorf("ready destinations: %s", got)
	}
}
