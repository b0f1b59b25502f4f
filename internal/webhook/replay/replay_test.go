package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

var alice = &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, KeyID: "key_a"}

var ctx = auth.With(context.Background(), alice)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a webhook with a sink.
type fixture struct {
	t         *testing.T
	hooks     *webhook.Handler
	replays   *Handler
	worker    *Worker
	webhookID string
	ingest    http.Handler
	path      string
	sink      *httptest.Server

	mu     sync.Mutex
	got    map[string][]string // ids of receipts, by path of the sink
	status map[string]int      // by path; 200 if there is none
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	lines := &audit.Store{Now: time.Now}
	hooks := &webhook.Store{
		DB: d, Ring: ring, Now: time.Now, Log: log, Audit: lines, Queue: &queue.Store{DB: d, Now: time.Now, Owner: "rep_1"},
	}
	replays := &Store{DB: d, Now: time.Now, Audit: lines, Hooks: hooks}
	hooks.Replayed = replays.Ended
	f := &fixture{
		t: t, hooks: &webhook.Handler{Store: hooks}, replays: &Handler{Store: replays}, worker: NewWorker(replays, log, "rep_1"),
		got: map[string][]string{}, status: map[string]int{},
	}
	f.sink = httptest.NewServer(http.HandlerFunc(f.receive))
	t.Cleanup(f.sink.Close)
	mux := http.NewServeMux()
	mux.Handle("/in/{id}/{token}", webhook.NewIngest(hooks, 1<<20, 64<<20))
	f.ingest = mux
	w, err := f.hooks.Create(ctx, &struct{ Body webhook.NewWebhook }{webhook.NewWebhook{Name: "orders"}})
	must(t, err)
	f.webhookID = w.ID
	f.path = w.URL
	return f
}

func (f *fixture) receive(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got[r.URL.Path] = append(f.got[r.URL.Path], r.Header.Get("Webhook-Id"))
	if status := f.status[r.URL.Path]; status != 0 {
		w.Header().Set("Retry-After", "3600") // no retry comes due while a test runs
		w.WriteHeader(status)
	}
}

func (f *fixture) respond(path string, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status[path] = status
}

// arrived returns what came to a path since the last call.
func (f *fixture) arrived(path string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got[path]
	delete(f.got, path)
	return got
}

// runScheduler sends deliveries until the test ends.
func (f *fixture) runScheduler() {
	sender := webhook.NewSender(f.hooks.Store, send.New(send.Egress{Loopback: true}, time.Now))
	scheduler := sender.Scheduler(1000, 128<<20)
	f.hooks.Store.Queue.Wake = scheduler.Wake
	f.run(scheduler.Run)
}

func (f *fixture) run(loop func(context.Context)) {
	running, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { loop(running) })
	f.t.Cleanup(func() { stop(); group.Wait() })
}

// destination creates a destination at a path of the sink.
func (f *fixture) destination(path string, maxRetries int) string {
	f.t.Helper()
	var body webhook.NewDestination
	must(f.t, json.Unmarshal([]byte(`{"type": "url", "config": {"concurrency": 1, "max_retries": `+fmt.Sprint(maxRetries)+
		`, "url": "`+f.sink.URL+path+`"}}`), &body))
	d, err := f.hooks.CreateDestination(ctx, &struct {
		webhook.Path
		Body webhook.NewDestination
	}{webhook.Path{ID: f.webhookID}, body})
	must(f.t, err)
	return d.ID
}

// accept stores n receipts and returns their ids.
func (f *fixture) accept(n int) (ids []string) {
	f.t.Helper()
	for range n {
		rec := httptest.NewRecorder()
		f.ingest.ServeHTTP(rec, httptest.NewRequest("POST", f.path, strings.NewReader("{}")))
		var receipt struct{ ID string }
		must(f.t, json.Unmarshal(rec.Body.Bytes(), &receipt))
		ids = append(ids, receipt.ID)
	}
	return ids
}

// create creates a replay of everything that was accepted so far, with the fields of a body.
func (f *fixture) create(fields string) (Replay, error) {
	var body NewReplay
	must(f.t, json.Unmarshal([]byte(`{"since": "2026-01-01T00:00:00Z"`+fields+`}`), &body))
	waittest.True(f.t, "the next millisecond", func() bool { return time.Now().UnixMilli() > lastMilli(f) })
	return f.replays.Create(ctx, &struct {
		webhook.Path
		Body NewReplay
	}{webhook.Path{ID: f.webhookID}, body})
}

// lastMilli returns when the last receipt was accepted: a replay is of what is older than itself.
func lastMilli(f *fixture) int64 {
	p, err := f.hooks.Store.Receipts(ctx, "org_a", f.webhookID, webhook.ReceiptFilter{}, page.Paging{Limit: 1})
	must(f.t, err)
	if len(p.Items) == 0 {
		return 0
	}
	return int64(p.Items[0].Date) / 1000
}

func (f *fixture) get(r Replay) Replay {
	f.t.Helper()
	got, err := f.replays.Store.Get(ctx, "org_a", f.webhookID, r.ID)
	must(f.t, err)
	return got
}

// wait waits until a replay is done.
func (f *fixture) wait(r Replay) (got Replay) {
	f.t.Helper()
	waittest.Until(f.t, "the end of the replay", func() (int64, bool) {
		got = f.get(r)
		return got.Done, got.State == Done
	})
	return got
}

func (f *fixture) deliveries(filter webhook.Filter) []webhook.Delivery {
	f.t.Helper()
	p, err := f.hooks.Store.Deliveries(ctx, "org_a", f.webhookID, filter, page.Paging{Limit: 1000})
	must(f.t, err)
	slices.Reverse(p.Items)
	return p.Items
}

func (f *fixture) waitEnded() {
	f.t.Helper()
	waittest.Until(f.t, "the end of all deliveries that are due", func() (int, bool) {
		pending := slices.DeleteFunc(f.deliveries(webhook.Filter{Status: webhook.Pending}), func(d webhook.Delivery) bool { return d.Retries > 0 })
		return len(pending), len(pending) == 0
	})
}

// TestReplaysSelect has receipts that went to two destinations, one of which failed for some, and
// replays with each filter.
func TestReplaysSelect(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		nowhere := f.accept(2)
		a := f.destination("/a", 3)
		onlyA := f.accept(3)
		b := f.destination("/b", 0)
		f.respond("/b", 500)
		both := f.accept(4)
		f.waitEnded()
		f.respond("/b", 200)
		c := f.destination("/c", 3)
		f.run(f.worker.Run)
		for i, test := range []struct {
			fields  string
			a, b, c []string
		}{
			{`, "status": "failed"`, nil, both, nil},
			{`, "status": "failed"`, nil, nil, nil}, // now they have succeeded
			{``, slices.Concat(onlyA, both), both, nil},
			{`, "destinationId": "` + b + `"`, nil, both, nil},
			{`, "to": "` + c + `", "destinationId": "` + b + `"`, nil, nil, both},
			{`, "to": "` + c + `"`, nil, nil, slices.Concat(nowhere, onlyA, both)},
			{`, "to": "` + a + `", "status": "pending"`, nil, nil, nil},
			{`, "until": "2026-01-02T00:00:00Z"`, nil, nil, nil},
			{`, "destinationId": "` + c + `", "status": "success"`, nil, nil, slices.Concat(nowhere, onlyA, both)},
		} {
			f.waitEnded()
			for _, path := range []string{"/a", "/b", "/c"} {
				f.arrived(path)
			}
			want := int64(len(test.a) + len(test.b) + len(test.c))
			dry, err := f.create(test.fields + `, "dry_run": true`)
			if must(t, err); dry.Total != want {
				t.Errorf("%d: a dry run counts %d, want %d", i, dry.Total, want)
			}
			made, err := f.create(test.fields)
			if must(t, err); made.Total != want || made.State != Running {
				t.Errorf("%d: created as %+v, want a total of %d", i, made, want)
			}
			got := f.wait(made)
			if got.Total != want || got.Done != want || got.Failed != 0 || got.FinishedAt == nil {
				t.Errorf("%d: ended as %+v, want a total of %d", i, got, want)
			}
			for path, want := range map[string][]string{"/a": test.a, "/b": test.b, "/c": test.c} {
				if got := f.arrived(path); !slices.Equal(got, want) {
					t.Errorf("%d: %s got %v, want %v", i, path, got, want)
				}
			}
		}
	})
}

// TestReplayedDeliveriesAreChainsOfTheirOwn checks replay_id, the counts of first attempts, and the
// retry of a delivery of a replay.
func TestReplayedDeliveriesAreChainsOfTheirOwn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		f.destination("/a", 3)
		f.accept(2)
		f.waitEnded()
		f.respond("/a", 500)
		f.run(f.worker.Run)
		made, err := f.create("")
		must(t, err)
		got := f.wait(made)
		if got.Total != 2 || got.Done != 2 || got.Failed != 2 {
			t.Errorf("ended as %+v", got)
		}
		f.respond("/a", 200)
		var chain []webhook.Delivery
		for _, d := range f.deliveries(webhook.Filter{}) {
			if d.ReplayID == made.ID {
				chain = append(chain, d)
			} else if d.ReplayID != "" || d.Retries != 0 {
				t.Errorf("a delivery of the receipt itself: %+v", d)
			}
		}
		if len(chain) != 4 || chain[0].Retries != 0 || chain[2].Retries != 1 || chain[2].Status != webhook.Pending {
			t.Fatalf("deliveries of the replay: %+v", chain)
		}
		next, err := f.hooks.Store.Retry(ctx, "org_a", f.webhookID, chain[0].ID)
		must(t, err)
		if next.Retries != 1 || next.ReplayID != made.ID {
			t.Errorf("retried as %+v", next)
		}
		f.hooks.Store.Queue.Wake([]string{next.DestinationID})
		waittest.True(t, "the retry", func() bool { return len(f.deliveries(webhook.Filter{Status: webhook.Success})) == 3 })
		if again := f.get(made); again.Done != 2 || again.Failed != 2 || again.State != Done {
			t.Errorf("after a retry: %+v", again)
		}
	})
}

// TestReplaysKeepToTheirWindowAndRate adds deliveries while nothing is sent.
func TestReplaysKeepToTheirWindowAndRate(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(window + 20)
		to := f.destination("/a", 3)
		fast, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		slow, err := f.create(`, "rate": 10, "to": "` + to + `"`)
		must(t, err)
		for range 5 {
			_, err := f.worker.step(ctx)
			must(t, err)
		}
		if got := f.get(fast); got.added != window || got.Total != window+20 || got.walked {
			t.Errorf("without a rate: %+v", got)
		}
		got := f.get(slow)
		if limit := int64(ahead.Seconds()*10) + 1; got.added < 10 || got.added > limit+int64(time.Since(got.CreatedAt.Std()).Seconds()*10) {
			t.Errorf("at a rate: %+v", got)
		}
		var last stamp.Time
		for _, d := range f.deliveries(webhook.Filter{Status: webhook.Pending}) {
			if d.ReplayID != slow.ID {
				continue
			}
			if last != 0 && d.DueAt.Sub(last) < 100*time.Millisecond {
				t.Errorf("due %v after the one before", d.DueAt.Sub(last))
			}
			last = *d.DueAt
		}
	})
}

// TestWorkersAddNothingTwice has several workers move the same replay on, as if the lease were lost.
func TestWorkersAddNothingTwice(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		want := f.accept(300)
		to := f.destination("/a", 3)
		made, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		for i := range 4 {
			w := NewWorker(f.replays.Store, f.worker.Log, fmt.Sprint("rep_", i))
			w.renewed = time.Now().Add(time.Hour) // it takes the lease for granted
			f.run(w.Run)
		}
		got := f.wait(made)
		if got.Total != 300 || got.Done != 300 {
			t.Errorf("ended as %+v", got)
		}
		if sent := f.arrived("/a"); !slices.Equal(sent, want) {
			t.Errorf("%d were sent, want %d in order", len(sent), len(want))
		}
	})
}

// TestLongReplaysAreCountedByTheWorker has a replay of which nothing was counted by the request.
func TestLongReplaysAreCountedByTheWorker(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(30)
		to := f.destination("/a", 3)
		made, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		must(t, d.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE webhook_replays SET total = 0, counted = false, counted_to = added_to`)
			return err
		}))
		if err := f.worker.add(ctx, f.get(made)); err != nil {
			t.Fatal(err)
		}
		if got := f.get(made); got.added != 0 || got.walked {
			t.Fatalf("what is not counted was added: %+v", got)
		}
		_, err = f.worker.step(ctx)
		must(t, err)
		if got := f.get(made); got.Total != 30 || got.added != 30 || !got.counted || !got.walked || got.State != Running {
			t.Errorf("after a step: %+v", got)
		}
	})
}

// TestReplayStates has every action in every state.
func TestReplayStates(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(3)
		to := f.destination("/a", 3)
		put := map[State]string{
			Running:   `state = 'running', walked = true, added = 3, done = 2, finished_at = NULL`,
			Done:      `state = 'done', walked = true, added = 3, done = 3, finished_at = 1`,
			Cancelled: `state = 'cancelled', walked = false, added = 3, done = 2, finished_at = 1`,
		}
		for _, test := range []struct {
			in     State
			action string
			want   State
			err    errs.Kind
		}{
			{Running, "cancel", Cancelled, ""},
			{Done, "cancel", Done, errs.Conflict},
			{Cancelled, "cancel", Cancelled, ""},
			{Running, "end the last", Done, ""},
			{Cancelled, "end the last", Cancelled, ""},
			{Cancelled, "step", Cancelled, ""},
			{Done, "step", Done, ""},
			{Running, "step", Running, ""},
		} {
			made, err := f.create(`, "to": "` + to + `"`)
			must(t, err)
			must(t, d.Write(ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(`UPDATE webhook_replays SET `+put[test.in]+` WHERE id = $1`, made.ID)
				return err
			}))
			switch test.action {
			case "cancel":
				err = f.replays.Store.Cancel(ctx, "org_a", f.webhookID, made.ID)
			case "end the last":
				err = d.Write(ctx, func(tx *db.Tx) error {
					one := webhook.ReplayResult{Replay: webhook.Replay{OrgID: "org_a", WebhookID: f.webhookID, ID: made.ID}, Done: 1, Failed: 1}
					return f.replays.Store.Ended(tx, []webhook.ReplayResult{one})
				})
			case "step":
				_, err = f.worker.step(ctx)
			}
			if errs.KindOf(err) != test.err && (err != nil || test.err != "") {
				t.Errorf("%s, %s: %v", test.in, test.action, err)
			}
			got := f.get(made)
			if got.State != test.want || (got.FinishedAt != nil) != (test.want != Running) {
				t.Errorf("%s, %s: %+v, want %s", test.in, test.action, got, test.want)
			}
			if test.action != "step" {
				continue
			}
			if n := len(f.deliveries(webhook.Filter{})); n != 0 {
				t.Errorf("%s: %d deliveries were added", test.in, n)
			}
			_ = f.replays.Store.Cancel(ctx, "org_a", f.webhookID, made.ID) // so that few are running
		}
	})
}
