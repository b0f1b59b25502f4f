package backchannel

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/job"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/stamp"
)

const (
	// interval is how often we look for due logouts.
	interval = time.Second
	// maxClients bounds how many clients one look serves, maxSending how many tokens are in flight.
	maxClients = 1000
	maxSending = 64
	// MaxQueued bounds how many logouts wait for one client.
	MaxQueued = 10_000
	// finishTimeout bounds how long we store a batch's results while the process stops.
	finishTimeout = 5 * time.Second
)

// Worker sends logout tokens. Each process sends a client one token at a time, so that a client that does
// not answer blocks a single slot.
type Worker struct {
	DB      *db.DB
	Now     func() time.Time
	Log     *slog.Logger
	Clients *oidc.Store
	Tokens  *jwt.Issuer
	// Send posts a form. It returns the response's status, or 0 if there was no response, and an error
	// unless the status is 2xx.
	Send func(ctx context.Context, uri string, form url.Values) (status int, err error)
	// Sent, if set, learns after each attempt whether the client accepted the token.
	Sent func(taken bool)
	// MaxQueued bounds how many logouts wait for one client.
	MaxQueued int

	slots   *budget.Queue
	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // by client
}

// NewWorker returns a worker with the usual limits. The caller sets its dependencies.
func NewWorker() *Worker {
	return &Worker{MaxQueued: MaxQueued, slots: budget.NewQueue(maxSending), busy: map[string]bool{}}
}

// Run sends due logouts until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	job.Every(w.Log, "send logout tokens", interval, w.start)(ctx)
	w.running.Wait()
}

// SendDue sends the logouts that are due now, and waits for all attempts to end.
func (w *Worker) SendDue(ctx context.Context) error {
	err := w.start(ctx)
	w.running.Wait()
	return err
}

// start starts sending to all clients with due logouts, except those that it is already sending to.
func (w *Worker) start(ctx context.Context) error {
	due, err := dueClients(w.DB.Read(ctx), stamp.Of(w.Now()), maxClients)
	if err != nil {
		return err
	}
	for _, t := range due {
		if w.claim(t.clientID) {
			w.running.Go(func() { w.serve(ctx, t) })
		}
	}
	return nil
}

// claim reserves a client for the caller. It reports false if another goroutine in this process has it.
func (w *Worker) claim(clientID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[clientID] {
		return false
	}
	w.busy[clientID] = true
	return true
}

func (w *Worker) unclaim(clientID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, clientID)
}

// serve sends to a client until nothing is due.
func (w *Worker) serve(ctx context.Context, t target) {
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

// sendBatch sends some of a client's logout tokens, and reports whether more may be due.
func (w *Worker) sendBatch(ctx context.Context, clientID string) (more bool, err error) {
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
		b.done = b.leased // the client is gone or has no logout URI
	case err != nil:
		return false, err
	default:
		w.sendAll(ctx, client, &b)
	}
	return len(b.rest()) == 0, w.finish(ctx, b)
}

// batch tracks what happened to leased logouts. Within leased, the ones that are done or failed come
// first; we did not send the rest.
type batch struct {
	clientID string
	leased   []logout
	done     []logout
	failed   []logout
	// unreachable means that the last failure got no response, so we did not send the rest.
	unreachable bool
}

// rest returns the logouts that we did not send.
func (b *batch) rest() []logout { return b.leased[len(b.done)+len(b.failed):] }

// sendAll sends a batch's logout tokens until the client stops responding or the process stops.
func (w *Worker) sendAll(ctx context.Context, client *oidc.Registered, b *batch) {
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

func (w *Worker) send(ctx context.Context, client *oidc.Registered, l logout) (status int, err error) {
	token, err := w.Tokens.SignLogout(ctx, client, l.userID, l.sessionID)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	status, err = w.Send(ctx, *client.BackchannelLogoutURI, url.Values{"logout_token": {token}})
	if w.Sent != nil {
		w.Sent(err == nil)
	}
	return status, err
}

// finish stores a batch's results, even while the process stops.
func (w *Worker) finish(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	var dropped int64
	err := w.DB.Write(ctx, func(tx *db.Tx) (err error) {
		for _, l := range b.done {
			if err := remove(tx, b.clientID, l.sessionID); err != nil {
				return err
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

// retry stores when to try the failed and unsent logouts again. It returns how many it gave up on.
func (w *Worker) retry(tx *db.Tx, b batch) (dropped int64, err error) {
	now := stamp.Of(w.Now())
	p := postponement{clientID: b.clientID, now: now, giveUp: now.Add(retryFor)}
	for _, l := range b.failed {
		p.due = now.Add(pause(l.attempts + 1))
		if err := p.one(tx, l); err != nil {
			return 0, err
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
	return drop(tx, b.clientID, w.MaxQueued)
}
