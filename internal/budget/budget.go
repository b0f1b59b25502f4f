// Package budget bounds how much of a process its tenants may take: memory, connections, CPU time.
//
// A Pool is a number of bytes or slots. A request or connection opens a Charge for its owner, takes
// from the pool as its bytes arrive (ReadAll), and releases the charge when it ends. Owners have two
// levels: an organization, and below it a part such as a webhook, a database or a socket. Neither
// may take more than its share, and a reserve serves those that have little in use, so that no
// tenant can keep another from its turn.
//
// A Pool refuses charges that do not fit, or lets them wait (Wait). A Queue makes owners wait for
// slots and serves them in turn; a Rate does so for a quantity per second, such as bytes. A Pace
// ends connections whose client sends too slowly. We derive the pools' sizes from MemoryLimit.
package budget

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Pool is a number of bytes or slots that owners share. It is safe for concurrent use.
//
// A quarter is the reserve. An organization gets at most half the rest, and a part of it at most
// half of that. The reserve serves organizations and parts that would stay within the grant; parts
// of larger organizations may use half the reserve.
type Pool struct {
	common, reserve     int64
	orgShare, partShare int64
	grant               int64

	mu    sync.Mutex
	used  Usage
	orgs  map[string]*account
	parts map[owner]*account
	// waiting has the callers in Wait, by organization, in the order of their turns.
	waiting map[string][]*waiter
}

// waiter waits for room for n. ready is closed once it has it.
type waiter struct {
	charge *Charge
	n      int64
	ready  chan struct{}
}

// Usage tells how much of a Pool is in use.
type Usage struct {
	// Total is the pool's size.
	Total int64
	// Common and Reserve are in use from the pool's two parts.
	Common  int64
	Reserve int64
	// Owners counts the organizations that have something in use.
	Owners int
	// Refused counts the refusals since the start.
	Refused int64
}

// owner is a part of an organization.
type owner struct{ org, part string }

// account counts how much an organization or a part has in use, from both the common part and the
// reserve.
type account struct{ used int64 }

// NewPool returns a pool of a size. The grant is always available to an owner: the largest request
// that must be possible at any time. A pool has at least eight grants.
func NewPool(total, grant int64) *Pool {
	total = max(total, 8*grant)
	reserve := total / 4
	common := total - reserve
	return &Pool{
		common: common, reserve: reserve, orgShare: common / 2, partShare: common / 4, grant: grant,
		used: Usage{Total: total}, orgs: map[string]*account{}, parts: map[owner]*account{},
		waiting: map[string][]*waiter{},
	}
}

// Share returns the limit for a part of an organization.
func (p *Pool) Share() int64 { return p.partShare }

// Usage returns the current usage.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.used
	u.Owners = len(p.orgs)
	return u
}

// Charge is the amount that a request or connection has taken from a Pool. Only one goroutine may
// use it at a time.
type Charge struct {
	pool  *Pool
	owner owner
	// common and reserve were taken from the pool's two parts.
	common, reserve int64
}

// Charge returns an empty charge for an organization's part, or for the organization itself if part
// is empty. Call Release when it ends.
func (p *Pool) Charge(org, part string) *Charge {
	return &Charge{pool: p, owner: owner{org, part}}
}

// Used returns the amount taken.
func (c *Charge) Used() int64 { return c.common + c.reserve }

// Take takes n from the pool and reports whether there was room for it.
func (c *Charge) Take(n int64) bool {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := c.take(n)
	if !taken {
		p.used.Refused++
	}
	return taken
}

// Fits reports whether n is within the owner's shares, so that there is room for it once others
// return theirs.
func (c *Charge) Fits(n int64) bool {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	org, part := p.accounts(c.owner)
	defer p.forget(c.owner, org, part)
	return part.used+n <= p.share(c.owner) && org.used+n <= p.orgShare
}

// take takes n if there is room for it. The caller holds the pool's lock.
func (c *Charge) take(n int64) bool {
	p := c.pool
	org, part := p.accounts(c.owner)
	switch {
	case part.used+n <= p.share(c.owner) && org.used+n <= p.orgShare && p.used.Common+n <= p.common:
		p.used.Common += n
		c.common += n
	case p.reserveFor(org, part, n):
		p.used.Reserve += n
		c.reserve += n
	default:
		p.forget(c.owner, org, part)
		return false
	}
	org.used += n
	part.used += n
	return true
}

// Wait takes n from the pool as soon as there is room for it. An organization's waiting charges are
// served in the order in which they came, but those that already have something go first, so that
// work can end once it has begun. If ctx ends first, Wait returns its error.
func (c *Charge) Wait(ctx context.Context, n int64) error {
	w := c.enqueue(n)
	if w == nil {
		return nil
	}
	return c.await(ctx, w)
}

// await waits until a waiter gets its n. If ctx ends first, it gets nothing.
func (c *Charge) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting[c.owner.org], w)
	if i < 0 {
		return nil // it got it at the same time
	}
	p.dequeue(c.owner.org, i)
	p.used.Refused++
	p.serve() // the next in line may want less
	return ctx.Err()
}

// enqueue takes n and returns nil, or returns a waiter if there is no room.
func (c *Charge) enqueue(n int64) *waiter {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.waiting[c.owner.org]
	if (len(queue) == 0 || c.Used() > 0) && c.take(n) {
		return nil
	}
	w := &waiter{charge: c, n: n, ready: make(chan struct{})}
	at := len(queue)
	if c.Used() > 0 {
		at = slices.IndexFunc(queue, func(other *waiter) bool { return other.charge.Used() == 0 })
	}
	if at < 0 {
		at = len(queue)
	}
	p.waiting[c.owner.org] = slices.Insert(queue, at, w)
	return w
}

// serve takes n for the waiting charges that fit now.
func (p *Pool) serve() {
	for org, queue := range p.waiting {
		for len(queue) > 0 && queue[0].charge.take(queue[0].n) {
			close(queue[0].ready)
			queue = p.dequeue(org, 0)
		}
	}
}

// dequeue removes a waiter, and returns the remaining ones.
func (p *Pool) dequeue(org string, i int) []*waiter {
	queue := slices.Delete(p.waiting[org], i, i+1)
	if len(queue) == 0 {
		delete(p.waiting, org)
		return nil
	}
	p.waiting[org] = queue
	return queue
}

// share returns a part's limit.
func (p *Pool) share(o owner) int64 {
	if o.part == "" {
		return p.orgShare
	}
	return p.partShare
}

// reserveFor reports whether n may come from the reserve.
func (p *Pool) reserveFor(org, part *account, n int64) bool {
	if org.used+n <= p.grant {
		return p.used.Reserve+n <= p.reserve
	}
	return part.used+n <= p.grant && p.used.Reserve+n <= p.reserve/2
}

// Return returns n to the pool, to the reserve first.
func (c *Charge) Return(n int64) {
	if n == 0 {
		return
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	reserve := min(n, c.reserve)
	c.reserve -= reserve
	c.common -= n - reserve
	p.used.Reserve -= reserve
	p.used.Common -= n - reserve
	org, part := p.accounts(c.owner)
	org.used -= n
	part.used -= n
	p.forget(c.owner, org, part)
	p.serve()
}

// Release returns everything that was taken. You may call it more than once.
func (c *Charge) Release() { c.Return(c.Used()) }

// accounts returns an owner's accounts, and creates them if need be.
func (p *Pool) accounts(o owner) (org, part *account) {
	org, ok := p.orgs[o.org]
	if !ok {
		org = &account{}
		p.orgs[o.org] = org
	}
	part, ok = p.parts[o]
	if !ok {
		part = &account{}
		p.parts[o] = part
	}
	return org, part
}

// forget removes accounts that are empty.
func (p *Pool) forget(o owner, org, part *account) {
	if part.used == 0 {
		delete(p.parts, o)
	}
	if org.used == 0 {
		delete(p.orgs, o.org)
	}
}

// Address returns the owner of connections from a remote address, until we know who connects: the
// IPv4 address, or the /64 network of an IPv6 address, since a host has a whole one.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if network, err := addr.Prefix(64); err == nil && addr.Is6() {
		return network.String()
	}
	return addr.String()
}
