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
	// A batch ends at either bound, so that the first of it need not wait for ever.
	maxGathered      = 256
	maxGatheredBytes = 4 << 20
	// maxWaiting is how many may wait before others are refused.
	maxWaiting = 8192
	// gatherWithin bounds a batch: it belongs to many callers, so that the end of one's patience must not end it.
	gatherWithin = 30 * time.Second
)

// Gather lets those who write at the same time share a transaction, for the few hot paths that know how to write many rows with one
// statement. Who comes while nobody works does so at once; who comes later waits, and goes with all others that wait. There is no timer and
// no goroutine: one of the callers does the work for all in its batch, and then wakes the next one. One batch is under way at a time: two
// were tried, and were only smaller. The zero value is ready to use.
type Gather[T interface{ Bytes() int }] struct {
	mu      sync.Mutex
	led     bool
	waiting []*gathered[T]
}

type gathered[T any] struct {
	item T
	err  error
	lead chan bool // true: work; false: it is done
}

var errAbandoned = errors.New("db: the batch that this write was in ended in a panic")

// Do has work write an item, together with those of other callers; nil means that it is durable. What is wrong with one item alone, work
// keeps in the item; when it gives an error, the items are written again one by one, so that a bad one fails alone. work may run more than
// once for an item, and must be the same for all callers of a Gather. Errors are those of Write. Inside of a transaction that ctx carries,
// the item is written alone, as a part of that.
func (g *Gather[T]) Do(ctx context.Context, d *DB, item T, work func(tx *Tx, batch []T) error) error {
	if d.joined(ctx) != nil {
		return d.Write(ctx, func(tx *Tx) error { return work(tx, []T{item}) })
	}
	if err := ctx.Err(); err != nil {
		return err
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
		g.work(d, w, work)
	}
	return w.err
}

// enter makes a caller the leader if there is none, else it is put into the queue.
func (g *Gather[T]) enter(w *gathered[T]) (lead bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.led {
		g.led = true
		return true, nil
	}
	if len(g.waiting) >= maxWaiting {
		return false, errs.Busy(nil, "too many writes are waiting")
	}
	g.waiting = append(g.waiting, w)
	return false, nil
}

// leave takes a caller out of the queue; false means that it is in a batch already, whose result is worth the wait.
func (g *Gather[T]) leave(w *gathered[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, w)
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	return at >= 0
}

// work writes the batch of a leader, and answers it, also after a panic, which goes on in the leader.
func (g *Gather[T]) work(d *DB, leader *gathered[T], work func(tx *Tx, batch []T) error) {
	g.linger()
	batch := g.take(leader)
	defer func() {
		g.pass()
		for _, w := range batch[1:] {
			w.lead <- false
		}
	}()
	for _, w := range batch {
		w.err = errAbandoned
	}
	write(d, batch, work)
}

// linger lets those come who can run, as long as that brings any and the batch has room: whom it brings need no batch of their own. Where
// nothing else runs, it takes no time.
func (g *Gather[T]) linger() {
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

// take gives the leader and those who wait, as far as a batch has room.
func (g *Gather[T]) take(leader *gathered[T]) []*gathered[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, bytes := 0, leader.item.Bytes()
	for n < len(g.waiting) && n < maxGathered-1 && bytes < maxGatheredBytes {
		bytes += g.waiting[n].item.Bytes()
		n++
	}
	batch := append([]*gathered[T]{leader}, g.waiting[:n]...)
	g.waiting = slices.Delete(g.waiting, 0, n)
	return batch
}

// pass makes the first one who waits the next leader.
func (g *Gather[T]) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.led = false
		return
	}
	next := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	next.lead <- true
}

func write[T any](d *DB, batch []*gathered[T], work func(tx *Tx, batch []T) error) {
	ctx, cancel := context.WithTimeout(context.Background(), gatherWithin)
	defer cancel()
	items := make([]T, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	err := d.Write(ctx, func(tx *Tx) error { return work(tx, items) })
	for i, w := range batch {
		w.err = err
		if err != nil && len(batch) > 1 && errs.KindOf(err) != errs.Unavailable {
			w.err = d.Write(ctx, func(tx *Tx) error { return work(tx, items[i:i+1]) })
		}
	}
}
