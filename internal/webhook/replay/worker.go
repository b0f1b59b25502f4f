package replay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/job"
	"steward/internal/stamp"
	"steward/internal/webhook"
)

const (
	// busyPause is the pause between two steps while replays run. While none does, we look for new
	// ones every idlePause.
	busyPause = 50 * time.Millisecond
	idlePause = time.Second
	// stepFor bounds the time a step looks for something to deliver.
	stepFor = 200 * time.Millisecond
	// leaseFor is how long the other replicas wait if this one dies, and renewEvery how often we renew
	// the lease.
	leaseFor   = 15 * time.Second
	renewEvery = 5 * time.Second
)

// Worker advances running replays. Make one with NewWorker.
type Worker struct {
	Store *Store
	Log   *slog.Logger
	// Disk is the volume that holds the database, or nil if the database is on another server.
	Disk *disk.Space

	lease   *job.Lease
	renewed time.Time // when we last took the lease
	wake    chan struct{}
}

// NewWorker returns a worker that wakes when its store gets a replay.
func NewWorker(s *Store, log *slog.Logger, owner string) *Worker {
	w := &Worker{
		Store: s, Log: log, wake: make(chan struct{}, 1),
		lease: &job.Lease{DB: s.DB, Now: s.Now, Name: "webhook replays", Owner: owner, TTL: leaseFor},
	}
	s.worker = w
	s.DB.Watch(changed, w.signal)
	return w
}

func (w *Worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// releaseTimeout bounds the wait for the database when a worker stops.
const releaseTimeout = 5 * time.Second

// Run works until ctx ends, and then releases its lease.
func (w *Worker) Run(ctx context.Context) {
	defer w.release(ctx)
	for ctx.Err() == nil {
		busy, err := w.step(ctx)
		if err != nil && ctx.Err() == nil {
			w.Log.Error("replays are delayed", "error", err)
		}
		pause := idlePause
		if busy {
			pause = busyPause
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-time.After(pause):
		}
	}
}

// release lets another replica continue at once.
func (w *Worker) release(ctx context.Context) {
	if w.renewed.IsZero() {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := w.lease.Release(bounded); err != nil {
		w.Log.Warn("replays wait until a lease has expired", "error", err)
	}
}

// step advances each running replay a little, while this process has the lease. It reports whether
// there is more to do.
func (w *Worker) step(ctx context.Context) (busy bool, err error) {
	for after := ""; ; {
		some, err := w.Store.toWalk(ctx, after)
		if err != nil || len(some) == 0 {
			return busy, err
		}
		for _, r := range some {
			if held, err := w.hold(ctx); !held || err != nil {
				return false, err
			}
			after = r.ID
			err := w.advance(db.Long(ctx), r)
			switch {
			case err == nil, errors.Is(err, errTaken):
				busy = true
			case ctx.Err() != nil, errs.KindOf(err) == errs.Unavailable, db.IsOutcomeUnknown(err):
				return false, err
			default: // it must not hold up the others
				w.Log.Error("a replay is delayed", "replay", r.ID, "error", err)
			}
		}
	}
}

// hold takes or renews the lease, and reports whether we hold it.
func (w *Worker) hold(ctx context.Context) (bool, error) {
	now := w.Store.Now()
	if now.Sub(w.renewed) < renewEvery {
		return true, nil
	}
	held, err := w.lease.Acquire(ctx)
	if held {
		w.renewed = now
	}
	return held, err
}

// advance counts a replay's next part, and then adds the next deliveries. It never adds any before
// they are counted.
func (w *Worker) advance(ctx context.Context, r Replay) error {
	if err := w.Disk.Room(); err != nil {
		return err
	}
	began := time.Now()
	if !r.counted {
		after := r
		for !after.counted && time.Since(began) < stepFor {
			if err := w.Store.count(ctx, &after); err != nil {
				return err
			}
		}
		if err := w.Store.saveCount(ctx, r, after); err != nil {
			return err
		}
		r = after
	}
	return w.add(ctx, r)
}

// add adds as many of a replay's next deliveries as there is room for.
func (w *Worker) add(ctx context.Context, r Replay) error {
	room := r.room(stamp.Of(w.Store.Now()))
	if room == 0 {
		return nil
	}
	p := part{end: r.addedTo, more: true}
	// Most receipts have at least one delivery. Where few have any, we look at more receipts at a
	// time.
	limit := min(room, pageReceipts)
	for began := time.Now(); len(p.items) == 0 && p.more && time.Since(began) < stepFor; {
		next, err := w.Store.part(ctx, r, p.end, limit)
		if err != nil {
			return err
		}
		limit = min(2*limit, pageReceipts)
		p = upTo(next, r)
		if !r.counted && p.end == r.countedTo {
			break
		}
	}
	items, end, more := cutTo(p, room)
	if more && end == r.addedTo {
		return nil // nothing more is counted yet
	}
	return w.Store.add(ctx, r, items, end, !more)
}

// upTo cuts a part down to the receipts that are counted. Deliveries that a replay adds must not end
// up in its own count.
func upTo(p part, r Replay) part {
	if r.counted || p.end <= r.countedTo {
		p.more = p.more || !r.counted
		return p
	}
	p.items = slices.DeleteFunc(p.items, func(d webhook.Redelivery) bool { return d.ReceiptKey > r.countedTo })
	p.end = r.countedTo
	p.more = true
	return p
}

// cutTo returns a part's items that fit the room, without splitting a receipt, and the last receipt's
// key. If even the first receipt with items does not fit, it returns all items of that one.
func cutTo(p part, room int) (items []webhook.Redelivery, end string, more bool) {
	if len(p.items) <= room {
		return p.items, p.end, p.more
	}
	n := room
	for n > 0 && p.items[n-1].ReceiptKey == p.items[n].ReceiptKey {
		n--
	}
	if n == 0 {
		for n < len(p.items) && p.items[n].ReceiptKey == p.items[0].ReceiptKey {
			n++
		}
	}
	return p.items[:n], p.items[n-1].ReceiptKey, true
}
