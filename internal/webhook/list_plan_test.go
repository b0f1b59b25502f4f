package webhook

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
)

// TestListsReadFewRows shows for every combination of filters that PostgreSQL reads what is listed and
// counted, and not all that a webhook has.
func TestListsReadFewRows(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	h := newFixture(t, d)
	w, _ := h.webhook(alice)
	f := listFixture{fixture: h, url: o.URL, hook: w.ID}
	f.fill(20_000)
	// One transaction has one connection, and so one cache of plans.
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		f.tx = tx
		f.readAll()
		return nil
	}))
}

type listFixture struct {
	*fixture
	url  string
	tx   *db.Tx
	hook string
}

// fill inserts n receipts and 2n deliveries: those of whds_a have all failed but ten, those of whds_b
// have all succeeded but ten, and the oldest forty are of whds_c; n more are pending, ten of them to
// whds_b, and nine of ten wait for a retry. The organization has another webhook with as many.
func (f listFixture) fill(n int) {
	f.t.Helper()
	other, _ := f.webhook(alice)
	conn, err := pgx.Connect(f.t.Context(), f.url)
	must(f.t, err)
	defer func() { must(f.t, conn.Close(f.t.Context())) }()
	for _, hook := range []string{f.hook, other.ID} {
		key := `'` + bare(hook) + `' || lpad(i::text, 26, '0')`
		for _, text := range []string{
			`INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
				SELECT %[2]s, i, 'POST', '', '', '', 0, '{}', '' FROM generate_series(1, %[1]d) i`,
			`INSERT INTO webhook_deliveries (key, destination_id, receipt_id, date, status, failed, failing, retries)
				SELECT %[2]s, 'whds_' || CASE WHEN i <= 40 THEN 'c' WHEN i %% 2 = 0 THEN 'a' ELSE 'b' END, 'whrc_' || lpad((i / 3)::text, 26, '0'),
					i, CASE WHEN failed THEN 'failed' ELSE 'success' END, failed, failed, 0
				FROM (SELECT i, (i %% 2 = 0) <> (i %% (%[1]d / 5) IN (52, 53)) AS failed FROM generate_series(1, 2 * %[1]d) i) x`,
			`INSERT INTO webhook_queue (key, org_id, destination_id, receipt_key, date, retries, due_at, size)
				SELECT %[2]s, 'org_a', 'whds_' || CASE WHEN i %% (%[1]d / 10) = 0 THEN 'b' ELSE 'a' END, %[2]s, i, CASE WHEN i %% 10 = 1 THEN 0 ELSE 1 END, i, 0
				FROM generate_series(2 * %[1]d + 1, 3 * %[1]d) i`,
			`INSERT INTO webhook_totals (org_id, webhook_id, receipts, deliveries, pending)
				VALUES ('` + alice.OrgID + `', '` + hook + `', %[1]d, 2 * %[1]d, %[1]d)`,
		} {
			_, err := conn.Exec(f.t.Context(), fmt.Sprintf(text, n, key))
			must(f.t, err)
		}
	}
	dbtest.Vacuum(f.t, f.url)
}

// readAll reads each list.
func (f listFixture) readAll() {
	f.t.Helper()
	since, until := stamp.Time(0), stamp.Of(f.clock.now())
	for _, span := range []Filter{{}, {Since: &since, Until: &until}} {
		f.read("receipts", span, func(ctx context.Context, p page.Paging) (int, int64, error) {
			got, err := f.store.Receipts(ctx, alice.OrgID, f.hook, ReceiptFilter{Since: span.Since, Until: span.Until}, p)
			return len(got.Items), got.Total, err
		})
		for _, receiptID := range []string{"", fmt.Sprintf("whrc_%026d", 700)} {
			for _, destinationID := range []string{"", "whds_a", "whds_b", "whds_c"} {
				for _, status := range []Status{"", Pending, Waiting, Success, Failed, Failing} {
					if status == Success && receiptID == "" {
						continue // no index has successes only, so what precedes them is read
					}
					filter := Filter{Status: status, DestinationID: destinationID, ReceiptID: receiptID, Since: span.Since, Until: span.Until}
					f.readDeliveries(filter)
				}
			}
		}
	}
}

func (f listFixture) readDeliveries(filter Filter) {
	f.t.Helper()
	f.read("deliveries", filter, func(ctx context.Context, p page.Paging) (int, int64, error) {
		got, err := f.store.Deliveries(ctx, alice.OrgID, f.hook, filter, p)
		return len(got.Items), got.Total, err
	})
}

// read reads the first page of a list and one that begins deep in it, six times each: the sixth plan is
// made without the values of the arguments.
func (f listFixture) read(name string, filter Filter, list func(context.Context, page.Paging) (int, int64, error)) {
	f.t.Helper()
	for _, p := range []page.Paging{{Limit: 10}, {Limit: 10, Offset: 15_000}} {
		for range 6 {
			f.store.large = page.CountCache{}
			readBefore, fetchedBefore := dbtest.RowsRead(f.t, f.tx, "webhook")
			n, total, err := list(f.tx.Context(), p)
			must(f.t, err)
			read, fetched := dbtest.RowsRead(f.t, f.tx, "webhook")
			read -= readBefore
			fetched -= fetchedBefore
			// The queue has no index of destinations in the order of the list.
			isWalk := (filter.Status == Pending || filter.Status == Waiting) && filter.DestinationID != ""
			if most := mostRows(p, total); read > most || fetched > 100 && !isWalk {
				f.t.Errorf("%s with receipt %q, destination %q, status %q, since %v, offset %d: %d rows were read, want at most %d, "+
					"and %d fetched, for %d of %d", name, filter.ReceiptID, filter.DestinationID, filter.Status, filter.Since,
					p.Offset, read, most, fetched, n, total)
			}
		}
	}
}

// mostRows returns how many rows may be read for a page of ten: those of the page, twice as many as are
// counted, and the keys that are skipped.
func mostRows(p page.Paging, total int64) int64 {
	const few = 100
	if total == page.Unknown {
		return few + 2*(page.MaxCounted+1) + int64(p.Offset)
	}
	if total <= few {
		return 2 * few
	}
	return few + int64(p.Offset)
}

// TestDestinationListReadsFewEntriesOfItsIndex shows that PostgreSQL reads about as many entries for the
// deliveries of a destination in a short time as are counted at most, and not all of the destination.
func TestDestinationListReadsFewEntriesOfItsIndex(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	h := newFixture(t, d)
	w, _ := h.webhook(alice)
	listFixture{fixture: h, url: o.URL, hook: w.ID}.fill(50_000)
	since := stamp.Of(h.clock.now()) // all are older
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		for _, status := range []Status{"", Failed, Failing} {
			before := dbtest.BlocksRead(t, tx, "webhook_deliveries_")
			got, err := h.store.Deliveries(tx.Context(), alice.OrgID, w.ID,
				Filter{DestinationID: "whds_a", Status: status, Since: &since}, page.Paging{Limit: 10})
			must(t, err)
			// A block has about 80 entries.
			if read := dbtest.BlocksRead(t, tx, "webhook_deliveries_") - before; len(got.Items) != 0 || got.Total != 0 || read > 400 {
				t.Errorf("status %q: %d blocks were read for %d of %d deliveries", status, read, len(got.Items), got.Total)
			}
		}
		return nil
	}))
}

// TestHealthReadsFewRows shows that PostgreSQL reads of a destination's waiting attempts as many as are
// counted, whatever else is in the queue, and not the deliveries.
func TestHealthReadsFewRows(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	h := newFixture(t, d)
	w, _ := h.webhook(alice)
	to := h.waiting(alice, w, 1)
	conn, err := pgx.Connect(t.Context(), o.URL)
	must(t, err)
	defer func() { must(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO webhook_queue (key, org_id, destination_id, receipt_key, date, retries, due_at, size)
		SELECT lpad(i::text, 52, '0'), 'org_a', $1, '', i, CASE WHEN i > 50000 THEN 1 ELSE 0 END, i, 0 FROM generate_series(1, 100000) i`, to.ID)
	must(t, err)
	dbtest.Vacuum(t, o.URL)
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		for range 6 {
			before, _ := dbtest.RowsRead(t, tx, "webhook")
			health, err := h.store.Health(tx.Context(), alice.OrgID)
			must(t, err)
			after, _ := dbtest.RowsRead(t, tx, "webhook")
			if f := health.Failing; len(f) != 1 || f[0].Waiting != page.MaxCounted || *f[0].NextDueAt != 50_001 || after-before > page.MaxCounted+100 {
				t.Errorf("%d rows were read for %+v", after-before, f)
			}
		}
		return nil
	}))
}
