// Package budget bounds what the tenants of a process take of it: memory, connections, CPU time.
//
// A Pool is a number of bytes or slots. A request or connection opens a Charge for its owner, takes
// from the pool as its bytes arrive (ReadAll), and releases the charge when it ends. Owners have two
// levels: an organization, and below it a part such as a webhook, a database or a socket. Neither may
// take more than its share, and one that has little in use is served from a reserve, so that no tenant
// can keep another from its turn.
//
// A Pool refuses what does not fit; a Queue has owners wait for slots and serves them in turn. A Pace
// ends connections whose client sends too slowly. MemoryLimit is what the sizes of pools are derived
// from.
package budget

import "sync"

// Pool is a number of bytes or slots that owners share. It is safe for concurrent use.
//
// A quarter is the reserve. Of the rest, an organization has at most half, and a part of it at most
// half of that. The reserve is for organizations and parts that would not have more than the grant;
// parts of organizations that have more use half of it only.
type Pool struct {
	common, reserve     int64
	orgShare, partShare int64
	grant               int64

	mu    sync.Mutex
	used  Usage
	orgs  map[string]*account
	parts map[owner]*account
}

// Usage is what is in use of a Pool.
type Usage struct {
	// Total is the size of the pool.
	Total int64
	// Common and Reserve are in use of the two parts of the pool.
	Common  int64
	Reserve int64
	// Owners is the number of organizations that have something in use.
	Owners int
	// Refused is how often something was refused since the start.
	Refused int64
}

// owner is a part of an organization.
type owner struct{ org, part string }

// account is what an organization or a part has in use, of both the common part and the reserve.
type account struct{ used int64 }

// NewPool returns a pool of a size. The grant is what an owner always gets: the largest request that
// must be possible at any time. A pool has at least eight grants.
func NewPool(total, grant int64) *Pool {
	total = max(total, 8*grant)
	reserve := total / 4
	common := total - reserve
	return &Pool{
		common: common, reserve: reserve, orgShare: common / 2, partShare: common / 4, grant: grant,
		used: Usage{Total: total}, orgs: map[string]*account{}, parts: map[owner]*account{},
	}
}

// Usage returns what is in use.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.used
	u.Owners = len(p.orgs)
	return u
}

// Charge is what a request or connection has taken of a Pool. It is used by one goroutine at a time.
type Charge struct {
	pool  *Pool
	owner owner
	// common and reserve are what was taken of the two parts of the pool.
	common, reserve int64
}

// Charge returns an empty charge of an organization's part, or of the organization itself if part is
// empty. Release has to be called when it ends.
func (p *Pool) Charge(org, part string) *Charge {
	return &Charge{pool: p, owner: owner{org, part}}
}

// Used returns what the charge has taken.
func (c *Charge) Used() int64 { return c.common + c.reserve }

// Take takes n from the pool and reports whether there was room for it.
func (c *Charge) Take(n int64) bool {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	org, part := p.accounts(c.owner)
	switch {
	case part.used+n <= p.share(c.owner) && org.used+n <= p.orgShare && p.used.Common+n <= p.common:
		p.used.Common += n
		c.common += n
	case p.reserveFor(org, part, n):
		p.used.Reserve += n
		c.reserve += n
	default:
		p.used.Refused++
		p.forget(c.owner, org, part)
		return false
	}
	org.used += n
	part.used += n
	return true
}

// share returns how much a part may have.
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

// Return returns n of what was taken, what came from the reserve first.
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
}

// Release returns all that was taken. It may be called more than once.
func (c *Charge) Release() { c.Return(c.Used()) }

// accounts returns the accounts of an owner, which it creates if need be.
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
