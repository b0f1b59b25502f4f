package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// poll is how often the database is asked for work that this process was not told of: retries, and what other replicas accepted.
	poll = 250 * time.Millisecond
	// grace is how long deliveries that are being sent may take once the process stops.
	grace = 10 * time.Second
)

// Sender sends an attempt and tells how it went. It returns when ctx ends, or the destination's time is over.
type Sender interface {
	Send(ctx context.Context, a Attempt) Outcome
}

// Attempt is all that is needed to send a delivery.
type Attempt struct {
	Destination *Destination
	Signer      *Signer
	Receipt     *Receipt
	Body        []byte // the receipt's
	Delivery    *Delivery
}

// Outcome is how an attempt went; an empty Error is a success.
type Outcome struct {
	Error      string
	Response   *Answer
	RetryAfter time.Duration
	Gone       bool
}

// Worker forwards receipts: it takes turns at destinations, sends their deliveries in lanes, and writes the results.
type Worker struct {
	Store  *Store
	Sender Sender
	Log    *slog.Logger
	// Sole says that no other process works on this database, so that turns that are taken at the start are those of one that died.
	Sole bool

	results *batcher
	sending context.Context
	quiet   time.Time    // until when it does not look for ready deliveries
	logged  atomic.Int64 // when an error was last logged
	stopBy  atomic.Int64 // when results that cannot be written are given up; 0 while the process runs
}

// Run works until ctx ends. Then it gives what waits back to others, and lets what is being sent finish within the grace period.
func (w *Worker) Run(ctx context.Context) {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	w.begin(sending)
	if w.Sole {
		if err := w.Store.Inherit(ctx); err != nil {
			w.complain("turns of a process that died could not be ended", err) // they end by themselves
		}
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-w.lanes().wake:
		case <-tick.C:
			w.look(ctx)
		case <-ctx.Done():
		}
		w.fill(ctx)
	}
	w.end(cut)
}

func (w *Worker) lanes() *Lanes { return w.Store.Lanes }

func (w *Worker) begin(sending context.Context) {
	w.sending = sending
	w.results = newBatcher(w.finish)
	go w.results.run()
	w.lanes().start(w.serve)
}

func (w *Worker) end(cut context.CancelFunc) {
	w.lanes().close()
	w.stopBy.Store(time.Now().Add(2 * grace).UnixNano())
	if !w.lanes().wait(grace) {
		cut()
		w.lanes().wait(grace)
	}
	w.results.close()
	bounded, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := w.Store.EndTurns(bounded); err != nil {
		w.complain("turns could not be given back", err)
	}
}

// look asks the database what is due and what is ready, and keeps turns alive.
func (w *Worker) look(ctx context.Context) {
	w.takeTurns(ctx, w.lanes().renewable())
	w.lanes().tidy()
	if err := w.promote(ctx); err != nil {
		w.complain("due deliveries could not be found", err)
		return
	}
	start := w.Store.Now()
	if start.Before(w.quiet) {
		return
	}
	ready, err := w.Store.Oldest(ctx)
	if err != nil {
		w.complain("ready deliveries could not be found", err)
		return
	}
	w.lanes().seen(ready)
	// The more destinations have some, the longer it takes: 70 ms for 10,000. It is to be a tenth of the time at most.
	now := w.Store.Now()
	w.quiet = now.Add(min(9*now.Sub(start), turnFor/6))
}

// promote makes due deliveries ready: a wave of retries in several transactions, so that none is long.
func (w *Worker) promote(ctx context.Context) error {
	for range promoteRounds {
		due, err := w.Store.Promote(ctx)
		if err != nil {
			return err
		}
		for _, destinationID := range due {
			w.lanes().more(destinationID)
		}
		if len(due) < promoteAtOnce {
			break
		}
	}
	return nil
}

// takeTurns takes or renews turns; it is false when there was nothing to do, or it failed.
func (w *Worker) takeTurns(ctx context.Context, destinationIDs []string) bool {
	if len(destinationIDs) == 0 {
		return false
	}
	until, mine, err := w.Store.TakeTurns(ctx, destinationIDs)
	if err != nil {
		w.complain("turns could not be taken", err)
		return false
	}
	w.lanes().turns(destinationIDs, mine, until)
	return true
}

// fill reads what waits in the database, for all lanes that have room.
func (w *Worker) fill(ctx context.Context) {
	for w.takeTurns(ctx, w.lanes().turnless()) {
	}
	for changed := true; changed && ctx.Err() == nil; {
		wishes := w.lanes().wishes()
		if len(wishes) == 0 {
			return
		}
		asks := make([]*ask, len(wishes))
		for i, wish := range wishes {
			asks[i] = &wish.ask
		}
		if err := w.Store.Ready(ctx, asks); err != nil {
			w.complain("deliveries could not be read", err)
			return
		}
		changed = false
		for _, wish := range wishes {
			changed = w.lanes().filled(wish, w.Store.signer(wish.destination)) || changed
		}
	}
}

// complain logs an error of the background, at most once in ten seconds: a database that is away would fill the log.
func (w *Worker) complain(what string, err error) {
	now, last := time.Now().UnixNano(), w.logged.Load()
	if errors.Is(err, context.Canceled) || now-last < int64(10*time.Second) || !w.logged.CompareAndSwap(last, now) {
		return
	}
	w.Log.Error(what, "error", err)
}

// serve sends what a lane has queued, one after the other. Each slot of a destination is one such goroutine.
func (w *Worker) serve(n *lane) {
	for t := w.lanes().take(n, nil); t != nil; t = w.lanes().take(n, t) {
		w.deliver(n, t)
	}
}

// deliver sends one delivery and hands on its result. What could not even be tried, or was cut off by our own end, is as ready as before.
func (w *Worker) deliver(n *lane, t *task) {
	to, by, err := w.target(n)
	var out Result
	if err == nil {
		out, err = w.attempt(to, by, t)
	}
	if err != nil {
		w.lanes().untried(n, t)
		return
	}
	w.results.put(ended{task: t, Result: out})
}

// target gives the lane's destination, read again if one was changed.
func (w *Worker) target(n *lane) (*Destination, *Signer, error) {
	to, by, known, round := w.lanes().target(n)
	if known {
		return to, by, nil
	}
	to, err := destination(w.Store.DB.Read(w.sending), n.id)
	if err != nil {
		return nil, nil, err
	}
	by = w.Store.signer(to)
	w.lanes().learn(n, to, by, round)
	return to, by, nil
}

// signer opens a destination's secret; nil when there is none, or it cannot be opened.
func (s *Store) signer(to *Destination) *Signer {
	if to == nil {
		return nil
	}
	plain, err := s.Ring.Open(sealPurpose, to.sealed)
	if err != nil {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(plain), secretPrefix))
	if err != nil {
		return nil
	}
	return NewSigner(key)
}

// attempt sends a delivery if it can be sent. An error means that it was not tried.
func (w *Worker) attempt(to *Destination, by *Signer, t *task) (Result, error) {
	r := Result{Delivery: &t.Delivery, Final: true}
	switch {
	case to == nil:
		r.Error = "the destination was deleted"
	case to.Config.Disabled:
		r.Error = "the destination is disabled"
	case by == nil:
		r.Error = "the destination's secret cannot be opened with the master key"
	case t.receipt == nil:
		r.Error = "the receipt is no longer kept"
	default:
		body, err := w.Store.Body(w.sending, t.receipt)
		if err != nil && !errors.Is(err, db.ErrNoRows) {
			return r, err
		}
		if r.Error = "the receipt is no longer kept"; err == nil {
			r = w.send(Attempt{Destination: to, Signer: by, Receipt: t.receipt, Body: body, Delivery: &t.Delivery})
		}
	}
	r.At = stamp.Of(w.Store.Now())
	if w.sending.Err() != nil {
		return r, w.sending.Err() // cut off by our own end, not by the destination
	}
	return r, nil
}

func (w *Worker) send(a Attempt) Result {
	out := w.Sender.Send(w.sending, a)
	return Result{
		Delivery: a.Delivery, Error: out.Error, Response: out.Response, RetryAfter: out.RetryAfter, Gone: out.Gone,
		MaxRetries: a.Destination.Config.MaxRetries,
	}
}

// finish writes results, and tries for as long as the database is away: they exist nowhere else. At the end of the process it gives up
// after the grace period; then the deliveries are sent once more.
func (w *Worker) finish(batch []ended) {
	for {
		err := w.write(batch)
		if err == nil {
			break
		}
		w.complain("results could not be written", err)
		if errs.KindOf(err) != errs.Unavailable {
			w.singly(batch)
			break
		}
		if by := w.stopBy.Load(); by != 0 && time.Now().UnixNano() > by {
			break
		}
		time.Sleep(poll)
	}
	w.lanes().finished(batch)
}

func (w *Worker) write(batch []ended) error {
	results := make([]Result, len(batch))
	for i, e := range batch {
		results[i] = e.Result
	}
	_, err := w.Store.Finish(context.Background(), results)
	return err
}

// singly writes a batch that failed as a whole, so that one bad result spoils no other. What cannot be written is kept without its
// response.
func (w *Worker) singly(batch []ended) {
	for _, e := range batch {
		if err := w.write([]ended{e}); err != nil {
			e.Response = nil
			if err := w.write([]ended{e}); err != nil {
				w.Log.Error("a result could not be written", "delivery", e.Delivery.ID, "error", err)
			}
		}
	}
}
