package webhook

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
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
	"steward/internal/seal"
)

// house is the slice as the app wires it, with a clock that a test can move.
type house struct {
	t      testing.TB
	db     *db.DB
	clock  *clock
	store  *Store
	http   *Handler
	ingest *Ingest
	worker *Worker
	mux    *http.ServeMux
	audit  []string
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

var silent = slog.New(slog.DiscardHandler)

func newHouse(t testing.TB, d *db.DB) *house {
	t.Helper()
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(t, err)
	h := &house{t: t, db: d, clock: &clock{at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}}
	h.store = &Store{
		DB: d, Ring: ring, Now: h.clock.now, Owner: "rep_1", Lanes: NewLanes(d, h.clock.now),
		Audit: func(_ *db.Tx, action, _ string) error { h.audit = append(h.audit, action); return nil },
	}
	h.http = &Handler{Store: h.store, BaseURL: "http://steward.test"}
	h.ingest = NewIngest(h.store, 1<<20)
	h.worker = &Worker{Store: h.store, Sender: NewSender(Egress{Loopback: true}, h.clock.now), Log: silent}
	h.mux = http.NewServeMux()
	h.mux.Handle("/in/{id}/{token}", h.ingest)
	return h
}

// run starts the worker, until the test ends.
func (h *house) run() {
	ctx, stop := context.WithCancel(context.Background())
	var worker sync.WaitGroup
	worker.Go(func() { h.worker.Run(ctx) })
	h.t.Cleanup(func() {
		stop()
		worker.Wait()
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
func (h *house) webhook(c *auth.Caller) (w Webhook, path string) {
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

func (h *house) destination(c *auth.Caller, webhookID, configText string) Destination {
	h.t.Helper()
	d, err := NewDestination{Type: "url", Config: config(h.t, configText)}.build(h.store.Now())
	must(h.t, err)
	d, err = h.store.CreateDestination(as(c), c, webhookID, d)
	must(h.t, err)
	return d
}

// post sends a body to an ingest path.
func (h *house) post(path, body string) *httptest.ResponseRecorder {
	return h.request(httptest.NewRequest("POST", path, strings.NewReader(body)))
}

func (h *house) request(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.mux.ServeHTTP(rec, r)
	return rec
}

// accept records a body without HTTP and gives the receipt's id.
func (h *house) accept(w Webhook, c *auth.Caller, bodies ...string) []string {
	h.t.Helper()
	var batch []*arrival
	for _, body := range bodies {
		batch = append(batch, &arrival{receipt: &Receipt{
			WebhookID: w.ID, Method: "POST", Size: int64(len(body)),
			orgID: c.OrgID, body: []byte(body), headerText: `{"content-type":"text/plain"}`, ContentType: "text/plain",
		}})
	}
	must(h.t, h.store.acceptNow(batch))
	var ids []string
	for _, a := range batch {
		must(h.t, a.err)
		ids = append(ids, a.receipt.ID)
	}
	return ids
}

func (h *house) deliveries(c *auth.Caller, webhookID string, f Filter) (all []Delivery) {
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
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
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
		h := newHouse(t, d)
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

// sameStore gives another process's store on the same database.
func sameStore(s *Store) *Store {
	return &Store{DB: s.DB, Ring: s.Ring, Now: s.Now, Audit: s.Audit, Owner: s.Owner, Shard: s.Shard, Lanes: s.Lanes}
}

// acceptNow writes a batch in one transaction.
func (s *Store) acceptNow(batch []*arrival) error {
	return s.DB.Write(context.Background(), func(tx *db.Tx) error { return s.acceptAll(tx, batch) })
}

// claim takes the turn of a destination and reads its deliveries, as a worker would; it tells whether it was its turn.
func (s *Store) claim(t testing.TB, destinationID string, held map[string]*task, want int) ([]*task, bool) {
	t.Helper()
	_, mine, err := s.TakeTurns(context.Background(), []string{destinationID})
	must(t, err)
	if len(mine) == 0 {
		return nil, false
	}
	a := &ask{destinationID: destinationID, held: held, limit: want + len(held), bytes: laneBytes}
	must(t, s.Ready(context.Background(), []*ask{a}))
	var taken []*task
	for _, t := range a.tasks {
		if held[t.ID] == nil && len(taken) < want {
			taken = append(taken, t)
		}
	}
	return taken, true
}
