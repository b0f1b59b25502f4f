package budget

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Rate has organizations wait for what there is per second, such as bytes or time of a processor. One
// at a time has its turn: it is next if its organization has used least, so that organizations share
// the rate equally, however many of each wait and whatever a turn costs. One that was away may use a
// burst before the others. It is safe for concurrent use.
type Rate struct {
	perSecond, burst float64

	mu sync.Mutex
	// level is what can be used at the time at. It is negative after a turn that cost more.
	level float64
	at    time.Time
	// turn is the organization that has its turn, and wake the timer for the time at which level is no
	// longer negative.
	turn *rateOrg
	wake *time.Timer
	// used is the most that an organization had used when it got a turn. orgs are those that wait, or
	// are less than a burst behind that.
	used float64
	orgs map[string]*rateOrg
}

type rateOrg struct {
	used    float64
	waiting []chan struct{} // closed when its owner has its turn
}

// NewRate returns a rate. At most burst is kept of what was not used.
func NewRate(perSecond, burst float64) *Rate {
	return &Rate{perSecond: perSecond, burst: burst, level: burst, at: time.Now(), orgs: map[string]*rateOrg{}}
}

// Enter waits for a turn of an organization, and returns the error of ctx if that ends before. Leave
// ends the turn.
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
		o = &rateOrg{used: r.used - r.burst} // who was away has saved no more than that
		r.orgs[org] = o
	}
	ready := make(chan struct{})
	o.waiting = append(o.waiting, ready)
	r.serve()
	return ready
}

// cancel removes who waits, and reports whether it still waited.
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

// serve begins the next turn, if there is something to use.
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

// serveLater calls serve when the level is no longer negative.
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

// next returns the organization that waits and has used least, or nil.
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
