package alert

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/eval"
	"steward/internal/mail"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/status"
	"steward/internal/web"
	"steward/internal/webhook"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
)

var silent = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture has organizations org_a, the first one, and org_b, with a webhook and a destination each, and a
// receiver of notices.
type fixture struct {
	t         *testing.T
	db        *db.DB
	handler   *Handler
	evaluator *Evaluator
	worker    *Worker
	backup    status.Backup
	url       string // the receiver's

	mu       sync.Mutex
	now      time.Time
	down     bool // whether the receiver refuses notices
	received []received
}

// received is a request that the receiver got.
type received struct {
	id   string
	body map[string]any
}

const (
	hookA = "wh_01jcq43f5h8k1n4q7t0w3z6c9a"
	hookB = "wh_01jcq43f5h8k1n4q7t0w3z6c9b"
)

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newFixture(t, d)) })
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	f := &fixture{t: t, db: d, now: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}
	log := &audit.Store{DB: d, Now: f.clock}
	accounts := &account.Store{DB: d, Now: f.clock, Audit: log}
	hooks := &webhook.Store{DB: d, Ring: ring, Now: f.clock, Log: silent, Audit: log}
	store := &Store{
		DB: d, Ring: ring, Now: f.clock, Audit: log, Accounts: accounts, Mail: &mail.Store{DB: d, Ring: ring, Now: f.clock}, HasBackups: true,
	}
	network := send.New(send.Egress{Loopback: true}, f.clock)
	t.Cleanup(network.Close)
	f.handler = &Handler{Store: store, SendTest: func(ctx context.Context, _ string, r send.Request) (send.Result, error) {
		return network.Send(ctx, r), nil
	}}
	f.evaluator = &Evaluator{
		Store: store, Webhooks: hooks, Counts: &stats.Store{DB: d, Now: f.clock}, Log: silent,
		Evals:     &eval.Store{DB: d, Now: f.clock, Audit: log, Accounts: accounts, Decoding: web.NewDecoding()},
		Processes: &status.Processes{DB: d, Now: f.clock, ID: "rep_1", Dir: t.TempDir()},
		Backup:    func(context.Context) (status.Backup, error) { return f.backup, nil },
	}
	f.worker = &Worker{Store: store, Network: network, Log: silent}
	server := httptest.NewServer(http.HandlerFunc(f.receive))
	t.Cleanup(server.Close)
	f.url = server.URL + "/services/secret"
	f.exec(`INSERT INTO orgs (id, name, created_at) VALUES ('org_a', 'A', 0), ('org_b', 'B', 1)`)
	f.exec(`INSERT INTO users (id, email, first_name, last_name, created_at, updated_at, version) VALUES ('usr_a', 'ada@example.com', 'Ada', 'L', 0, 0, 1)`)
	f.exec(`INSERT INTO members (org_id, user_id, role, disabled, created_at, updated_at, version) VALUES ('org_a', 'usr_a', 'owner', false, 0, 0, 1)`)
	for org, hook := range map[string]string{"org_a": hookA, "org_b": hookB} {
		f.exec(`INSERT INTO webhooks (org_id, id, name, internal, token_hash, created_by, created_at, updated_at, version)
			VALUES ($1, $2, 'orders', false, $3, 'usr_a', 0, 0, 1)`, org, hook, []byte{1})
		f.exec(`INSERT INTO webhook_destinations (org_id, webhook_id, id, type, disabled, config, secret, internal, created_by, created_at,
			updated_at, version, failing_count) VALUES ($1, $2, $3, 'url', false, $4, $4, false, 'usr_a', 0, 0, 1, 0)`,
			org, hook, "whds"+hook[2:], ring.Seal("webhook.destination.config", []byte(`{"url":"https://hooks.example.com/private"}`)))
	}
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), sql, args...)
	must(f.t, err)
}

func (f *fixture) receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	one := received{id: r.Header.Get("Webhook-Id")}
	_ = json.Unmarshal(body, &one.body)
	f.received = append(f.received, one)
}

// events returns the types of the notices that the receiver got.
func (f *fixture) events() (events []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.received {
		kind, _ := one.body["type"].(string)
		events = append(events, kind)
	}
	return events
}

func (f *fixture) as(orgID string) context.Context {
	return auth.With(f.t.Context(), &auth.Caller{UserID: "usr_a", OrgID: orgID, Role: auth.Owner})
}

// create makes an alert in org_a.
func (f *fixture) create(n NewAlert) Alert {
	f.t.Helper()
	if n.Name == "" {
		n.Name = "Orders"
	}
	if n.Target.Type == "" {
		n.Target = Target{Type: Webhook, URL: f.url}
	}
	a, err := f.handler.Create(f.as("org_a"), &struct{ Body NewAlert }{n})
	must(f.t, err)
	return a
}

func (f *fixture) get(alertID string) Alert {
	f.t.Helper()
	a, err := f.handler.Store.Get(f.t.Context(), "org_a", alertID)
	must(f.t, err)
	return a
}

// fail makes the destination of org_a fail since a time, or work again.
func (f *fixture) fail(since *stamp.Time) {
	f.t.Helper()
	f.exec(`UPDATE webhook_destinations SET failing_since = $1, last_error = 'the destination answered 503' WHERE org_id = 'org_a'`, since)
}

// minutes lets minutes pass, and measures and sends after each.
func (f *fixture) minutes(n int) {
	f.t.Helper()
	for range n {
		f.advance(time.Minute)
		must(f.t, f.evaluator.Run(f.t.Context()))
		must(f.t, f.worker.Run(f.t.Context()))
	}
}
