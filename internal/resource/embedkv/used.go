package embedkv

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/resource"
)

// usedName is the name of an empty file beside the log of a store that is open, so that the next process knows which
// stores were in use. It need not be durable: without it, the store's first client opens the store.
const usedName = "used"

func (e *Engine) markUsed(id string) {
	if err := os.WriteFile(filepath.Join(e.dir(id), usedName), nil, 0o600); err != nil {
		e.Log.Warn("note that a key-value store is in use", "store", id, "error", err)
	}
}

func (e *Engine) markUnused(id string) { _ = os.Remove(filepath.Join(e.dir(id), usedName)) }

// openUsed opens the stores that were in use when the last process ended, one after the other until ctx ends, while
// half of the memory for keys has room for any of them. Organizations take turns.
func (e *Engine) openUsed(ctx context.Context) {
	for _, p := range e.used(ctx) {
		usage := e.KeyMemory.Usage()
		if usage.Common+usage.Reserve+e.Limits.Memory > usage.Total/2 {
			return
		}
		if !e.KeyMemory.Charge(p.OrgID, p.ID).Fits(e.Limits.Memory) {
			continue
		}
		e.markUnused(p.ID) // the next process must not open it again if it brings this one down
		opening, err := e.pool.acquire(p)
		if err != nil {
			continue
		}
		select {
		case <-opening.ready:
		case <-ctx.Done():
			return
		}
	}
}

// used returns the stores that were in use when the last process ended: of each organization the latest first, and
// those of all organizations in turns.
func (e *Engine) used(ctx context.Context) []*resource.Provisioned {
	type store struct {
		*resource.Provisioned
		opened time.Time
		turn   int
	}
	files, err := filepath.Glob(filepath.Join(e.Dir, "*", usedName))
	if err != nil {
		return nil // the pattern is wrong
	}
	var all []store
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		p, err := e.ByID(ctx, filepath.Base(filepath.Dir(file)))
		if err != nil || p.Node != e.Node || e.active(ctx, p) != nil {
			continue // its first client finds out why
		}
		all = append(all, store{Provisioned: p, opened: info.ModTime()})
	}
	slices.SortFunc(all, func(a, b store) int { return b.opened.Compare(a.opened) })
	turns := map[string]int{}
	for i, s := range all {
		all[i].turn = turns[s.OrgID]
		turns[s.OrgID]++
	}
	slices.SortStableFunc(all, func(a, b store) int { return cmp.Compare(a.turn, b.turn) })
	stores := make([]*resource.Provisioned, len(all))
	for i, s := range all {
		stores[i] = s.Provisioned
	}
	return stores
}
