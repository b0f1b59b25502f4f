package webhook

import (
	"cmp"
	"encoding/json"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/webhooktest"
)

func TestRetention(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		r := &Retention{Store: h.store, Keep: 48 * time.Hour}
		w, _ := h.webhook(alice)
		short, err := h.http.Create(as(alice), &createIn{NewWebhook{Name: "short", Retention: page.Some(int64(3600))}})
		must(t, err)
		var many []string
		for range sweepRows + 100 {
			many = append(many, "x")
		}
		h.accept(w, alice, many...)
		h.accept(short, alice, "x")
		to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		h.accept(w, alice, "done", "pending")
		taken, _ := h.store.claim(t, to.ID, 1)
		_, _, err = h.store.Finish(t.Context(), []queue.Result{{Row: taken[0], At: taken[0].Date}})
		must(t, err)
		webhooktest.SumsHold(t, h.db, "org_a")
		h.clock.advance(2 * time.Hour)
		h.accept(w, alice, "new")
		must(t, r.Run(t.Context()))
		if a, b := len(h.receipts(w)), len(h.receipts(short)); a != sweepRows+103 || b != 0 {
			t.Errorf("after 2 h: %d and %d receipts", a, b)
		}
		_, err = d.Exec(t.Context(), `INSERT INTO webhook_leases (destination_id, owner, expires_at) VALUES ('of no destination', '', 0)`)
		must(t, err)
		must(t, h.store.Queue.PurgeLeases(t.Context()))
		var leases int
		if must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_leases`).Scan(&leases)); leases != 1 {
			t.Errorf("%d leases are kept, want that of the destination", leases)
		}
		h.clock.advance(47 * time.Hour)
		must(t, r.Run(t.Context()))
		left := h.receipts(w)
		if len(left) != 2 || string(left[1].Payload) != `"pending"` || string(left[0].Payload) != `"new"` {
			t.Errorf("after 49 h: %+v", left)
		}
		if n := len(h.deliveries(alice, w.ID, Filter{})); n != 2 {
			t.Errorf("%d deliveries are left", n)
		}
		webhooktest.TotalsHold(t, h.db, "org_a")
		sums, err := h.http.Analytics(as(alice), &struct{ stats.Query }{stats.Query{Query: period.Query{Granularity: "day", Start: "2026-11-01T00:00:00Z"}}})
		must(t, err)
		if sums.Summary.Received != sweepRows+104 || sums.Summary.Delivered != 1 {
			t.Errorf("counts did not stay: %+v", sums.Summary)
		}
	})
}

// many adds more old receipts to a webhook than one sweep removes of it.
func (h *fixture) many(w Webhook) {
	h.t.Helper()
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
			INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
			SELECT $1 || printf('%026d', i), i, '', '', '', '', 0, '{}', x'' FROM n`, bare(w.ID), sweepRows*sweepRounds+1)
		return err
	}))
}

// TestRetentionKeepsPace: one run removes more than one sweep does, when there is more; and a
// deleted webhook is not forgotten before all of it is gone.
func TestRetentionKeepsPace(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	r := &Retention{Store: h.store, Keep: time.Hour}
	w, _ := h.webhook(alice)
	deleted, _ := h.webhook(alice)
	h.many(deleted)
	must(t, h.store.Delete(as(alice), "org_a", deleted.ID, page.IfMatch{}))
	h.clock.advance(2 * tombstoneFor)
	wants := func(receipts, tombstones int64) {
		t.Helper()
		var rows, stones int64
		must(t, h.db.Read(t.Context()).Row(`SELECT (SELECT count(*) FROM webhook_receipts), (SELECT count(*) FROM webhook_tombstones)`).
			Scan(&rows, &stones))
		if rows != receipts || stones != tombstones {
			t.Errorf("%d receipts and %d tombstones are left, want %d and %d", rows, stones, receipts, tombstones)
		}
	}
	must(t, r.sweep(t.Context()))
	wants(1, 1)
	h.many(w)
	must(t, r.Run(t.Context()))
	wants(0, 0)
}

// TestCascade deletes a webhook with all that belongs to it.
func TestCascade(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		other, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		h.destination(alice, other.ID, `{"url": "http://127.0.0.1:1"}`)
		receiptID := h.accept(w, alice, "a", "b")[0]
		h.accept(other, alice, "c")
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		_, err := h.store.Receipt(as(alice), "org_a", w.ID, receiptID)
		mustBe(t, err, errs.NotFound)
		_, err = h.store.Destinations(as(alice), "org_a", w.ID)
		mustBe(t, err, errs.NotFound)
		r := &Retention{Store: h.store, Keep: 48 * time.Hour}
		must(t, r.Run(t.Context()))
		h.clock.advance(2 * tombstoneFor)
		must(t, r.Run(t.Context()))
		const byID, byKey = `webhook_id`, `'wh_' || substr(key, 1, 26)`
		for table, hook := range map[string]string{
			"destinations": byID, "receipts": byKey, "deliveries": byKey, "queue": byKey, "totals": byID, "tombstones": byID,
			"counts_each": byID,
		} {
			var n int
			must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_`+table+` WHERE `+hook+` = $1`, w.ID).Scan(&n))
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		if len(h.receipts(other)) != 1 || len(h.deliveries(alice, other.ID, Filter{})) != 1 {
			t.Error("another webhook lost rows")
		}
		webhooktest.TotalsHold(t, h.db, "org_a")
	})
}

func TestAnalytics(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.accept(w, alice, "a", "b")
		h.clock.advance(90 * time.Minute)
		h.accept(w, alice, "c")
		ask := func(start, end string, g period.Granularity) (stats.Timeseries, error) {
			return h.http.Timeseries(as(alice), &struct{ stats.Query }{stats.Query{Query: period.Query{Start: start, End: end, Granularity: g}}})
		}
		s, err := ask("2026-11-15T08:00:00+00:00", "2026-11-15T10:30:00Z", "hour")
		must(t, err)
		if len(s.Series) != 3 || s.Series[0].Received != 2 || s.Series[1].Received != 0 || s.Series[2].Received != 1 ||
			s.Series[1].Timestamp.String() != "2026-11-15T09:00:00.000Z" || s.Period.End.String() != "2026-11-15T11:00:00.000Z" {
			t.Errorf("series %+v", s)
		}
		s, err = ask("", "", "hour")
		must(t, err)
		if len(s.Series) != 24 {
			t.Errorf("the last 24 hours have %d buckets", len(s.Series))
		}
		s, err = ask("2026-11-08T17:20:00Z", "2026-11-15T16:00:00Z", "minute")
		must(t, err)
		if len(s.Series) != 10_000 {
			t.Errorf("%d buckets", len(s.Series))
		}
		const end = "2026-11-15T16:00:00Z"
		for _, start := range []string{"2026-11-08T17:19:00Z", end, "yesterday"} {
			_, err = ask(start, end, "minute")
			mustBe(t, err, errs.Invalid)
		}
		for _, value := range []any{stats.Analytics{}.SDK(), s.SDK()} {
			text, err := encode.Value(nil, value)
			must(t, err)
			var named struct {
				Analytics, Timeseries *struct{ Period *period.Period }
			}
			must(t, json.Unmarshal(text, &named))
			if v := cmp.Or(named.Analytics, named.Timeseries); v == nil || v.Period == nil {
				t.Errorf("the SDK face needs the values named: %.40s", text)
			}
		}
	})
}
