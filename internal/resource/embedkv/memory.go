package embedkv

import (
	"context"
	"time"

	"steward/internal/budget"
	"steward/internal/resource"
)

// keyMemory charges the keys and values in a store that is open or opening. Only one goroutine uses it.
type keyMemory struct {
	engine *Engine
	store  *resource.Provisioned
	charge *budget.Charge
	// opening ends when the store stops opening. Until deadline, opening waits for memory.
	opening  context.Context
	deadline time.Time
}

func (e *Engine) newKeyMemory(ctx context.Context, p *resource.Provisioned) *keyMemory {
	return &keyMemory{
		engine: e, store: p, charge: e.KeyMemory.Charge(p.OrgID, p.ID), opening: ctx, deadline: time.Now().Add(e.Limits.Wait),
	}
}

// reclaim closes an unused store to make room for n bytes. If the organization has used up its share,
// reclaim closes one of its own. If there is none to close, a store that is opening waits a while.
// reclaim returns false if trying again is pointless.
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
