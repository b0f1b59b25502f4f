package replay

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/idempotency"
	"steward/internal/waittest"
	"steward/internal/web"
	"steward/internal/webhook"
)

// post sends a replay with an Idempotency-Key.
func (f *fixture) post(body string) *httptest.ResponseRecorder {
	store := &idempotency.Store{DB: f.replays.Store.DB, Ring: f.hooks.Store.Ring, Now: time.Now}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), alice))
	}
	table := []web.Route{web.On("POST /replay/{webhookId}", "", auth.WriteWebhooks, 201, "", f.replays.Create).WithAlternative(200, Count{})}
	r := httptest.NewRequest("POST", "/replay/"+f.webhookID, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", "k")
	rec := httptest.NewRecorder()
	web.NewAPI(table, guard, store.Serve).ServeHTTP(rec, r)
	return rec
}

// TestCountingLeavesTheWriterToOthers has another organization's event be accepted while a dry run with
// an Idempotency-Key counts.
func TestCountingLeavesTheWriterToOthers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.destination("/a", 0)
		f.accept(3)
		waittest.True(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > lastMilli(f) })
		bob := auth.With(t.Context(), &auth.Caller{OrgID: "org_b", UserID: "usr_bob", Role: auth.Owner})
		other, err := f.hooks.Create(bob, &struct{ Body webhook.NewWebhook }{webhook.NewWebhook{Name: "others"}})
		must(t, err)

		f.replays.Store.counting.Lock() // a dry run counts for as long as it is held
		began := make(chan bool, 10)
		f.replays.Store.Now = func() time.Time {
			began <- true
			return time.Now()
		}
		const dryRun = `{"since": "2026-01-01T00:00:00Z", "dry_run": true}`
		answered := make(chan *httptest.ResponseRecorder, 1)
		go func() { answered <- f.post(dryRun) }()
		waittest.Receive(t, "the dry run to begin", began)
		accepted := make(chan int, 1)
		go func() {
			rec := httptest.NewRecorder()
			f.ingest.ServeHTTP(rec, httptest.NewRequest("POST", other.URL, strings.NewReader("{}")))
			accepted <- rec.Code
		}()
		if got := waittest.Receive(t, "the event of another organization to be accepted", accepted); got != 200 {
			t.Errorf("ingest returned %d", got)
		}
		f.replays.Store.counting.Unlock()

		first := waittest.Receive(t, "the result of the dry run", answered)
		f.accept(1)
		again := f.post(dryRun)
		if first.Code != 200 || !strings.Contains(first.Body.String(), `"total":3`) || again.Body.String() != first.Body.String() {
			t.Errorf("%d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
		}
	})
}
