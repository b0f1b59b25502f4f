package db

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"steward/internal/errs"
)

const (
	// A batch ends at either bound, so that its first item does not wait for long.
	maxGathered      = 256
	maxGatheredBytes = 4 << 20
	// maxWaiting is how many callers may wait before others are refused.
	maxWaiting = 8192
	// gatherTimeout bounds the transaction of a batch. It belongs to many callers, so it does not end
	// with the context of one of them.
	gatherTimeout = 30 * time.Second
)

// Gather writes the items of concurrent callers in one transaction, for the few hot paths that can
// write many rows with one statement. A caller that finds no batch under way becomes the leader and
// writes its item at once. Callers that come meanwhile wait; the first of them leads the next batch,
// with all others that wait. There is no timer and no goroutine. One batch is under way at a time: with
// two, batches were only smaller. The zero value is ready to use.
type Gather[T interface{ Bytes() int }] struct {
	mu      sync.Mutex
	leading bool // a batch is under way
	waiting []*gathered[T]
}

// gathered is an item with its caller.
type gathered[T any] struct {
	item T
	err  error
	// lead receives true if the caller is to lead a batch, false if its item was written.
	lead chan bool
}

var errBatchPanicked = errors.New("db: the batch of this write ended in a panic")

// originKey is the key of the context of a batch's leader in that of the batch, which has nothing else
// of it: the batch belongs to many callers.
type originKey struct{}

// origin returns the context of the caller that a Write is for.
func origin(ctx context.Context) context.Context {
	if leader, ok := ctx.Value(originKey{}).(context.Context); ok {
		return leader
	}
	return ctx
}

// Do has work write an item, together with those of other callers. If it returns nil, the item is
// durable. An error that concerns one item alone is kept in the item by work. If work returns an error,
// the items are written again one by one, so that a bad one fails alone. work may run more than once
// for an item, and must be the same for all callers of a Gather. Errors are those of Write. If ctx
// carries a transaction, the item is written alone, as a part of that.
func (g *Gather[T]) Do(ctx context.Context, d *DB, item T, work func(tx *Tx, batch []T) error) (err error) {
	if d.joined(ctx) != nil {
		return d.Write(ctx, func(tx *Tx) error { return work(tx, []T{item}) })
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if end := d.observer.begin(ctx, "write"); end != nil {
		defer func() { end(err) }()
	}
	w := &gathered[T]{item: item, lead: make(chan bool, 1)}
	lead, err := g.enter(w)
	if err != nil {
		return err
	}
	if !lead {
		select {
		case lead = <-w.lead:
		case <-ctx.Done():
			if g.leave(w) {
				return ctx.Err()
			}
			lead = <-w.lead
		}
	}
	if lead {
		g.write(context.WithValue(context.Background(), originKey{}, ctx), d, w, work)
	}
	return w.err
}

// enter makes the caller the leader if there is none, and otherwise queues it.
func (g *Gather[T]) enter(w *gathered[T]) (lead bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.leading {
		g.leading = true
		return true, nil
	}
	if len(g.waiting) >= maxWaiting {
		return false, errs.Unavailablef(nil, "too many writes are waiting")
	}
	g.waiting = append(g.waiting, w)
	return false, nil
}

// leave removes a caller from the queue. It returns false if the caller is in a batch or leads one
// already; then it has to wait for the result.
func (g *Gather[T]) leave(w *gathered[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, w)
	if at < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}

// write writes the batch of a leader and wakes its callers, also after a panic, which continues in the
// leader.
func (g *Gather[T]) write(ctx context.Context, d *DB, leader *gathered[T], work func(tx *Tx, batch []T) error) {
	g.yield()
	batch := g.take(leader)
	defer func() {
		g.next()
		for _, w := range batch[1:] {
			w.lead <- false
		}
	}()
	for _, w := range batch {
		w.err = errBatchPanicked
	}
	writeBatch(ctx, d, batch, work)
}

// yield lets other goroutines run for as long as that adds callers and the batch is not full. It takes
// no time if nothing else can run.
func (g *Gather[T]) yield() {
	for before := -1; ; {
		g.mu.Lock()
		now := len(g.waiting)
		g.mu.Unlock()
		if now <= before || now >= maxGathered {
			return
		}
		before = now
		runtime.Gosched()
	}
}

// take returns the leader and the waiting callers, up to the size of a batch.
func (g *Gather[T]) take(leader *gathered[T]) []*gathered[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	bytes := leader.item.Bytes()
	for n < len(g.waiting) && n < maxGathered-1 && bytes < maxGatheredBytes {
		bytes += g.waiting[n].item.Bytes()
		n++
	}
	batch := append([]*gathered[T]{leader}, g.waiting[:n]...)
	g.waiting = slices.Delete(g.waiting, 0, n)
	return batch
}

// next makes the first caller that waits the leader.
func (g *Gather[T]) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.leading = false
		return
	}
	first := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	first.lead <- true
}

func writeBatch[T any](ctx context.Context, d *DB, batch []*gathered[T], work func(tx *Tx, batch []T) error) {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	items := make([]T, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	err := d.Write(ctx, func(tx *Tx) error { return work(tx, items) })
	alone := err != nil && len(batch) > 1 && errs.KindOf(err) != errs.Unavailable && !IsOutcomeUnknown(err)
	for i, w := range batch {
		w.err = err
		if alone {
			w.err = d.Write(ctx, func(tx *Tx) error { return work(tx, items[i:i+1]) })
		}
	}
}
