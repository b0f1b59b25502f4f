package budget

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Rate makes organizations wait for a quantity per second, such as bytes or processor time. One at a
// time has its turn: next is the waiting organization that has used least, so that organizations
// share the rate equally, however many callers each has and whatever a turn costs. One that was away
// may use a burst before the others. It is safe for concurrent use.
type Rate struct {
	perSecond, burst float64

	mu sync.Mutex
	// level is the amount available at the time at. It is negative after a turn that cost more.
	level float64
	at    time.Time
	// turn is the organization that has its turn. wake fires once level is no longer negative.
	turn *rateOrg
	wake *time.Timer
	// used is the highest usage with which an organization has got a turn. orgs are waiting, or are
	// less than a burst behind that.
	used float64
	orgs map[string]*rateOrg
}

type rateOrg struct {
	used    float64
	waiting []chan struct{} // closed when its owner has its turn
}

// NewRate returns a rate. It saves up at most a burst while it is not in use.
func NewRate(perSecond, burst float64) *Rate {
	return &Rate{perSecond: perSecond, burst: burst, level: burst, at: time.Now(), orgs: map[string]*rateOrg{}}
}

// Enter waits for an organization's turn. If ctx ends first, it returns ctx's error. Leave ends the
// turn.
func (r *Rate) Enter(ctx context.Context, org string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ready := r.wait(org)
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	if !r.cancel(org, ready) {
		r.Leave(0) // it got its turn at the same time
	}
	return ctx.Err()
}

// Leave ends a turn, which cost n.
func (r *Rate) Leave(n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.level -= n
	r.turn.used += n
	r.turn = nil
	r.serve()
}

func (r *Rate) wait(org string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.orgs[org]
	if o == nil {
		o = &rateOrg{used: r.used - r.burst} // if it was away, it has saved no more than that
		r.orgs[org] = o
	}
	ready := make(chan struct{})
	o.waiting = append(o.waiting, ready)
	r.serve()
	return ready
}

// cancel removes a waiting caller, and reports whether it still waited.
func (r *Rate) cancel(org string, ready chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.orgs[org]
	i := slices.Index(o.waiting, ready)
	if i < 0 {
		return false
	}
	o.waiting = slices.Delete(o.waiting, i, i+1)
	return true
}

// serve begins the next turn, if anything is available.
func (r *Rate) serve() {
	if r.turn != nil {
		return
	}
	org := r.next()
	if org == nil {
		return
	}
	now := time.Now()
	r.level = min(r.level+now.Sub(r.at).Seconds()*r.perSecond, r.burst)
	r.at = now
	if r.level < 0 {
		r.serveLater()
		return
	}
	r.turn = org
	r.used = max(r.used, org.used)
	close(org.waiting[0])
	org.waiting = org.waiting[1:]
	r.forget()
}

// serveLater calls serve once the level is no longer negative.
func (r *Rate) serveLater() {
	pause := time.Duration(-r.level/r.perSecond*float64(time.Second)) + 1
	if r.wake != nil {
		r.wake.Reset(pause)
		return
	}
	r.wake = time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.serve()
	})
}

// next returns the waiting organization that has used least, or nil.
func (r *Rate) next() (next *rateOrg) {
	for _, o := range r.orgs {
		if len(o.waiting) > 0 && (next == nil || o.used < next.used) {
			next = o
		}
	}
	return next
}

// forget removes organizations that do not wait and would get a burst if they came again.
func (r *Rate) forget() {
	for name, o := range r.orgs {
		if len(o.waiting) == 0 && o != r.turn && o.used <= r.used-r.burst {
			delete(r.orgs, name)
		}
	}
}
