package embedkv

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pool keeps stores open.
type pool struct {
	max  int
	open func(id string) (*store, error)
	now  func() time.Time

	mu     sync.Mutex
	stores map[string]*entry
	closed bool
}

// entry is a store of the pool.
type entry struct {
	// ready is closed when store and err are set.
	ready chan struct{}
	store *store
	err   error
	// users and lastUsed are guarded by the pool's mu.
	users    int
	lastUsed time.Time
	// gone is closed when the store is closed; nil before it begins to be.
	gone chan struct{}
}

var errTooManyStores = errors.New("ERR too many stores are in use, try again")

// use calls f with a store, which it opens if necessary.
func (p *pool) use(id string, f func(*store) error) error {
	e, err := p.acquire(id)
	if err != nil {
		return err
	}
	defer p.release(e)
	<-e.ready
	if e.err != nil {
		return e.err
	}
	return f(e.store)
}

func (p *pool) acquire(id string) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.stores[id]; e != nil && e.gone != nil; e = p.stores[id] {
		p.wait(e)
	}
	if p.closed {
		return nil, errClosed
	}
	if e := p.stores[id]; e != nil {
		e.users++
		return e, nil
	}
	if len(p.stores) >= p.max && !p.evict() {
		return nil, errTooManyStores
	}
	e := &entry{ready: make(chan struct{}), users: 1}
	p.stores[id] = e
	go p.fill(id, e)
	return e, nil
}

// fill opens the store of an entry.
func (p *pool) fill(id string, e *entry) {
	e.store, e.err = p.open(id)
	if e.err != nil {
		p.mu.Lock()
		delete(p.stores, id)
		p.mu.Unlock()
	}
	close(e.ready)
}

// wait waits until an entry is gone, without the lock.
func (p *pool) wait(e *entry) {
	p.mu.Unlock()
	<-e.gone
	p.mu.Lock()
}

func (p *pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.lastUsed = p.now()
}

// evict begins to close the store that was not used for longest. It returns false if all are in use.
func (p *pool) evict() bool {
	oldest := ""
	for id, e := range p.stores {
		if e.users == 0 && e.gone == nil && (oldest == "" || e.lastUsed.Before(p.stores[oldest].lastUsed)) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	p.retire(oldest, p.stores[oldest])
	return true
}

// retire closes a store in the background. The caller holds mu.
func (p *pool) retire(id string, e *entry) {
	e.gone = make(chan struct{})
	go func() {
		<-e.ready
		if e.store != nil {
			e.store.close()
		}
		p.mu.Lock()
		if p.stores[id] == e {
			delete(p.stores, id)
		}
		p.mu.Unlock()
		close(e.gone)
	}()
}

// closeUnused closes stores that have not been used for some time.
func (p *pool) closeUnused(age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.stores {
		if e.users == 0 && e.gone == nil && p.now().Sub(e.lastUsed) > age {
			p.retire(id, e)
		}
	}
}

// interruptLong ends commands that have run longer than a limit.
func (p *pool) interruptLong(limit time.Duration) {
	for _, s := range p.ready() {
		s.interrupt(limit)
	}
}

// ready returns the stores that are open.
func (p *pool) ready() []*store {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stores []*store
	for _, e := range p.stores {
		select {
		case <-e.ready:
			if e.store != nil {
				stores = append(stores, e.store)
			}
		default:
		}
	}
	return stores
}

// drop closes a store, and ends the command that it runs.
func (p *pool) drop(ctx context.Context, id string) error {
	p.mu.Lock()
	e := p.stores[id]
	if e != nil && e.gone == nil {
		p.retire(id, e)
	}
	p.mu.Unlock()
	if e == nil {
		return nil
	}
	return await(ctx, e)
}

// await waits until a store is closed, and interrupts its commands meanwhile.
func await(ctx context.Context, e *entry) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-e.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			select {
			case <-e.ready:
				if e.store != nil {
					e.store.interrupt(0)
				}
			default:
			}
		}
	}
}

// close closes all stores after their current batches.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	var entries []*entry
	for id, e := range p.stores {
		if e.gone == nil {
			p.retire(id, e)
		}
		entries = append(entries, e)
	}
	p.mu.Unlock()
	for _, e := range entries {
		select {
		case <-e.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
