package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/waittest"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
	"steward/internal/webhook/webhooktest"
)

// fixture is the queue with package webhook, as the app wires them, with a clock that a test can move
// and a network that it plays.
type fixture struct {
	t         testing.TB
	db        *db.DB
	clock     *clock
	store     *webhook.Store
	http      *webhook.Handler
	sender    *webhook.Sender
	scheduler *queue.Scheduler
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

// alice and bob have an organization each.
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

func newFixture(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	f := &fixture{t: t, db: d, clock: &clock{at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}}
	f.store = f.process("rep_1")
	f.http = &webhook.Handler{Store: f.store, BaseURL: "http://steward.test"}
	f.sender, f.scheduler = newScheduler(f.store, &network{})
	return f
}

// process returns the store of another process on the same database.
func (f *fixture) process(owner string) *webhook.Store {
	f.t.Helper()
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(f.t, err)
	return &webhook.Store{
		DB: f.db, Ring: ring, Now: f.clock.now, Log: silent, Queue: &queue.Store{DB: f.db, Now: f.clock.now, Owner: owner},
		Audit: &audit.Store{Now: time.Now},
	}
}

// newScheduler returns a scheduler that the store wakes.
func newScheduler(s *webhook.Store, n send.Sender) (*webhook.Sender, *queue.Scheduler) {
	sender := webhook.NewSender(s, n)
	scheduler := sender.Scheduler(3000, 128<<20)
	s.Queue.Wake = scheduler.Wake
	return sender, scheduler
}

// run runs the scheduler until the test ends.
func (f *fixture) run() { run(f.t, f.scheduler) }

func run(t testing.TB, s *queue.Scheduler) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// webhook makes a webhook.
func (f *fixture) webhook(c *auth.Caller) webhook.Webhook {
	f.t.Helper()
	w, err := f.http.Create(as(c), &struct{ Body webhook.NewWebhook }{webhook.NewWebhook{Name: "orders"}})
	must(f.t, err)
	return w
}

func config(t testing.TB, text string) (c webhook.Config) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &c))
	return c
}

// destination adds a destination to a webhook.
func (f *fixture) destination(c *auth.Caller, webhookID, configText string) webhook.Destination {
	f.t.Helper()
	d, err := f.http.CreateDestination(as(c), &struct {
		webhook.Path
		Body webhook.NewDestination
	}{webhook.Path{ID: webhookID}, webhook.NewDestination{Type: "url", Config: config(f.t, configText)}})
	must(f.t, err)
	return d
}

// change replaces the settings of a destination.
func (f *fixture) change(c *auth.Caller, d webhook.Destination, configText string) {
	f.t.Helper()
	in := &struct {
		webhook.DestinationPath
		page.IfMatch
		Body webhook.DestinationPatch
	}{DestinationPath: webhook.DestinationPath{Path: webhook.Path{ID: d.WebhookID}, DestinationID: d.ID}}
	must(f.t, json.Unmarshal([]byte(`{"config": `+configText+`}`), &in.Body))
	_, err := f.http.UpdateDestination(as(c), in)
	must(f.t, err)
}

// accept stores receipts with these bodies.
func (f *fixture) accept(w webhook.Webhook, c *auth.Caller, bodies ...string) {
	f.t.Helper()
	must(f.t, acceptBy(f.store, w, c, bodies...))
}

func acceptBy(s *webhook.Store, w webhook.Webhook, c *auth.Caller, bodies ...string) error {
	return s.DB.Write(context.Background(), func(tx *db.Tx) error { return s.AcceptEventsTx(tx, c.OrgID, w.ID, bytesOf(bodies)) })
}

func bytesOf(bodies []string) (all [][]byte) {
	for _, body := range bodies {
		all = append(all, []byte(body))
	}
	return all
}

func (f *fixture) deliveries(c *auth.Caller, webhookID string, filter webhook.Filter) (all []webhook.Delivery) {
	f.t.Helper()
	for p := (page.Paging{Limit: 1000}); ; {
		result, err := f.store.Deliveries(as(c), c.OrgID, webhookID, filter, p)
		must(f.t, err)
		all = append(all, result.Items...)
		if p.Cursor = result.Next; p.Cursor == "" {
			return all
		}
	}
}

// waitFor waits until so many deliveries of a webhook have a status.
func (f *fixture) waitFor(c *auth.Caller, w webhook.Webhook, status webhook.Status, want int) {
	f.t.Helper()
	waittest.Until(f.t, fmt.Sprintf("%d deliveries", want), func() (int, bool) {
		n := len(f.deliveries(c, w.ID, webhook.Filter{Status: status}))
		return n, n == want
	})
}

// claim leases a destination for a process and reads its queue, as a scheduler would. It reports whether
// the lease is held.
func claim(t testing.TB, s *webhook.Store, destinationID string, want int) ([]queue.Row, bool) {
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
	_, err = webhook.NewSender(s, nil).Load(context.Background(), destinationID, tasks)
	must(t, err)
	var rows []queue.Row
	for _, t := range tasks {
		rows = append(rows, t.Row)
	}
	return rows, true
}

func (f *fixture) sumsHold(orgID string) {
	f.t.Helper()
	webhooktest.SumsHold(f.t, f.db, orgID)
}

// network stands in for destinations: it records what is sent, and responds as the test says.
type network struct {
	mu      sync.Mutex
	sent    map[string][]string // bodies by URL, in the order in which the attempts began
	respond func(ctx context.Context, r send.Request) send.Result
}

func (n *network) Send(ctx context.Context, r send.Request) send.Result {
	n.mu.Lock()
	if n.sent == nil {
		n.sent = map[string][]string{}
	}
	n.sent[r.URL] = append(n.sent[r.URL], string(r.Body))
	n.mu.Unlock()
	if n.respond == nil {
		return ok()
	}
	return n.respond(ctx, r)
}

func ok() send.Result { return send.Result{Response: &send.Response{Status: 200}} }

func (n *network) bodies(url string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.sent[url])
}

// waitFor waits until so many deliveries to a URL have begun.
func (n *network) waitFor(t testing.TB, url string, want int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d deliveries to %s", want, url), func() (int, bool) {
		sent := len(n.bodies(url))
		return sent, sent >= want
	})
}

func numbered(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("%05d", i))
	}
	return bodies
}
