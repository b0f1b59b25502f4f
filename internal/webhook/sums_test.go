package webhook

import (
	"time"

	"steward/internal/db"
)

func newClock() time.Time { return time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC) }

// ofOrg holds for receipts and deliveries of all webhooks that organization $1 has, or had.
const ofOrg = `substr(key, 1, 26) IN (SELECT substr(id, 4) FROM webhooks WHERE org_id = $1
	UNION ALL SELECT substr(webhook_id, 4) FROM webhook_tombstones WHERE org_id = $1)`

// sumsHold compares the counters with the rows that they count, for each unit and bucket, and the
// totals with the rows. It holds only while retention has removed nothing.
func (h *fixture) sumsHold(orgID string) {
	h.t.Helper()
	q := h.db.Read(h.t.Context())
	for _, unit := range []int64{60, 3600, 86400} {
		diffs, err := db.Collect(q, db.Value[string], `SELECT 'unit ' || CAST(unit AS TEXT) || ' bucket ' || CAST(bucket AS TEXT) FROM (
			SELECT unit, bucket, received AS a, delivered AS b, failed AS c FROM webhook_counts WHERE org_id = $1 AND unit = $2
			UNION ALL SELECT $2, date / ($2 * 1000000), -1, 0, 0 FROM webhook_receipts WHERE `+ofOrg+`
			UNION ALL SELECT $2, finished_at / ($2 * 1000000), 0, CASE status WHEN 'success' THEN -1 ELSE 0 END,
				CASE status WHEN 'failed' THEN -1 ELSE 0 END FROM webhook_deliveries WHERE status <> 'pending' AND `+ofOrg+`
			) AS facts GROUP BY unit, bucket HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0`, orgID, unit)
		must(h.t, err)
		if len(diffs) > 0 {
			h.t.Fatalf("counters differ from rows: %v", diffs)
		}
	}
	h.hookCountsHold(orgID)
	h.totalsHold(orgID)
	h.queueHolds(orgID)
}

// hookCountsHold compares the sums of the counts of webhooks with those of their organization.
func (h *fixture) hookCountsHold(orgID string) {
	h.t.Helper()
	diffs, err := db.Collect(h.db.Read(h.t.Context()), db.Value[string], `SELECT 'unit ' || CAST(unit AS TEXT) FROM (
		SELECT unit, bucket, received AS a, delivered AS b, failed AS c FROM webhook_counts WHERE org_id = $1
		UNION ALL SELECT unit, bucket, -received, -delivered, -failed FROM webhook_counts_each WHERE org_id = $1
		) AS facts GROUP BY unit, bucket HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0`, orgID)
	must(h.t, err)
	if len(diffs) > 0 {
		h.t.Fatalf("counts of webhooks differ from those of the organization: %v", diffs)
	}
}

// totalsHold compares the totals of webhooks with their rows.
func (h *fixture) totalsHold(orgID string) {
	h.t.Helper()
	diffs, err := db.Collect(h.db.Read(h.t.Context()), db.Value[string], `SELECT webhook_id FROM (
		SELECT webhook_id, receipts AS a, deliveries AS b, pending AS c FROM webhook_totals WHERE org_id = $1
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), -1, 0, 0 FROM webhook_receipts WHERE `+ofOrg+`
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), 0, -1, 0 FROM webhook_deliveries WHERE `+ofOrg+`
		UNION ALL SELECT 'wh_' || substr(key, 1, 26), 0, 0, -1 FROM webhook_queue WHERE org_id = $1
		) AS facts GROUP BY webhook_id HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0`, orgID)
	must(h.t, err)
	if len(diffs) > 0 {
		h.t.Fatalf("totals differ from rows: %v", diffs)
	}
}

// queueHolds compares the queue with the pending deliveries, and the column failed with the status.
func (h *fixture) queueHolds(orgID string) {
	h.t.Helper()
	diffs, err := db.Collect(h.db.Read(h.t.Context()), db.Value[string], `SELECT key FROM (
		SELECT key, destination_id, receipt_id, date, retries, 1 AS n FROM webhook_deliveries WHERE status = 'pending' AND `+ofOrg+`
		UNION ALL SELECT key, destination_id, 'whrc_' || substr(receipt_key, 27), date, retries, -1 FROM webhook_queue WHERE org_id = $1
		) AS facts GROUP BY key, destination_id, receipt_id, date, retries HAVING SUM(n) <> 0
		UNION ALL SELECT key FROM webhook_deliveries WHERE failed <> (status = 'failed') AND `+ofOrg, orgID)
	must(h.t, err)
	if len(diffs) > 0 {
		h.t.Fatalf("the queue differs from the pending deliveries, or failed from status: %v", diffs)
	}
}
