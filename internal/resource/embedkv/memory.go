package embedkv

import (
	"context"
	"time"

	"steward/internal/budget"
	"steward/internal/resource"
)

// keyMemory is the memory of the keys and values of a store that is open or being opened. One goroutine uses it.
type keyMemory struct {
	engine *Engine
	store  *resource.Provisioned
	charge *budget.Charge
	// opening is the context of the opening, and deadline until when that waits for memory.
	opening  context.Context
	deadline time.Time
}

func (e *Engine) newKeyMemory(ctx context.Context, p *resource.Provisioned) *keyMemory {
	return &keyMemory{
		engine: e, store: p, charge: e.KeyMemory.Charge(p.OrgID, p.ID), opening: ctx, deadline: time.Now().Add(e.Limits.Wait),
	}
}

// reclaim closes a store that nobody uses, so that there may be room for n bytes more: one of the same organization if
// that has used up its share. If there is none, a store that is being opened waits for a while. It returns false if there
// is no use in trying again.
func (m *keyMemory) reclaim(n int64, opening bool) bool {
	e := m.engine
	org := ""
	if !m.charge.Fits(n) {
		org = m.store.OrgID
	}
	if e.pool.closeOne(org, e.Now().Add(-e.Limits.Reclaim)) {
		return true
	}
	if !opening || time.Now().After(m.deadline) || m.opening.Err() != nil {
		return false
	}
	return e.pool.pause() == nil
}
