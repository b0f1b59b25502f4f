package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/job"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

const (
	// interval is the pause between two searches for due logouts.
	interval = time.Second
	// maxClients caps the clients in each search, and maxSending the tokens that we send at the same
	// time.
	maxClients = 1000
	maxSending = 64
	// MaxQueued caps one client's waiting logouts.
	MaxQueued = 10_000
	// retryFor limits how long we retry a client that does not accept a token.
	retryFor = 24 * time.Hour
	// A batch belongs to the process that leases it for leaseFor. Sending a batch always takes less.
	leaseFor = 2 * time.Minute
	// batchSize caps the logouts that we lease for a client at once.
	batchSize = 5
	// sendTimeout bounds each attempt.
	sendTimeout = 10 * time.Second
	// finishTimeout bounds the time for storing a batch's results when the process stops.
	finishTimeout = 5 * time.Second
)

// backoff lists the pauses after failed attempts; the last one repeats.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

func pause(attempts int64) time.Duration {
	return backoff[min(int(attempts), len(backoff))-1]
}

// LogoutWorker sends logout tokens. Each process sends a client one token at a time, so that a client which
// does not answer takes up only one slot.
type LogoutWorker struct {
	DB      *db.DB
	Now     func() time.Time
	Log     *slog.Logger
	Clients *oidc.Store
	Tokens  *jwt.Issuer
	// Sender sends the tokens, with the connections and the egress check of deliveries.
	Sender   send.Sender
	Observer *oauth.Observer
	// MaxQueued caps one client's waiting logouts; 0 means the constant.
	MaxQueued int

	slots   *budget.Queue
	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // by client
}

// Run sends due logouts until ctx ends.
func (w *LogoutWorker) Run(ctx context.Context) {
	job.Every(w.Log, "send logout tokens", interval, w.start)(ctx)
	w.running.Wait()
}

// SendDue sends the logouts that are due now and waits for all attempts to end.
func (w *LogoutWorker) SendDue(ctx context.Context) error {
	err := w.start(ctx)
	w.running.Wait()
	return err
}

// start starts sending to all clients with due logouts, except where that is under way already.
func (w *LogoutWorker) start(ctx context.Context) error {
	scan := func(row db.Row) (t target, err error) { return t, row.Scan(&t.orgID, &t.clientID) }
	due, err := db.Collect(w.DB.Read(ctx), scan, `SELECT org_id, client_id FROM oidc_logouts WHERE due_at <= $1
		GROUP BY org_id, client_id ORDER BY min(due_at), client_id LIMIT $2`, stamp.Of(w.Now()), maxClients)
	if err != nil {
		return fmt.Errorf("read due logouts: %w", err)
	}
	for _, t := range due {
		if w.claim(t.clientID) {
			w.running.Go(func() { w.serve(ctx, t) })
		}
	}
	return nil
}

// claim reports whether the caller may send to a client, because nobody else in this process does.
func (w *LogoutWorker) claim(clientID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy == nil {
		w.busy = map[string]bool{}
		w.slots = budget.NewQueue(maxSending)
	}
	if w.busy[clientID] {
		return false
	}
	w.busy[clientID] = true
	return true
}

func (w *LogoutWorker) unclaim(clientID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, clientID)
}

// serve sends to a client until nothing is due any more.
func (w *LogoutWorker) serve(ctx context.Context, t target) {
	defer w.unclaim(t.clientID)
	if w.slots.Enter(ctx, t.orgID, t.clientID) != nil {
		return
	}
	defer w.slots.Leave(t.orgID)
	for more := true; more && ctx.Err() == nil; {
		var err error
		more, err = w.sendBatch(ctx, t.clientID)
		if err != nil && ctx.Err() == nil {
			w.Log.Error("logout tokens were not sent", "client", t.clientID, "error", err)
			return
		}
	}
}

// sendBatch sends some of a client's logout tokens, and reports whether there may be more.
func (w *LogoutWorker) sendBatch(ctx context.Context, clientID string) (more bool, err error) {
	b := batch{clientID: clientID}
	err = w.DB.Write(ctx, func(tx *db.Tx) (err error) {
		now := stamp.Of(w.Now())
		b.leased, err = lease(tx, clientID, now, now.Add(leaseFor))
		return err
	})
	if err != nil || len(b.leased) == 0 {
		return false, err
	}
	client, err := w.Clients.Lookup(ctx, clientID)
	switch {
	case errs.KindOf(err) == errs.NotFound || err == nil && client.BackchannelLogoutURI == nil:
		b.done = b.leased // there is nobody to tell
	case err != nil:
		return false, err
	default:
		w.sendAll(ctx, client, &b)
	}
	return len(b.rest()) == 0, w.finish(ctx, b)
}

// batch has the results for leased logouts. The first logouts in leased are either done or failed, in
// order; we have not sent the rest.
type batch struct {
	clientID string
	leased   []logout
	done     []logout
	failed   []logout
	// unreachable reports whether the last failed attempt got no response, so that we did not send the
	// rest.
	unreachable bool
}

// rest returns the logouts that we have not sent.
func (b *batch) rest() []logout { return b.leased[len(b.done)+len(b.failed):] }

// sendAll sends a batch's logout tokens until the client does not respond or the process stops.
func (w *LogoutWorker) sendAll(ctx context.Context, client *oidc.Registered, b *batch) {
	for _, l := range b.leased {
		status, err := w.send(ctx, client, l)
		switch {
		case err == nil:
			b.done = append(b.done, l)
			continue
		case ctx.Err() != nil:
			return
		}
		w.Log.Warn("a client did not take a logout token", "client", client.ID, "attempt", l.attempts+1, "error", err)
		b.failed = append(b.failed, l)
		if status == 0 {
			b.unreachable = true
			return
		}
	}
}

func (w *LogoutWorker) send(ctx context.Context, client *oidc.Registered, l logout) (status int, err error) {
	token, err := w.Tokens.SignLogout(ctx, client, l.userID, l.sessionID)
	if err != nil {
		return 0, err
	}
	status, err = w.post(ctx, *client.BackchannelLogoutURI, url.Values{"logout_token": {token}})
	w.Observer.LogoutSent(err == nil)
	return status, err
}

// post posts a form. It returns the response's status, or 0 if there is none, and an error unless the
// status is 2xx.
func (w *LogoutWorker) post(ctx context.Context, uri string, form url.Values) (status int, err error) {
	result := w.Sender.Send(ctx, send.Request{
		Method: http.MethodPost, URL: uri, Body: []byte(form.Encode()), Timeout: sendTimeout,
		Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
	})
	if result.Response != nil {
		status = result.Response.Status
	}
	if result.Error != "" {
		return status, errors.New(result.Error)
	}
	return status, nil
}

// finish stores a batch's results, even when the process stops.
func (w *LogoutWorker) finish(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	var dropped int64
	err := w.DB.Write(ctx, func(tx *db.Tx) (err error) {
		for _, l := range b.done {
			_, err := tx.Exec(`DELETE FROM oidc_logouts WHERE session_id = $1 AND client_id = $2`, l.sessionID, b.clientID)
			if err != nil {
				return fmt.Errorf("delete logout: %w", err)
			}
		}
		dropped, err = w.retry(tx, b)
		return err
	})
	if err == nil && dropped > 0 {
		w.Log.Warn("logout tokens were given up", "client", b.clientID, "number", dropped)
	}
	return err
}

// retry stores when to retry the logouts that failed or were not sent. It returns how many it gives up.
func (w *LogoutWorker) retry(tx *db.Tx, b batch) (dropped int64, err error) {
	now := stamp.Of(w.Now())
	p := postponement{clientID: b.clientID, now: now, giveUp: now.Add(retryFor)}
	for _, l := range b.failed {
		p.due = now.Add(pause(l.attempts + 1))
		_, err := tx.Exec(`UPDATE oidc_logouts SET due_at = $3, attempts = attempts + 1, give_up_at = COALESCE(give_up_at, $4)
			WHERE session_id = $1 AND client_id = $2`, l.sessionID, p.clientID, p.due, p.giveUp)
		if err != nil {
			return 0, fmt.Errorf("update logout: %w", err)
		}
	}
	for _, l := range b.rest() {
		if err := release(tx, b.clientID, l.sessionID, now); err != nil {
			return 0, err
		}
	}
	if b.unreachable {
		if err := p.all(tx); err != nil {
			return 0, err
		}
	}
	if len(b.failed) == 0 {
		return 0, nil
	}
	// Only the newest sessions' logouts stay, up to MaxQueued.
	late, err := tx.Exec(`DELETE FROM oidc_logouts WHERE client_id = $1 AND due_at >= give_up_at`, b.clientID)
	if err != nil {
		return 0, fmt.Errorf("delete old logouts: %w", err)
	}
	surplus, err := tx.Exec(`DELETE FROM oidc_logouts WHERE client_id = $1 AND due_at IS NOT NULL AND session_id <= (
		SELECT session_id FROM oidc_logouts WHERE client_id = $1 AND due_at IS NOT NULL
		ORDER BY session_id DESC LIMIT 1 OFFSET $2)`, b.clientID, cmp.Or(w.MaxQueued, MaxQueued))
	if err != nil {
		return 0, fmt.Errorf("delete surplus logouts: %w", err)
	}
	return late + surplus, nil
}
