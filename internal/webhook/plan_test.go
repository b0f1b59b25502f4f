package webhook

import (
	"strconv"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook/queue"
)

// destinationRange is what SQLite says of the range of a destination's keys.
const destinationRange = "((destination_id,key)>(?,?) AND (destination_id,key)<(?,?))"

// TestPlans shows that SQLite answers filtered lists, retention and retry from the index that is
// meant for each.
func TestPlans(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	scan := func(row db.Row) (s string, err error) {
		var a, b, c int
		return s, row.Scan(&a, &b, &c, &s)
	}
	plan := func(text string, args ...any) string {
		lines, err := db.Collect(d.Read(t.Context()), scan, "EXPLAIN QUERY PLAN "+text, args...)
		must(t, err)
		return strings.Join(lines, "; ")
	}
	at := stamp.Of(newClock())
	for name, test := range map[string]struct {
		table string
		f     Filter
		index string
	}{
		"receipts":             {receiptTable, Filter{}, "sqlite_autoindex_webhook_receipts_1 (key>? AND key<?)"},
		"all":                  {deliveryTable, Filter{}, "PRIMARY KEY (key>? AND key<?)"},
		"time":                 {deliveryTable, Filter{Since: &at}, "PRIMARY KEY (key>? AND key<?)"},
		"success":              {deliveryTable, Filter{Status: Success}, "PRIMARY KEY (key>? AND key<?)"},
		"failed":               {deliveryTable, Filter{Status: Failed}, "webhook_deliveries_failed (key>? AND key<?)"},
		"failing":              {deliveryTable, Filter{Status: Failing}, "webhook_deliveries_failing (key>? AND key<?)"},
		"failing then":         {deliveryTable, Filter{Status: Failing, Since: &at}, "webhook_deliveries_failing (key>? AND key<?)"},
		"failed then":          {deliveryTable, Filter{Status: Failed, Since: &at}, "webhook_deliveries_failed (key>? AND key<?)"},
		"destination":          {deliveryTable, Filter{DestinationID: "x"}, "webhook_deliveries_destination " + destinationRange},
		"destination, success": {deliveryTable, Filter{DestinationID: "x", Status: Success}, "webhook_deliveries_destination " + destinationRange},
		"destination, failed":  {deliveryTable, Filter{DestinationID: "x", Status: Failed}, "webhook_deliveries_failed_of " + destinationRange},
		"destination, failing": {deliveryTable, Filter{DestinationID: "x", Status: Failing}, "webhook_deliveries_failing_of " + destinationRange},
		"receipt, failing":     {deliveryTable, Filter{ReceiptID: "x", Status: Failing}, "webhook_deliveries_receipt (receipt_id=?"},
		"receipt":              {deliveryTable, Filter{ReceiptID: "x", Status: Failed}, "webhook_deliveries_receipt (receipt_id=?"},
		"all of a receipt":     {deliveryTable, Filter{ReceiptID: "x", Status: Failed, DestinationID: "x", Until: &at}, "webhook_deliveries_receipt (receipt_id=?"},
		"pending":              {queueTable, Filter{Status: Pending}, "PRIMARY KEY (key>? AND key<?)"},
		"waiting":              {queueTable, Filter{Status: Waiting}, "webhook_queue_waiting (key>? AND key<?)"},
		"destination, waiting": {queueTable, Filter{Status: Waiting, DestinationID: "x"}, "webhook_queue_waiting (key>? AND key<?)"},
		"receipt, waiting":     {deliveryTable, Filter{Status: Waiting, ReceiptID: "x"}, "webhook_deliveries_receipt (receipt_id=?"},
		"destination, pending": {queueTable, Filter{Status: Pending, DestinationID: "x"}, "PRIMARY KEY (key>? AND key<?)"},
	} {
		for _, columns := range []string{"date", "key"} {
			text, args := statementOf(t, deliveryList("org_a", "wh_w", test.f, false), columns)
			if test.table == receiptTable {
				text, args = statementOf(t, new(Store).receiptList("wh_w", ReceiptFilter{}), columns)
			}
			got := plan(text, args...)
			if !strings.Contains(text, " FROM "+test.table+" WHERE ") {
				t.Errorf("%s is not read from %s: %s", name, test.table, text)
			}
			if !strings.Contains(got, test.index) || strings.Contains(got, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, got)
			}
			isPartial := test.f.ReceiptID == "" && (test.f.Status == Failed || test.f.Status == Failing)
			if isPartial && columns == "key" && !strings.Contains(got, "USING COVERING INDEX") {
				t.Errorf("%s: the count reads the table: %s", name, got)
			}
		}
	}
	text, args := statementOf(t, deliveryList("org_a", "wh_w", Filter{Status: Pending, DestinationID: "x"}, true), "date")
	got := plan(text, args...)
	if !strings.Contains(got, "webhook_queue_due (destination_id=?)") {
		t.Errorf("few pending deliveries of a destination: %s", got)
	}
	text, args = statementOf(t, deliveryList("org_a", "wh_w", Filter{Status: Waiting, DestinationID: "x"}, true), "date")
	got = plan(text, args...)
	if !strings.Contains(got, "webhook_queue_retries (destination_id=?)") {
		t.Errorf("few waiting deliveries of a destination: %s", got)
	}
	got = plan(failingText, "org_a", 10)
	if strings.Count(got, "COVERING INDEX webhook_queue_retries (destination_id=?)") != 2 || !strings.Contains(got, "webhook_destinations_failing (org_id=?") ||
		strings.Contains(got, "SCAN webhook") {
		t.Errorf("failing destinations: %s", got)
	}
	lines, err := db.CollectBulk(d.Read(t.Context()), db.Bulk[waitingQuestion]{{}}, scan, "EXPLAIN QUERY PLAN "+waitingOf)
	must(t, err)
	got = strings.Join(lines, "; ")
	if !strings.Contains(got, "SEARCH d USING INDEX webhook_deliveries_receipt (receipt_id=?)") {
		t.Errorf("waiting attempts of receipts: %s", got)
	}
	lines, err = db.CollectBulk(d.Read(t.Context()), db.Bulk[attempt]{{}}, scan, "EXPLAIN QUERY PLAN "+failingBefore)
	must(t, err)
	got = strings.Join(lines, "; ")
	if !strings.Contains(got, "SEARCH d USING INDEX webhook_deliveries_receipt (receipt_id=?)") {
		t.Errorf("failing attempts of receipts: %s", got)
	}
	for text, index := range map[string]string{
		statesOf:   "SEARCH d USING INDEX webhook_deliveries_receipt (receipt_id=?)",
		receiptsOf: "SEARCH r USING INDEX sqlite_autoindex_webhook_receipts_1 (key=?)",
	} {
		lines, err = db.CollectBulk(d.Read(t.Context()), db.Bulk[string]{"x", "y"}, scan, "EXPLAIN QUERY PLAN "+text)
		must(t, err)
		if got = strings.Join(lines, "; "); !strings.Contains(got, index) {
			t.Errorf("latest states: %s", got)
		}
	}
	got = plan(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE key = $1`, "x")
	if !strings.Contains(got, "SEARCH n USING INDEX webhook_deliveries_receipt (receipt_id=?)") {
		t.Errorf("next attempt: %s", got)
	}
	got = plan(`SELECT key FROM webhook_receipts WHERE key >= $1 AND key < $2`+unusedOnly+` ORDER BY key`, "a", "b")
	if !strings.Contains(got, "webhook_deliveries_receipt (receipt_id=?") {
		t.Errorf("retention: %s", got)
	}
	for table, receiptID := range map[string]string{receiptTable: receiptIDColumn, deliveryTable: "receipt_id"} {
		got := plan(receiptOf(table, receiptID), "org_a", "x")
		if !strings.Contains(got, "SEARCH webhooks USING") || !strings.Contains(got, "SEARCH "+table+" USING") || !strings.Contains(got, "(key=?)") {
			t.Errorf("search in %s: %s", table, got)
		}
	}
}

// statementOf returns the statement that reads columns of a page.
func statementOf[T any](t *testing.T, l list.Query[T], columns string) (text string, args []any) {
	t.Helper()
	l.Columns = columns
	text, args, err := l.Statement(page.Paging{Limit: 1, Offset: 9})
	must(t, err)
	return text, args
}

// TestBatchesReadFewRows shows that PostgreSQL, as it is, finds the rows of a batch by their keys once
// there are many, also with plans that were made when the tables were nearly empty: a plan that scans a
// table for each row would read thousands of times as many.
func TestBatchesReadFewRows(t *testing.T) {
	const size, batches = 50, 200
	h := newFixture(t, dbtest.Open(t, db.Postgres))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	forward := func() (sent int) {
		rows, _ := h.store.claim(t, to.ID, size)
		var results []queue.Result
		for _, d := range rows {
			results = append(results, queue.Result{Row: d, At: stamp.Of(h.clock.now())})
		}
		counted, _, err := h.store.Finish(t.Context(), results)
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
	for _, table := range []string{queueTable, deliveryTable, receiptTable} {
		read := 0
		waittest.Until(t, "statistics of "+table, func() (int, bool) {
			forward() // a session reports what it read when it does something
			must(t, h.db.Read(t.Context()).Row(`SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
				WHERE relname = $1`, table).Scan(&read))
			return read, read >= size*batches
		})
		if read > 10*size*batches {
			t.Errorf("%s: %d rows were read for %d deliveries", table, read, size*batches)
		}
	}
}

// TestResultsAreWrittenByKey shows that PostgreSQL does not compare deliveries with all results of a batch
// when its statistics say that none is pending, as they do when they were taken at a quiet time.
func TestResultsAreWrittenByKey(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	_, err := d.Exec(db.Long(t.Context()), `INSERT INTO webhook_deliveries (key, destination_id, receipt_id, date, status, failed, retries)
		SELECT 'k' || i, 'whds_a', 'whrc_' || i, i, 'success', false, 0 FROM generate_series(1, 100000) i`)
	must(t, err)
	_, err = d.Exec(db.Long(t.Context()), `ANALYZE webhook_deliveries`)
	must(t, err)
	ended := make(db.Bulk[endedRow], 4000)
	for i := range ended {
		ended[i] = endedRow{Key: "p" + strconv.Itoa(i), Status: Success}
	}
	lines, err := db.CollectBulk(d.Read(t.Context()), ended, db.Value[string], "EXPLAIN "+endPending)
	must(t, err)
	plan := strings.Join(lines, "\n")
	if strings.Contains(plan, "Nested Loop") && strings.Contains(plan, "Seq Scan on webhook_deliveries") {
		t.Error(plan)
	}
}
