package budget

import (
	"context"
	"slices"
	"sync"
)

// Queue makes owners wait for a number of slots, such as processors. A free slot goes to the next
// waiting organization, within that to its next part, and there to the caller that has waited
// longest. An organization never has all slots, unless there is only one. It is safe for concurrent
// use.
type Queue struct {
	slots, share int

	mu      sync.Mutex
	running int
	// orgs have slots or wait for one, in the order of their next turns. An organization goes to the
	// end when it gets a slot, and again when it returns one: others that came meanwhile are served
	// first.
	orgs []*queuedOrg
}

type queuedOrg struct {
	name    string
	running int
	// parts are waiting, in the order of their next turns.
	parts []*queuedPart
}

type queuedPart struct {
	name    string
	waiting []chan struct{} // closed when its owner has a slot
}

// NewQueue returns a queue with a number of slots.
func NewQueue(slots int) *Queue {
	return &Queue{slots: max(1, slots), share: max(1, slots-1)}
}

// Enter waits for a slot for an organization's part. If ctx ends first, it returns ctx's error.
// Leave returns the slot.
func (q *Queue) Enter(ctx context.Context, org, part string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ready := q.wait(org, part)
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	if !q.cancel(org, part, ready) {
		q.Leave(org) // it got its slot at the same time
	}
	return ctx.Err()
}

// Leave returns an organization's slot.
func (q *Queue) Leave(org string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.org(org)
	o.running--
	q.running--
	q.moveLast(o)
	q.serve()
}

// Running counts the slots in use.
func (q *Queue) Running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// Waiting counts the callers that wait for a slot.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, o := range q.orgs {
		for _, p := range o.parts {
			n += len(p.waiting)
		}
	}
	return n
}

// Contended reports whether somebody who waits could have this organization's slot, so that a caller
// who has used one for a while should leave and enter again.
func (q *Queue) Contended(org string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.orgs, func(o *queuedOrg) bool {
		return len(o.parts) > 0 && (o.name == org || o.running < q.share)
	})
}

func (q *Queue) wait(org, part string) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready := make(chan struct{})
	o := q.org(org)
	i := slices.IndexFunc(o.parts, func(p *queuedPart) bool { return p.name == part })
	if i < 0 {
		i = len(o.parts)
		o.parts = append(o.parts, &queuedPart{name: part})
	}
	o.parts[i].waiting = append(o.parts[i].waiting, ready)
	q.serve()
	return ready
}

// cancel removes a waiting caller, and reports whether it still waited.
func (q *Queue) cancel(org, part string, ready chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.org(org)
	for i, p := range o.parts {
		at := slices.Index(p.waiting, ready)
		if p.name != part || at < 0 {
			continue
		}
		p.waiting = slices.Delete(p.waiting, at, at+1)
		if len(p.waiting) == 0 {
			o.parts = slices.Delete(o.parts, i, i+1)
		}
		q.forget()
		return true
	}
	return false
}

// serve gives free slots to those whose turn it is.
func (q *Queue) serve() {
	for q.running < q.slots {
		i := slices.IndexFunc(q.orgs, func(o *queuedOrg) bool { return len(o.parts) > 0 && o.running < q.share })
		if i < 0 {
			break
		}
		o := q.orgs[i]
		q.moveLast(o)
		o.running++
		q.running++
		close(o.next())
	}
	q.forget()
}

// moveLast moves an organization to the end.
func (q *Queue) moveLast(o *queuedOrg) {
	i := slices.Index(q.orgs, o)
	q.orgs = append(slices.Delete(q.orgs, i, i+1), o)
}

// next takes out the organization's next caller. Its part goes to the end.
func (o *queuedOrg) next() chan struct{} {
	p := o.parts[0]
	o.parts = slices.Delete(o.parts, 0, 1)
	ready := p.waiting[0]
	p.waiting = p.waiting[1:]
	if len(p.waiting) > 0 {
		o.parts = append(o.parts, p)
	}
	return ready
}

// org returns an organization, and adds it at the end if need be.
func (q *Queue) org(name string) *queuedOrg {
	i := slices.IndexFunc(q.orgs, func(o *queuedOrg) bool { return o.name == name })
	if i < 0 {
		i = len(q.orgs)
		q.orgs = append(q.orgs, &queuedOrg{name: name})
	}
	return q.orgs[i]
}

// forget removes organizations that have and want nothing.
func (q *Queue) forget() {
	q.orgs = slices.DeleteFunc(q.orgs, func(o *queuedOrg) bool { return o.running == 0 && len(o.parts) == 0 })
}
