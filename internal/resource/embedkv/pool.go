package embedkv

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"steward/internal/redis"
	"steward/internal/resource"
)

// pool keeps stores open.
type pool struct {
	max  int
	wait time.Duration
	// loading is how long a client waits while a store is opening.
	loading time.Duration
	// open opens a store, until ctx ends. unused is called after an unused store was closed.
	open   func(ctx context.Context, p *resource.Provisioned) (*redis.Store, error)
	unused func(id string)

	mu     sync.Mutex
	stores map[string]*entry
	// dropped holds the stores that are being removed. Each channel is closed afterwards.
	dropped map[string]chan struct{}
	// closing is closed when the pool starts closing.
	closing chan struct{}
	closed  bool
}

// entry is a store in the pool. Once ready is closed, store and err are set.
type entry struct {
	org   string
	ready chan struct{}
	// cancel stops opening the store.
	cancel context.CancelFunc
	store  *redis.Store
	err    error
}

var (
	errTooManyStores = errors.New("ERR too many stores are in use, try again")
	errClosed        = errors.New("ERR the store is closed")
)

func newPool(l Limits) *pool {
	return &pool{
		max: l.Stores, wait: l.Wait, loading: l.Loading, stores: map[string]*entry{}, dropped: map[string]chan struct{}{},
		closing: make(chan struct{}), unused: func(string) {},
	}
}

// get returns a store, and opens it if necessary. While too many are open, get waits until it can close
// one. If the store was closed in the meantime, get opens it again. If opening takes long, get returns
// redis.ErrLoading, and the next get waits for the same opening.
func (p *pool) get(of *resource.Provisioned) (*redis.Store, error) {
	deadline := time.Now().Add(p.wait)
	for {
		e, err := p.acquire(of)
		if errors.Is(err, errTooManyStores) && !p.makeRoom(of.OrgID) {
			if time.Now().After(deadline) {
				return nil, err
			}
			err = p.pause()
		}
		switch {
		case e == nil && (err == nil || errors.Is(err, errTooManyStores)):
			continue
		case err != nil:
			return nil, err
		}
		if !e.isReady(p.loading) {
			return nil, redis.ErrLoading
		}
		if e.err != nil || !hasEnded(e.store) {
			return e.store, e.err
		}
		p.forget(of.ID, e)
	}
}

// isReady waits a while for the store to open, and reports whether opening has ended, even with an error.
func (e *entry) isReady(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-e.ready:
		return true
	case <-late.C:
		return false
	}
}

// acquire returns a store's entry, and creates one if necessary. It returns errTooManyStores if there is
// no room for another.
func (p *pool) acquire(of *resource.Provisioned) (*entry, error) {
	id := of.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.dropped[id] != nil {
		removed := p.dropped[id]
		p.mu.Unlock()
		<-removed
		p.mu.Lock()
	}
	if p.closed {
		return nil, errClosed
	}
	if e := p.stores[id]; e != nil {
		return e, nil
	}
	if len(p.stores) >= p.max || p.hasShare(of.OrgID) {
		return nil, errTooManyStores
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &entry{org: of.OrgID, ready: make(chan struct{}), cancel: cancel}
	p.stores[id] = e
	go p.fill(ctx, of, e)
	return e, nil
}

// hasShare reports whether an organization has as many open stores as it may: three eighths of all, so
// that two organizations cannot lock out the others. The caller holds mu.
func (p *pool) hasShare(org string) bool {
	n := 0
	for _, e := range p.stores {
		if e.org == org {
			n++
		}
	}
	return n >= max(p.max*3/8, 1)
}

// evictPause is the pause before get tries again to close a store, while all are in use.
const evictPause = 20 * time.Millisecond

func (p *pool) pause() error {
	again := time.NewTimer(evictPause)
	defer again.Stop()
	select {
	case <-again.C:
		return nil
	case <-p.closing:
		return errClosed
	}
}

func hasEnded(s *redis.Store) bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// fill opens an entry's store.
func (p *pool) fill(ctx context.Context, of *resource.Provisioned, e *entry) {
	defer e.cancel()
	e.store, e.err = p.open(ctx, of)
	if e.err != nil {
		p.forget(of.ID, e)
	}
	close(e.ready)
}

func (p *pool) forget(id string, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stores[id] == e {
		delete(p.stores, id)
	}
}

// opened is an open store.
type opened struct {
	id    string
	entry *entry
	used  time.Time
}

// ready returns the open stores, least recently used first.
func (p *pool) ready() []opened {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []opened
	for id, e := range p.stores {
		select {
		case <-e.ready:
			if e.store != nil {
				all = append(all, opened{id, e, e.store.Used()})
			}
		default:
		}
	}
	slices.SortFunc(all, func(a, b opened) int { return a.used.Compare(b.used) })
	return all
}

// makeRoom closes an idle store so that the organization can open one. If the organization has its full
// share, makeRoom closes one of its own. It returns false if there is none to close.
func (p *pool) makeRoom(org string) bool {
	p.mu.Lock()
	own := p.hasShare(org)
	p.mu.Unlock()
	if !own {
		org = ""
	}
	return p.closeOne(org, time.Now())
}

// closeOne closes a store that has been unused since a time, among org's own unless org is empty. It
// returns false if there is none.
func (p *pool) closeOne(org string, since time.Time) bool {
	for _, o := range p.ready() {
		if org != "" && o.entry.org != org {
			continue
		}
		if p.closeIfUnused(o, since) {
			return true
		}
	}
	return false
}

// closeUnused closes the stores that have been unused since a time.
func (p *pool) closeUnused(since time.Time) {
	for _, o := range p.ready() {
		p.closeIfUnused(o, since)
	}
}

// closeIfUnused closes a store if it has been unused since a time. It reports whether the store is closed.
func (p *pool) closeIfUnused(o opened, since time.Time) bool {
	unused := o.entry.store.CloseUnused(since)
	if unused {
		p.unused(o.id)
	}
	if unused || hasEnded(o.entry.store) {
		p.forget(o.id, o.entry)
		return true
	}
	return false
}

// drop closes a store and calls remove. Nobody can open the store until remove returns.
func (p *pool) drop(ctx context.Context, id string, remove func() error) error {
	removed := make(chan struct{})
	p.mu.Lock()
	for p.dropped[id] != nil {
		other := p.dropped[id]
		p.mu.Unlock()
		<-other
		p.mu.Lock()
	}
	p.dropped[id] = removed
	e := p.stores[id]
	p.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		p.end(id, e)
		done <- remove()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.dropped, id)
		close(removed)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end closes an entry's store. The entry may be nil.
func (p *pool) end(id string, e *entry) {
	if e == nil {
		return
	}
	e.cancel()
	<-e.ready
	if e.store != nil {
		_ = e.store.Close() // acknowledged writes are on disk
	}
	p.forget(id, e)
}

// close closes all stores after their current turns.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	var ending sync.WaitGroup
	for id, e := range p.stores {
		ending.Go(func() { p.end(id, e) })
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		ending.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
