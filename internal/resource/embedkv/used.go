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

// usedName is an empty file beside an open store's log. It tells the next process which stores were in
// use. It need not be durable: without it, the store opens for its first client.
const usedName = "used"

func (e *Engine) markUsed(id string) {
	if err := os.WriteFile(filepath.Join(e.dir(id), usedName), nil, 0o600); err != nil {
		e.Log.Warn("note that a key-value store is in use", "store", id, "error", err)
	}
}

func (e *Engine) markUnused(id string) { _ = os.Remove(filepath.Join(e.dir(id), usedName)) }

// openUsed opens the stores that were in use when the last process ended, one by one until ctx ends.
// Organizations take turns. It stops when less than half of the key memory would stay free for clients.
func (e *Engine) openUsed(ctx context.Context) {
	for _, p := range e.used(ctx) {
		usage := e.KeyMemory.Usage()
		if usage.Common+usage.Reserve+e.Limits.Memory > usage.Total/2 {
			return
		}
		if !e.KeyMemory.Charge(p.OrgID, p.ID).Fits(e.Limits.Memory) {
			continue
		}
		e.markUnused(p.ID) // if it crashes this process, the next one must not open it again
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

// used returns the stores that were in use when the last process ended. Organizations take turns, each
// with its most recently opened store first.
func (e *Engine) used(ctx context.Context) []*resource.Provisioned {
	type store struct {
		*resource.Provisioned
		opened time.Time
		turn   int
	}
	files, err := filepath.Glob(filepath.Join(e.Dir, "*", usedName))
	if err != nil {
		return nil // only for a malformed pattern
	}
	var all []store
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		p, err := e.Rows.ByID(ctx, filepath.Base(filepath.Dir(file)))
		if err != nil || p.Node != e.Node || e.Active.Check(ctx, p.OrgID) != nil {
			continue // its first client learns why
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
