package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/waittest"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
)

// fixture is the slice as the app wires it, with a clock that a test can move.
type fixture struct {
	t         testing.TB
	db        *db.DB
	clock     *clock
	store     *Store
	http      *Handler
	ingest    *Ingest
	sender    *Sender
	scheduler *queue.Scheduler
	mux       *http.ServeMux
	audit     *audittest.Log
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newClock() time.Time { return time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC) }

var silent = slog.New(slog.DiscardHandler)

func newFixture(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(t, err)
	h := &fixture{t: t, db: d, audit: audittest.New(t, d), clock: &clock{at: newClock()}}
	h.store = &Store{
		DB: d, Ring: ring, Now: h.clock.now, Log: silent, Queue: &queue.Store{DB: d, Now: h.clock.now, Owner: "rep_1"},
		Audit: &audit.Store{Now: h.clock.now}, Walks: budget.NewQueue(2),
	}
	h.http = &Handler{Store: h.store, Stats: &stats.Store{DB: d, Now: h.clock.now}, BaseURL: "http://steward.test"}
	h.http.Authorize = func(r *http.Request) (*auth.Caller, error) { return auth.From(r.Context()), nil }
	h.ingest = NewIngest(h.store, 1<<20, 64<<20)
	h.http.Network = send.New(send.Egress{Loopback: true}, h.clock.now)
	h.sender = NewSender(h.store, h.http.Network)
	h.scheduler = h.sender.Scheduler(3000, 128<<20)
	h.store.Queue.Wake = h.scheduler.Wake
	h.mux = http.NewServeMux()
	h.mux.Handle("/in/{id}/{token}", h.ingest)
	return h
}

// run runs the scheduler until the test ends.
func (h *fixture) run() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.scheduler.Run(ctx) })
	h.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

var (
	alice = &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, KeyID: "key_a"}
	bob   = &auth.Caller{OrgID: "org_b", UserID: "usr_bob", Role: auth.Owner, KeyID: "key_b"}
)

func as(c *auth.Caller) context.Context { return auth.With(context.Background(), c) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Fatalf("got %v, want %s", err, kind)
	}
}

// webhook makes a webhook and gives it with the path of its ingest URL.
func (h *fixture) webhook(c *auth.Caller) (w Webhook, path string) {
	h.t.Helper()
	in := &struct{ Body NewWebhook }{NewWebhook{Name: "orders"}}
	w, err := h.http.Create(as(c), in)
	must(h.t, err)
	return w, strings.TrimPrefix(w.URL, "http://steward.test")
}

func config(t testing.TB, text string) Config {
	t.Helper()
	var c Config
	must(t, json.Unmarshal([]byte(text), &c))
	return c
}

func (h *fixture) destination(c *auth.Caller, webhookID, configText string) Destination {
	h.t.Helper()
	d, err := NewDestination{Type: "url", Config: config(h.t, configText)}.build(h.store.Now())
	must(h.t, err)
	d, err = h.store.CreateDestination(as(c), c, webhookID, d)
	must(h.t, err)
	return d
}

// post sends a body to an ingest path.
func (h *fixture) post(path, body string) *httptest.ResponseRecorder {
	return h.request(httptest.NewRequest("POST", path, strings.NewReader(body)))
}

func (h *fixture) request(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.mux.ServeHTTP(rec, r)
	return rec
}

// accept records a body without HTTP and gives the receipt's id.
func (h *fixture) accept(w Webhook, c *auth.Caller, bodies ...string) []string {
	h.t.Helper()
	var batch []*arrival
	for _, body := range bodies {
		batch = append(batch, &arrival{receipt: textReceipt(w, c, body)})
	}
	must(h.t, h.store.acceptNow(batch))
	var ids []string
	for _, a := range batch {
		must(h.t, a.err)
		ids = append(ids, a.receipt.ID)
	}
	return ids
}

func textReceipt(w Webhook, c *auth.Caller, body string) *Receipt {
	return &Receipt{
		WebhookID: w.ID, Method: "POST", Size: int64(len(body)),
		orgID: c.OrgID, body: []byte(body), headerText: `{"content-type":"text/plain"}`, ContentType: "text/plain",
	}
}

func (h *fixture) deliveries(c *auth.Caller, webhookID string, f Filter) (all []Delivery) {
	h.t.Helper()
	for p := (page.Paging{Limit: 1000}); ; {
		result, err := h.store.Deliveries(as(c), c.OrgID, webhookID, f, p)
		must(h.t, err)
		all = append(all, result.Items...)
		if p.Cursor = result.Next; p.Cursor == "" {
			return all
		}
	}
}

// eventually waits for something that happens on another goroutine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	waittest.True(t, what, ok)
}

// waitFor waits until so many deliveries of a webhook match a filter.
func (h *fixture) waitFor(c *auth.Caller, w Webhook, f Filter, want int) {
	h.t.Helper()
	waittest.Until(h.t, fmt.Sprintf("%d deliveries", want), func() (int, bool) {
		n := len(h.deliveries(c, w.ID, f))
		return n, n == want
	})
}

// sink is a destination that records what it gets and answers as it is told.
type sink struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newSink(t testing.TB, answer http.HandlerFunc) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestForward(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		h.run()
		s := newSink(t, answer(200))
		w, path := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "`+s.URL+`"}`)
		for _, body := range []string{`{"n": 1}`, `{"n": 2}`, `{"n": 3}`} {
			if rec := h.post(path, body); rec.Code != 200 {
				t.Fatalf("status %d: %s", rec.Code, rec.Body)
			}
		}
		eventually(t, "three deliveries", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 3 })
		if got := len(s.got()); got != 3 {
			t.Errorf("the sink got %d requests", got)
		}
	})
}

// sameStore returns the store of another process on the same database.
func sameStore(s *Store, owner string) *Store {
	return &Store{
		DB: s.DB, Ring: s.Ring, Now: s.Now, Log: s.Log, Audit: s.Audit, Queue: &queue.Store{DB: s.DB, Now: s.Now, Owner: owner},
	}
}

// acceptNow stores a batch in one transaction.
func (s *Store) acceptNow(batch []*arrival) error {
	return s.DB.Write(context.Background(), func(tx *db.Tx) error { return s.acceptBatch(tx, batch) })
}

func numbered(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("%05d", i))
	}
	return bodies
}

// claim leases a destination and reads its queue, as a scheduler would. It reports whether the
// lease is held.
func (s *Store) claim(t testing.TB, destinationID string, want int) ([]queue.Row, bool) {
	t.Helper()
	_, held, err := s.Queue.Lease(context.Background(), []string{destinationID})
	must(t, err)
	if len(held) == 0 {
		return nil, false
	}
	due, err := s.Queue.Due(context.Background(), destinationID, queue.Portion{Limit: want})
	must(t, err)
	var tasks []*queue.Task
	for _, row := range due {
		tasks = append(tasks, &queue.Task{Row: row})
	}
	must(t, s.load(context.Background(), tasks))
	var rows []queue.Row
	for _, t := range tasks {
		rows = append(rows, t.Row)
	}
	return rows, true
}
