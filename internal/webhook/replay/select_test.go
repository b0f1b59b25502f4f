package replay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// TestLastDeliveriesAreFoundByReceipt shows that SQLite does not go through all deliveries of a
// destination.
func TestLastDeliveriesAreFoundByReceipt(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	lines, err := db.CollectBulk(d.Read(ctx), db.Bulk[receiptRow]{{}}, func(row db.Row) (s string, err error) {
		var a, b, c int
		return s, row.Scan(&a, &b, &c, &s)
	}, "EXPLAIN QUERY PLAN "+lastDeliveriesText(db.SQLite))
	must(t, err)
	got := strings.Join(lines, "; ")
	if !strings.Contains(got, "webhook_deliveries_receipt (receipt_id=?") || strings.Contains(got, "webhook_deliveries_destination") {
		t.Error(got)
	}
}

// TestReplaysReadFewRows shows that PostgreSQL finds the deliveries of receipts by their ids once there
// are many, also if it had planned for tables that were nearly empty.
func TestReplaysReadFewRows(t *testing.T) {
	const receipts, limit = 10_000, 50
	o := dbtest.Options(t, db.Postgres)
	o.Replan = 100 * time.Millisecond
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	f := newFixture(t, d)
	f.destination("/a", 3)
	walk := func() (found int) {
		r, err := f.create("")
		must(t, err)
		for p := (part{end: r.firstKey(), more: true}); p.more; {
			p, err = f.replays.Store.part(ctx, r, p.end, limit)
			must(t, err)
			found += len(p.items)
		}
		must(t, f.replays.Store.Cancel(ctx, "org_a", f.webhookID, r.ID))
		return found
	}
	f.accept(1)
	for range 6 { // the plan becomes generic
		walk()
	}
	must(t, d.Write(ctx, func(tx *db.Tx) error {
		return f.hooks.Store.AcceptEventsTx(tx, "org_a", f.webhookID, slices.Repeat([][]byte{[]byte("{}")}, receipts))
	}))
	if n := walk(); n != receipts+1 {
		t.Fatalf("%d receipts", n)
	}
	for _, table := range []string{"webhook_deliveries", "webhook_receipts"} {
		read := 0
		waittest.Until(t, "statistics of "+table, func() (int, bool) {
			must(t, f.replays.Store.DB.Read(ctx).Row(`SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
				WHERE relname = $1`, table).Scan(&read))
			return read, read >= receipts
		})
		if read > 10*receipts {
			t.Errorf("%s: %d rows were read for %d receipts", table, read, receipts)
		}
	}
}
