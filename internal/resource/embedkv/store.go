package embedkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"steward/internal/budget"
	"steward/internal/durable"
	"steward/internal/redis"
	"steward/internal/resource"
)

var (
	errDiskFull = errors.New("OOM command not allowed when the disk of the server is almost full")
	errOpen     = errors.New("ERR the store cannot be opened, try again")
)

func (e *Engine) dir(id string) string { return filepath.Join(e.Dir, id) }

// openStore opens a store, until ctx ends. Its errors are replies.
func (e *Engine) openStore(ctx context.Context, p *resource.Provisioned) (*redis.Store, error) {
	log := e.Log.With("organization", p.OrgID, "store", p.ID)
	memory := e.newKeyMemory(ctx, p)
	use := e.usage.Of(p.OrgID, p.ID)
	s, err := redis.Open(ctx, redis.Dir(e.dir(p.ID)), redis.Options{
		Log: log, Memory: e.Limits.Memory, Charge: memory.charge, ScriptCharge: e.ScriptMemory.Charge(p.OrgID, ""), Reclaim: memory.reclaim, Writable: e.writable,
		Counters: &use.store, Enter: func() func() { return e.enter(p) },
		Reply: e.Limits.Reply, Queue: e.Limits.Queue, QueueBytes: e.Limits.Request,
	})
	if errors.Is(err, redis.ErrNoMemory) {
		log.Warn("no memory for a key-value store")
		use.refused.Add(1)
		return nil, redis.ErrNoMemory
	}
	if ctx.Err() != nil && err != nil {
		return nil, errClosed
	}
	if err != nil {
		log.Error("open key-value store", "error", err)
		return nil, errOpen
	}
	e.markUsed(p.ID)
	return s, nil
}

// enter waits for a slot to run a long operation.
func (e *Engine) enter(p *resource.Provisioned) (leave func()) {
	_ = e.running.Enter(context.Background(), p.OrgID, p.ID) // only an ended context makes it fail
	return func() { e.running.Leave(p.OrgID) }
}

// writable returns an error while the disk is almost full.
func (e *Engine) writable() error {
	if e.Disk.Room() != nil {
		return errDiskFull
	}
	return nil
}

// createStore creates an empty store. When it returns, the store and its name are on disk.
func (e *Engine) createStore(id string) error {
	dir := e.dir(id)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	exists, err := redis.Exists(redis.Dir(dir))
	if err != nil || exists {
		return err
	}
	if err := redis.Import(redis.Dir(dir), func(func(...string) error) error { return nil }); err != nil {
		return err
	}
	return durable.SyncDir(e.Dir)
}

// remove closes a store and removes its directory.
func (e *Engine) remove(ctx context.Context, id string) error {
	return e.pool.drop(ctx, id, func() error {
		if err := os.RemoveAll(e.dir(id)); err != nil {
			return fmt.Errorf("remove files: %w", err)
		}
		return durable.SyncDir(e.Dir)
	})
}

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
