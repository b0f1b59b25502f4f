package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/webhooktest"
)

// TestAnswers has destinations that answer in every way, and looks at the first attempt and what
// follows it.
func TestAnswers(t *testing.T) {
	headers := func(status int, name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, value)
			w.WriteHeader(status)
			fmt.Fprint(w, "said")
		}
	}
	const soon, later = 4 * time.Second, 6 * time.Second
	tenMB := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 10<<20)) }
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	late := headers(503, "Retry-After", "Sun, 15 Nov 2026 08:40:00 GMT")
	far := headers(503, "Retry-After", "Tue, 15 Nov 2050 08:40:00 GMT")
	tests := map[string]struct {
		answer  http.HandlerFunc
		status  Status
		error   string
		follows bool
		least   time.Duration // of the pause before the next attempt
		most    time.Duration
	}{
		"200":       {answer(200), Success, "", false, 0, 0},
		"204":       {answer(204), Success, "", false, 0, 0},
		"301":       {headers(301, "Location", "http://127.0.0.1:1/"), Failed, "redirects are not followed", true, soon, later},
		"404":       {answer(404), Failed, "answered 404", true, soon, later},
		"410":       {answer(410), Failed, "was disabled", false, 0, 0},
		"429":       {headers(429, "Retry-After", "120"), Failed, "answered 429", true, 120 * time.Second, 120 * time.Second},
		"503 long":  {far, Failed, "answered 503", true, 24 * time.Hour, 24 * time.Hour},
		"429 long":  {headers(429, "Retry-After", "999999999"), Failed, "answered 429", true, 24 * time.Hour, 24 * time.Hour},
		"503 date":  {late, Failed, "answered 503", true, 10 * time.Minute, 10 * time.Minute},
		"500":       {answer(500), Failed, "answered 500", true, soon, later},
		"10 MB":     {tenMB, Success, "", false, 0, 0},
		"not UTF-8": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\xff\x00") }, Success, "", false, 0, 0},
		"close":     {cut, Failed, "closed the connection", true, soon, later},
		"hang":      {hang, Failed, "did not answer within 1 s", true, soon, later},
		"garbage":   {garbage, Failed, "not valid HTTP", true, soon, later},
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		h.run()
		for name, test := range tests {
			s := newSink(t, test.answer)
			w, _ := h.webhook(alice)
			timeout := 30
			if name == "hang" {
				timeout = 1
			}
			to := h.destination(alice, w.ID, fmt.Sprintf(`{"url": %q, "timeout_seconds": %d}`, s.URL, timeout))
			h.accept(w, alice, "x")
			done := func() []Delivery {
				other := func(d Delivery) bool { return d.Retries > 0 || d.Status == Pending }
				return slices.DeleteFunc(h.deliveries(alice, w.ID, Filter{}), other)
			}
			eventually(t, name+" ends", func() bool { return len(done()) == 1 })
			first := done()[0]
			said := ""
			if first.Error != nil {
				said = *first.Error
			}
			if first.Status != test.status || (said == "") != (test.error == "") || !strings.Contains(said, test.error) {
				t.Errorf("%s: %+v %q", name, first, said)
			}
			r := responseOf(t, first.Response)
			if len(r.Body) > 16<<10 {
				t.Errorf("%s: %d bytes of the answer are kept", name, len(r.Body))
			}
			if name == "429" && (r.Body != "said" || r.Headers["retry-after"] != "120") {
				t.Errorf("%s: response %+v", name, r)
			}
			next := h.deliveries(alice, w.ID, Filter{Status: Pending})
			if (len(next) == 1) != test.follows {
				t.Errorf("%s: next attempts %+v", name, next)
			} else if test.follows {
				var due stamp.Time
				must(t, d.Read(t.Context()).Row(`SELECT due_at FROM webhook_queue WHERE key = $1`, next[0].key).Scan(&due))
				if pause := due.Sub(stamp.Of(h.clock.now())); pause < test.least || pause > test.most || next[0].Retries != 1 {
					t.Errorf("%s: next attempt after %v, retries %d", name, pause, next[0].Retries)
				}
			}
			list, err := h.store.Destinations(as(alice), "org_a", w.ID)
			must(t, err)
			if c := list[0].Config; c.Disabled != (name == "410") || c.URL != s.URL || c.TimeoutSeconds != timeout || list[0].ID != to.ID {
				t.Errorf("%s: destination %+v", name, list[0])
			}
		}
		webhooktest.SumsHold(t, h.db, "org_a")
	})
}

// responseOf decodes what the destination answered, if it did.
func responseOf(t *testing.T, a *StoredResponse) (r Response) {
	t.Helper()
	if a != nil {
		must(t, json.Unmarshal([]byte(*a), &r))
	}
	return r
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = fmt.Fprint(conn, "ceci n'est pas HTTP\r\n\r\n")
		conn.Close()
	}
}

// TestChainEndsWithItsDestination has attempts fail while their destination is disabled or deleted:
// no other one follows.
func TestChainEndsWithItsDestination(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		off := config(t, `{"url": "http://sink.test", "disabled": true}`)
		for name, end := range map[string]func(w Webhook, to Destination) error{
			"lives": func(Webhook, Destination) error { return nil },
			"disabled": func(w Webhook, to Destination) error {
				_, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, &off, page.IfMatch{})
				return err
			},
			"deleted": func(w Webhook, to Destination) error {
				return h.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, page.IfMatch{})
			},
		} {
			w, _ := h.webhook(alice)
			to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
			h.accept(w, alice, "x")
			tasks, _ := h.store.claim(t, to.ID, 1)
			must(t, end(w, to))
			counted, _, err := h.store.Finish(t.Context(), []queue.Result{{Row: tasks[0], Error: "no", MaxRetries: 3}})
			if must(t, err); len(counted) != 1 {
				t.Errorf("%s: %d results counted", name, len(counted))
			}
			if waiting := len(h.deliveries(alice, w.ID, Filter{Status: Pending})); (waiting > 0) != (name == "lives") {
				t.Errorf("%s: %d attempts follow", name, waiting)
			}
		}
	})
}

// TestChain lets a delivery fail until the chain ends, and retries it by hand.
func TestChain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		h.run()
		var healthy atomic.Bool
		s := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
			if !healthy.Load() {
				w.WriteHeader(500)
			}
		})
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "`+s.URL+`", "max_retries": 2}`)
		h.accept(w, alice, "x")
		failed := func(n int) func() bool {
			return func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Failed})) == n }
		}
		eventually(t, "first failure", failed(1))
		waiting := h.deliveries(alice, w.ID, Filter{Status: Pending})
		if len(waiting) != 1 || waiting[0].Retries != 1 {
			t.Fatalf("waiting %+v", waiting)
		}
		_, err := h.store.Retry(as(alice), "org_a", w.ID, waiting[0].ID)
		mustBe(t, err, errs.Conflict)
		first := h.deliveries(alice, w.ID, Filter{Status: Failed})[0]
		again, err := h.store.Retry(as(alice), "org_a", w.ID, first.ID)
		must(t, err)
		if again.ID != waiting[0].ID {
			t.Errorf("retry gave %s, not the waiting %s", again.ID, waiting[0].ID)
		}
		eventually(t, "second failure", failed(2))
		h.clock.advance(40 * time.Second)
		eventually(t, "third failure", failed(3))
		if left := h.deliveries(alice, w.ID, Filter{Status: Pending}); len(left) != 0 {
			t.Fatalf("beyond max_retries: %+v", left)
		}
		healthy.Store(true)
		added, err := h.store.Retry(as(alice), "org_a", w.ID, first.ID)
		must(t, err)
		if added.Retries != 3 || added.Status != Pending {
			t.Errorf("added %+v", added)
		}
		eventually(t, "success", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 1 })
		_, err = h.store.Retry(as(alice), "org_a", w.ID, added.ID)
		mustBe(t, err, errs.Conflict)
		_, err = h.store.Retry(as(alice), "org_a", w.ID, "whdv_none")
		mustBe(t, err, errs.NotFound)
		webhooktest.SumsHold(t, h.db, "org_a")
	})
}

// TestRetriesAreDueInTime: a retry is found by Heads when it is due, and not before.
func TestRetriesAreDueInTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		soon := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		late := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		h.accept(w, alice, "x")
		for to, pause := range map[string]time.Duration{soon.ID: 10 * time.Second, late.ID: time.Minute} {
			taken, _ := h.store.claim(t, to, 1)
			r := queue.Result{Row: taken[0], At: taken[0].Date, Error: "x", RetryAfter: pause, MaxRetries: 1}
			_, _, err := h.store.Finish(t.Context(), []queue.Result{r})
			must(t, err)
		}
		for _, step := range []struct {
			pause time.Duration
			want  []string
		}{
			{9 * time.Second, nil},
			{time.Second, []string{soon.ID}},
			{49 * time.Second, []string{soon.ID}},
			{time.Second, []string{soon.ID, late.ID}},
		} {
			h.clock.advance(step.pause)
			heads, err := h.store.Queue.Heads(t.Context(), 0)
			must(t, err)
			var due []string
			for _, head := range heads {
				due = append(due, head.DestinationID)
			}
			slices.Sort(due)
			if !slices.Equal(due, step.want) {
				t.Errorf("after %v more: %v, want %v", step.pause, due, step.want)
			}
		}
	})
}

func TestFilters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		a := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		b := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		one := h.accept(w, alice, "one")[0]
		h.clock.advance(time.Minute)
		mid := stamp.Of(h.clock.now())
		two := h.accept(w, alice, "two")[0]
		taken, _ := h.store.claim(t, a.ID, 10)
		good, bad := queue.Result{Row: taken[0], At: mid}, queue.Result{Row: taken[1], At: mid, Error: "x"}
		_, _, err := h.store.Finish(t.Context(), []queue.Result{good, bad})
		must(t, err)
		for name, test := range map[string]struct {
			f    Filter
			want int
		}{
			"all":         {Filter{}, 4},
			"success":     {Filter{Status: Success}, 1},
			"failed":      {Filter{Status: Failed}, 1},
			"pending":     {Filter{Status: Pending}, 2},
			"destination": {Filter{DestinationID: b.ID}, 2},
			"both":        {Filter{DestinationID: b.ID, Status: Failed}, 0},
			"receipt":     {Filter{ReceiptID: one}, 2},
			"other":       {Filter{ReceiptID: two, DestinationID: a.ID, Status: Failed}, 1},
			"since":       {Filter{Since: &mid}, 2},
			"until":       {Filter{Until: &mid}, 2},
			"none":        {Filter{Since: &mid, Until: &mid}, 0},
			"to, since":   {Filter{DestinationID: b.ID, Since: &mid}, 1},
			"to, until":   {Filter{DestinationID: b.ID, Until: &mid}, 1},
			"to, never":   {Filter{DestinationID: b.ID, Since: &mid, Until: &mid}, 0},
			"good, since": {Filter{DestinationID: a.ID, Status: Success, Since: &mid}, 0},
			"bad, since":  {Filter{DestinationID: a.ID, Status: Failed, Since: &mid}, 1},
		} {
			result, err := h.store.Deliveries(as(alice), "org_a", w.ID, test.f, page.Paging{Limit: 1})
			must(t, err)
			if result.Total != int64(test.want) || len(result.Items) != min(1, test.want) {
				t.Errorf("%s: %d of %d, want %d", name, len(result.Items), result.Total, test.want)
			}
			if got := len(h.deliveries(alice, w.ID, test.f)); got != test.want {
				t.Errorf("%s: %d, want %d", name, got, test.want)
			}
		}
		result, err := h.store.Receipts(as(alice), "org_a", w.ID, ReceiptFilter{Since: &mid}, page.Paging{Limit: 9})
		must(t, err)
		if result.Total != 1 || result.Items[0].ID != two {
			t.Errorf("receipts since: %+v", result)
		}
	})
}
