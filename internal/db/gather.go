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
	// maxOrgBytes caps an organization's share in a batch. So others wait at most that long for
	// their turn.
	maxOrgBytes = 512 << 10
	// largeItem bounds the items that may share a batch with other organizations.
	largeItem = 64 << 10
	// maxWaiting caps the waiting callers; one organization may have half of them. More are refused.
	maxWaiting = 8192
	// gatherTimeout bounds a batch's transaction. Many callers share it, so no single caller's
	// context ends it.
	gatherTimeout = 30 * time.Second
)

// Gather writes the items of concurrent callers in one transaction, for the few hot paths that can
// write many rows with one statement. A caller that finds no batch under way becomes the leader and
// writes its item at once. Callers that come meanwhile wait. Then organizations take turns: the next
// organization's first caller leads the next batch, and takes other waiting items along. There is no
// timer and no goroutine. Only one batch runs at a time: a second one merely made both smaller. The
// zero value is ready to use.
type Gather[T Item] struct {
	mu      sync.Mutex
	leading bool // a batch is under way
	waiting map[string][]*gathered[T]
	// orgs has the keys of waiting, in the order of their turns.
	orgs  []string
	count int // how many wait
}

// Item is something that a Gather writes.
type Item interface {
	// Bytes estimates how much the item adds to a transaction.
	Bytes() int
	// Org returns the organization that owns the item.
	Org() string
}

// gathered is an item and its caller.
type gathered[T Item] struct {
	item T
	err  error
	// lead receives true if the caller must lead a batch, false once its item is written.
	lead chan bool
}

var errBatchPanicked = errors.New("db: the batch of this write ended in a panic")

// originKey is the key, in a batch's context, for its leader's context. The batch belongs to many
// callers, so it takes nothing else from there.
type originKey struct{}

// origin returns the context of the caller that asked for a Write.
func origin(ctx context.Context) context.Context {
	if leader, ok := ctx.Value(originKey{}).(context.Context); ok {
		return leader
	}
	return ctx
}

// Do lets work write an item, together with other callers' items. If Do returns nil, the item is
// durable. work keeps an error that concerns one item in that item. If work returns an error, we
// write the items again one by one, so that a bad one fails alone. work may run more than once for
// an item, and must be the same for all callers of a Gather. Errors are Write's. If ctx carries a
// transaction, Do writes the item alone, within it.
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
	org := w.item.Org()
	if g.count >= maxWaiting || len(g.waiting[org]) >= maxWaiting/2 {
		return false, errs.Unavailablef(nil, "too many writes are waiting")
	}
	if g.waiting == nil {
		g.waiting = map[string][]*gathered[T]{}
	}
	if len(g.waiting[org]) == 0 {
		g.orgs = append(g.orgs, org)
	}
	g.waiting[org] = append(g.waiting[org], w)
	g.count++
	return false, nil
}

// leave removes a caller from the queue. It returns false if the caller is in a batch or leads one
// already; then it has to wait for the result.
func (g *Gather[T]) leave(w *gathered[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	org := w.item.Org()
	at := slices.Index(g.waiting[org], w)
	if at < 0 {
		return false
	}
	g.remove(org, at)
	g.prune()
	return true
}

// remove takes a waiting caller out. Call prune afterwards.
func (g *Gather[T]) remove(org string, at int) *gathered[T] {
	w := g.waiting[org][at]
	g.waiting[org] = slices.Delete(g.waiting[org], at, at+1)
	g.count--
	return w
}

// prune removes organizations without waiting callers.
func (g *Gather[T]) prune() {
	g.orgs = slices.DeleteFunc(g.orgs, func(org string) bool {
		if len(g.waiting[org]) > 0 {
			return false
		}
		delete(g.waiting, org)
		return true
	})
}

// write writes a leader's batch and wakes its callers, even after a panic, which continues in the
// leader.
func (g *Gather[T]) write(ctx context.Context, d *DB, leader *gathered[T], work func(tx *Tx, batch []T) error) {
	g.yield()
	batch := g.take(leader)
	defer func() {
		g.next(leader.item.Org())
		for _, w := range batch[1:] {
			w.lead <- false
		}
	}()
	for _, w := range batch {
		w.err = errBatchPanicked
	}
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

// yield lets other goroutines run while that still adds callers and the batch is not full. If
// nothing else can run, it takes no time.
func (g *Gather[T]) yield() {
	for before := -1; ; {
		g.mu.Lock()
		now := g.count
		g.mu.Unlock()
		if now <= before || now >= maxGathered {
			return
		}
		before = now
		runtime.Gosched()
	}
}

// take returns a batch: the leader, then waiting callers, one from each organization in turn. A
// large item shares its batch only with its own organization.
func (g *Gather[T]) take(leader *gathered[T]) []*gathered[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	batch := []*gathered[T]{leader}
	total := leader.item.Bytes()
	filled := map[string]int{leader.item.Org(): total}
	large := total > largeItem
	for more := true; more; {
		more = false
		for _, org := range g.orgs {
			if len(g.waiting[org]) == 0 || len(batch) == maxGathered || total >= maxGatheredBytes || filled[org] >= maxOrgBytes {
				continue
			}
			size := g.waiting[org][0].item.Bytes()
			if large && org != leader.item.Org() || !large && size > largeItem {
				continue
			}
			batch = append(batch, g.remove(org, 0))
			filled[org] += size
			total += size
			more = true
		}
	}
	g.prune()
	return batch
}

// next lets the organization whose turn it is lead: its first caller becomes the leader. The one that
// has just led comes after those that arrived meanwhile, so that they wait for one batch at most.
func (g *Gather[T]) next(last string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == 0 {
		g.leading = false
		return
	}
	if g.orgs[0] == last {
		g.orgs = append(g.orgs[1:], last)
	}
	org := g.orgs[0]
	g.orgs = append(g.orgs[1:], org)
	g.remove(org, 0).lead <- true
	g.prune()
}
