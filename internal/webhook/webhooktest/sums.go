// Package webhooktest has checks that the webhook packages' tests share.
package webhooktest

import (
	"testing"

	"steward/internal/db"
)

// OfOrg selects the receipts and deliveries of all webhooks that organization $1 has or had.
const OfOrg = `substr(key, 1, 26) IN (SELECT substr(id, 4) FROM webhooks WHERE org_id = $1
	UNION ALL SELECT substr(webhook_id, 4) FROM webhook_tombstones WHERE org_id = $1)`

// SumsHold compares the counters, in each unit and bucket, and the totals with the rows they count. It
// holds only until retention removes something.
func SumsHold(t testing.TB, d *db.DB, orgID string) {
	t.Helper()
	q := d.Read(t.Context())
	for _, unit := range []int64{60, 3600, 86400} {
		diffs, err := db.Collect(q, db.Value[string], `SELECT 'unit ' || CAST(unit AS TEXT) || ' bucket ' || CAST(bucket AS TEXT) FROM (
			SELECT unit, bucket, received AS a, delivered AS b, failed AS c, filtered AS d FROM webhook_counts WHERE org_id = $1 AND unit = $2
			UNION ALL SELECT $2, date / ($2 * 1000000), -1, 0, 0, 0 FROM webhook_receipts WHERE `+OfOrg+`
			UNION ALL SELECT $2, date / ($2 * 1000000), 0, 0, 0, -destinations FROM webhook_receipts JOIN
				(SELECT key AS of, destinations FROM webhook_filtered) f ON f.of = key WHERE `+OfOrg+`
			UNION ALL SELECT $2, finished_at / ($2 * 1000000), 0, CASE status WHEN 'success' THEN -1 ELSE 0 END,
				CASE status WHEN 'failed' THEN -1 ELSE 0 END, 0 FROM webhook_deliveries WHERE status <> 'pending' AND `+OfOrg+`
			) AS facts GROUP BY unit, bucket HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0`, orgID, unit)
		must(t, err)
		if len(diffs) > 0 {
			t.Fatalf("counters differ from rows: %v", diffs)
		}
	}
	hookCountsHold(t, d, orgID)
	TotalsHold(t, d, orgID)
	queueHolds(t, d, orgID)
}

// hookCountsHold compares the webhooks' counts, added up, with their organization's.
func hookCountsHold(t testing.TB, d *db.DB, orgID string) {
	t.Helper()
	diffs, err := db.Collect(d.Read(t.Context()), db.Value[string], `SELECT 'unit ' || CAST(unit AS TEXT) FROM (
		SELECT unit, bucket, received AS a, delivered AS b, failed AS c, filtered AS d FROM webhook_counts WHERE org_id = $1
		UNION ALL SELECT unit, bucket, -received, -delivered, -failed, -filtered FROM webhook_counts_each WHERE org_id = $1
		) AS facts GROUP BY unit, bucket HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0`, orgID)
	must(t, err)
	if len(diffs) > 0 {
		t.Fatalf("counts of webhooks differ from those of the organization: %v", diffs)
	}
}

// TotalsHold compares webhooks' totals with their rows.
func TotalsHold(t testing.TB, d *db.DB, orgID string) {
	t.Helper()
	diffs, err := db.Collect(d.Read(t.Context()), db.Value[string], `SELECT webhook_id FROM (
		SELECT webhook_id, receipts AS a, deliveries AS b, pending AS c FROM webhook_totals WHERE org_id = $1
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), -1, 0, 0 FROM webhook_receipts WHERE `+OfOrg+`
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), 0, -1, 0 FROM webhook_deliveries WHERE `+OfOrg+`
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), 0, 0, -1 FROM webhook_queue WHERE org_id = $1
		) AS facts GROUP BY webhook_id HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0`, orgID)
	must(t, err)
	if len(diffs) > 0 {
		t.Fatalf("totals differ from rows: %v", diffs)
	}
}

// queueHolds compares the queue with the pending deliveries, and the column failed with the status.
func queueHolds(t testing.TB, d *db.DB, orgID string) {
	t.Helper()
	diffs, err := db.Collect(d.Read(t.Context()), db.Value[string], `SELECT key FROM (
		SELECT key, destination_id, receipt_id, date, retries, 1 AS n FROM webhook_deliveries WHERE status = 'pending' AND `+OfOrg+`
		UNION ALL SELECT key, destination_id, 'whrc_' || substr(receipt_key, 27), date, retries, -1 FROM webhook_queue WHERE org_id = $1
		) AS facts GROUP BY key, destination_id, receipt_id, date, retries HAVING SUM(n) <> 0
		UNION ALL SELECT key FROM webhook_deliveries WHERE failed <> (status = 'failed') AND `+OfOrg, orgID)
	must(t, err)
	if len(diffs) > 0 {
		t.Fatalf("the queue differs from the pending deliveries, or failed from status: %v", diffs)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
