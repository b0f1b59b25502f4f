package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/webhook/filter"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/webhooktest"
)

func (h *fixture) setFilter(d Destination, text string) Destination {
	h.t.Helper()
	c := config(h.t, `{"url": "http://a.test", "filter": `+text+`}`)
	d, err := h.store.UpdateDestination(as(alice), DestinationRef{d.orgID, d.WebhookID, d.ID}, &c, page.IfMatch{})
	must(h.t, err)
	return d
}

func (h *fixture) states(w Webhook) (all []string) {
	h.t.Helper()
	for _, r := range h.receipts(w) {
		d := r.Deliveries
		all = append(all, fmt.Sprintf("%s %d/%d", r.Payload, d.Pending, d.Filtered))
	}
	return all
}

func wantStates(t *testing.T, h *fixture, w Webhook, want ...string) {
	t.Helper()
	if got := h.states(w); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("payload, pending and filtered: %q, want %q", got, want)
	}
}

func TestFiltersDecideWhatIsDelivered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://all.test"}`)
		paid := h.destination(alice, w.ID, `{"url": "http://paid.test", "filter": {"body": {"type": "paid"}}}`)
		shop := h.destination(alice, w.ID, `{"url": "http://shop.test", "filter": {"query": {"shop": "de"}, "headers": {"x-kind": {"$startsWith": "order"}}, "method": "POST"}}`)
		h.destination(alice, w.ID, `{"url": "http://off.test", "disabled": true, "filter": {"body": {"type": "paid"}}}`)
		wantStatus(t, h.post(path, `{"type":"paid"}`), 200)
		wantStatus(t, h.post(path, `{"type":"open"}`), 200)
		r := httptest.NewRequest("POST", path+"?shop=de", strings.NewReader(`{"type":"open"}`))
		r.Header.Set("X-Kind", "order.open")
		wantStatus(t, h.request(r), 200)
		wantStates(t, h, w, `{"type":"open"} 2/1`, `{"type":"open"} 1/2`, `{"type":"paid"} 2/1`)
		if n := len(h.deliveries(alice, w.ID, Filter{DestinationID: paid.ID})); n != 1 {
			t.Errorf("%d deliveries of what is paid", n)
		}
		h.setFilter(shop, `null`)
		paid = h.setFilter(paid, `{"body": {"type": "open"}}`)
		if text, _ := json.Marshal(paid); !strings.Contains(string(text), `"filter": {"body": {"type": "open"}}`) && !strings.Contains(string(text), `"filter":{"body":{"type":"open"}}`) {
			t.Errorf("the answer is %s", text)
		}
		wantStatus(t, h.post(path, `{"type":"open","n":2}`), 200)
		wantStates(t, h, w, `{"type":"open","n":2} 3/0`, `{"type":"open"} 2/1`, `{"type":"open"} 1/2`, `{"type":"paid"} 2/1`)
		text, err := json.Marshal(h.receipts(w)[1])
		must(t, err)
		if !strings.Contains(string(text), `"deliveries":{"succeeded":0,"failing":0,"pending":2,"filtered":1}`) {
			t.Errorf("the receipt is %s", text)
		}
		for i, want := range []int64{0, 1, 2, 1} {
			r := h.receipts(w)[i]
			alone, err := h.store.Receipt(t.Context(), "org_a", w.ID, r.ID)
			must(t, err)
			if r.Filtered != 0 || alone.Filtered != want {
				t.Errorf("%s: filtered is %d in the list and %d alone, want 0 and %d", r.ID, r.Filtered, alone.Filtered, want)
			}
			key := rowKey(w.ID, r.ID)
			tailed, err := h.store.ReceiptsByKey(t.Context(), "org_a", []string{key})
			must(t, err)
			text, err := json.Marshal(tailed[key])
			must(t, err)
			if got := strings.Contains(string(text), fmt.Sprintf(`,"filtered":%d}`, want)); got != (want > 0) || strings.Contains(string(text), "deliveries") {
				t.Errorf("a tail shows %s, want %d filtered", text, want)
			}
		}
		h.clock.advance(time.Minute)
		sums, err := h.http.Stats.Analytics(t.Context(), "org_a", stats.Query{WebhookID: w.ID, Query: period.Query{Granularity: period.Hour}})
		must(t, err)
		if want := (stats.Summary{Received: 4, Filtered: 4}); sums.Summary != want {
			t.Errorf("analytics %+v, want %+v", sums.Summary, want)
		}
	})
}

func TestSystemEventsAreFiltered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://a.test", "filter": {"body": {"n": 1}, "headers": {"content-type": "application/json"}}}`)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			return h.store.AcceptEventsTx(tx, "org_a", w.ID, [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`)})
		}))
		wantStates(t, h, w, `{"n":2} 0/1`, `{"n":1} 1/0`)
	})
}

// TestFilterThatChangedMeanwhileDecides: the transaction goes by the filter that is stored.
func TestFilterThatChangedMeanwhileDecides(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://a.test", "filter": {"body": 1}}`)
		r := textReceipt(w, alice, "1")
		a := &arrival{receipt: r, event: eventOf(r, "{}")}
		h.store.decide(a, `{"body": 1}`)
		h.setFilter(to, `{"body": 2}`)
		must(t, h.store.Accept(t.Context(), a))
		wantStates(t, h, w, `1 0/1`)
	})
}

// TestLargeBodyIsNotFilteredInTheTransaction: Ingest filters again instead.
func TestLargeBodyIsNotFilteredInTheTransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://a.test", "filter": {"body": "old"}}`)
		body := `"` + strings.Repeat("x", largeBody) + `"`
		r := textReceipt(w, alice, body)
		a := &arrival{receipt: r, event: eventOf(r, "{}")}
		h.store.decide(a, `{"body": "old"}`)
		h.setFilter(to, `{"body": "new"}`)
		if err := h.store.Accept(t.Context(), a); !errors.Is(err, errUndecided) {
			t.Fatalf("accept: %v", err)
		}
		wantStates(t, h, w)
		must(t, NewIngest(h.store, 1<<20, 64<<20).store(t.Context(), a, token{}))
		wantStates(t, h, w, body+` 0/1`)
	})
}

// TestSlowFiltersDoNotHoldUpOthers has an organization evaluate many filters for a body that takes them long. Others
// get their turn meanwhile.
func TestSlowFiltersDoNotHoldUpOthers(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	slow, slowPath := h.webhook(alice)
	var terms []string
	for i := range 90 {
		terms = append(terms, fmt.Sprintf(`"%d"`, i))
	}
	for i := range 20 {
		h.destination(alice, slow.ID, fmt.Sprintf(`{"url": "http://a.test", "filter": {"body": {"$or": [%s, "x%d"]}}}`, strings.Join(terms, ","), i))
	}
	other, path := h.webhook(bob)
	h.destination(bob, other.ID, `{"url": "http://b.test", "filter": {"body": {"a": 1}}}`)
	ended := make(chan int, 1)
	go func() { ended <- h.post(slowPath, "["+strings.Repeat("1,", 50_000)+"1]").Code }()
	large := `{"b": "` + strings.Repeat("x", largeFiltering) + `"}`
	for n := 0; ; n++ {
		select {
		case status := <-ended:
			if status != 200 || n < 5 {
				t.Errorf("status %d, and the other organization had %d events accepted meanwhile", status, n)
			}
			return
		default:
			wantStatus(t, h.post(path, large), 200)
		}
	}
}

// TestFilteredCountsAreExact accepts through two processes while the filter changes.
func TestFilteredCountsAreExact(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://a.test", "filter": {"body": {"n": 0}}}`)
		other := NewIngest(sameStore(h.store, "rep_2"), 1<<20, 64<<20)
		var sending sync.WaitGroup
		const senders, each = 4, 25
		for i := range senders {
			sending.Go(func() {
				for n := range each {
					r := httptest.NewRequest("POST", path, strings.NewReader(fmt.Sprintf(`{"n": %d}`, n%3)))
					rec := httptest.NewRecorder()
					if i%2 == 0 {
						h.mux.ServeHTTP(rec, r)
					} else {
						r.SetPathValue("id", w.ID)
						r.SetPathValue("token", path[len(path)-tokenSize:])
						other.ServeHTTP(rec, r)
					}
					if rec.Code != 200 {
						t.Errorf("status %d: %s", rec.Code, rec.Body)
					}
				}
			})
		}
		for n := range 10 {
			h.setFilter(to, fmt.Sprintf(`{"body": {"n": %d}}`, n%3))
		}
		sending.Wait()
		pending, filtered := int64(0), int64(0)
		for _, r := range h.receipts(w) {
			if r.Deliveries.Pending+r.Deliveries.Filtered != 1 {
				t.Errorf("%s: %+v", r.Payload, r.Deliveries)
			}
			pending += r.Deliveries.Pending
			filtered += r.Deliveries.Filtered
		}
		if pending+filtered != senders*each || int64(len(h.deliveries(alice, w.ID, Filter{}))) != pending {
			t.Errorf("%d pending and %d filtered of %d", pending, filtered, senders*each)
		}
		webhooktest.SumsHold(t, d, "org_a")
	})
}

func TestFiltersAreChecked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		for text, at := range map[string]string{
			`{"body": {"a": {"$regex": "x"}}}`: "body.config.filter.body.a.$regex", `[]`: "body.config.filter", `"x"`: "body.config.filter",
		} {
			_, err := h.http.CreateDestination(as(alice), &struct {
				Path
				Body NewDestination
			}{Path{w.ID}, NewDestination{Type: "url", Config: config(t, `{"url": "http://a.test", "filter": `+text+`}`)}})
			mustBe(t, err, errs.Invalid)
			if got := errs.Of(err).Faults[0].Location; got != at {
				t.Errorf("%s: the fault is at %s", text, got)
			}
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO processes (id, seen_at, schema) VALUES ('rep_old', $1, $2)`, h.clock.now().UnixMicro(), schemaOfFilter-1)
			return err
		}))
		c := config(t, `{"url": "http://a.test", "filter": {"method": "POST"}}`)
		to := h.destination(alice, w.ID, `{"url": "http://a.test"}`)
		_, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, &c, page.IfMatch{})
		mustBe(t, err, errs.Conflict)
	})
}

// TestKeyOfAnEarlierVersionIsNoFilter: earlier versions stored any key of config.
func TestKeyOfAnEarlierVersionIsNoFilter(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://a.test"}`)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE webhook_destinations SET config = $1 WHERE id = $2`,
				h.store.Ring.Seal(configPurpose, []byte(`{"url": "http://a.test", "filter": "only mine"}`)), to.ID)
			return err
		}))
		wantStatus(t, h.post(path, "{}"), 200)
		wantStates(t, h, w, `{} 1/0`)
		list := func() string {
			all, err := h.http.Destinations(as(alice), &Path{w.ID})
			must(t, err)
			return strings.Join(all[0].Ignored, " ")
		}
		if got := list(); got != "filter" {
			t.Errorf("ignored is %q", got)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return h.store.disableGone(tx, to.ID) }))
		if got := list(); got != "filter" {
			t.Errorf("ignored is %q after it was disabled", got)
		}
		h.setFilter(to, `{"body": {"a": 1}}`)
		if got := list(); got != "" {
			t.Errorf("ignored is %q after an update", got)
		}
	})
}

func (h *fixture) testFilter(c *auth.Caller, w Webhook, text string) (all []string) {
	h.t.Helper()
	found, err := h.http.TestFilter(as(c), &struct {
		Path
		Body FilterTest
	}{Path{w.ID}, FilterTest{Filter: FilterText(text)}})
	must(h.t, err)
	for _, m := range found {
		all = append(all, fmt.Sprintf("%s %v", m.ReceiptID, m.Matches))
	}
	return all
}

func TestFilterTest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		r := httptest.NewRequest("POST", path, strings.NewReader(`{"n":1}`))
		r.Header.Set("X-Api-Key", "hidden")
		wantStatus(t, h.request(r), 200)
		wantStatus(t, h.post(path, `{"n":2}`), 200)
		all := h.receipts(w)
		second, first := all[0].ID, all[1].ID
		check := func(c *auth.Caller, text string, ofFirst, ofSecond bool) {
			t.Helper()
			want := fmt.Sprintf("[%s %v %s %v]", second, ofSecond, first, ofFirst)
			if got := fmt.Sprint(h.testFilter(c, w, text)); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
		check(alice, `{"body":{"n":1}}`, true, false)
		check(alice, `{}`, true, true)
		check(alice, `{"headers":{"x-api-key":{"$startsWith":"hid"}}}`, true, false)
		stale := &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, Stale: true}
		check(stale, `{"headers":{"x-api-key":{"$startsWith":"hid"}}}`, false, false)
		check(stale, `{"headers":{"x-api-key":"***"}}`, true, false)
		_, err := h.http.TestFilter(as(bob), &struct {
			Path
			Body FilterTest
		}{Path{w.ID}, FilterTest{Filter: FilterText(`{}`)}})
		mustBe(t, err, errs.NotFound)
		var faults errs.Faults
		FilterTest{Filter: FilterText(`{"x":1}`)}.Check(&faults)
		if !faults.Has("body.filter.x") {
			t.Errorf("faults: %v", faults.Err())
		}
	})
}

func TestFilteredCountsGoWithTheirReceipts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://a.test", "filter": {"body": 1}}`)
		wantStatus(t, h.post(path, "2"), 200)
		count := func() (n int) {
			must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_filtered`).Scan(&n))
			return n
		}
		retention := &Retention{Store: h.store, Keep: time.Hour}
		must(t, retention.Run(t.Context()))
		if count() != 1 {
			t.Fatal("the count of a kept receipt is gone")
		}
		h.clock.advance(2 * time.Hour)
		must(t, retention.Run(t.Context()))
		if n := count(); n != 0 {
			t.Errorf("%d are left with retention", n)
		}
		wantStatus(t, h.post(path, "2"), 200)
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		must(t, retention.Run(t.Context()))
		if n := count(); n != 0 {
			t.Errorf("%d are left of a deleted webhook", n)
		}
	})
}

// TestUnreadableFilterDeliversEverything: nothing is lost for a filter of a later version.
func TestUnreadableFilterDeliversEverything(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	if !h.store.matches(`{"later": 1}`, &filter.Event{Method: "POST", Headers: "{}"}) {
		t.Error("it keeps requests back")
	}
}
