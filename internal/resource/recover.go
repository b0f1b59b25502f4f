package resource

import (
	"context"
	"errors"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// RecoverEvery is the interval between calls to Recover.
	RecoverEvery = 5 * time.Second
	// retryAfter is the pause after an engine has failed.
	retryAfter = 10 * time.Second
	// recoverBatch caps the rows read at a time.
	recoverBatch = 100
	// ensureEvery is the minimum interval between calls to Ensure.
	ensureEvery = 15 * time.Second
)

// ReleaseOwn ends the claims of an earlier process with the same data directory, so that the next Recover
// finishes its changes. Call it before this process serves requests.
func (m *Manager) ReleaseOwn(ctx context.Context) error { return m.Store.expire(ctx, m.Node) }

// Recover finishes changes whose process has died or given up, on any replica: it deletes resources that
// were being created or deleted, and finishes rotations. If another node has the files, that node deletes
// them. Recover logs engines' errors, and tries again later.
func (m *Manager) Recover(ctx context.Context) error {
	now := m.Store.now()
	down := map[Engine]error{}
	others, err := m.others(ctx)
	if err != nil {
		return err
	}
	for {
		due, err := m.Store.due(ctx, now, others, recoverBatch)
		if err != nil {
			return err
		}
		lost := 0 // being changed, perhaps by a process that has stopped
		for _, p := range due {
			err := m.recover(ctx, p, down)
			if errors.Is(err, errLost) {
				lost++
				continue
			}
			if err != nil {
				return err
			}
		}
		if len(due) < recoverBatch || lost == len(due) {
			m.ensure(ctx, now)
			return nil
		}
	}
}

// recover finishes one resource's change, unless we already know that its engine is down. It only returns
// database errors, and errLost if another replica is changing the resource.
func (m *Manager) recover(ctx context.Context, p *Provisioned, down map[Engine]error) error {
	e, err := m.engineOf(p)
	if err == nil {
		err = down[e]
	}
	if err != nil {
		return m.Store.postpone(ctx, p, m.Store.now().Add(retryAfter))
	}
	claimed, err := m.takeOver(ctx, p)
	if err != nil {
		return err
	}
	if err := m.complete(ctx, claimed); err != nil {
		if errs.KindOf(err) == errs.Unavailable {
			down[e] = err
		}
		m.retry(ctx, claimed, err)
	}
	return nil
}

// takeOver claims a resource. If it was being created, we delete it instead.
func (m *Manager) takeOver(ctx context.Context, p *Provisioned) (claimed *Provisioned, err error) {
	m.step("take over %s", p.Name)
	to := p.State
	if to == Creating {
		to = Deleting
	}
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		claimed, err = m.Store.move(tx, p, to, m.claim())
		return err
	})
	return claimed, err
}

// complete finishes a deletion or rotation that this process has claimed.
func (m *Manager) complete(ctx context.Context, p *Provisioned) error {
	if p.State == Rotating {
		_, err := m.finishRotation(ctx, p, nil)
		return err
	}
	if err := m.deleteOne(ctx, p); err != nil {
		return err
	}
	m.step("remove rows")
	return m.Store.remove(ctx, []*Provisioned{p})
}

// ensurer is an engine that can lose resources, such as a Redis server that does not save its users to a
// file.
type ensurer interface {
	Engine
	// Ensure creates those that are missing.
	Ensure(ctx context.Context, all []*Provisioned) error
}

// ensure calls Ensure on the engines that have it, at most once per ensureEvery.
func (m *Manager) ensure(ctx context.Context, now stamp.Time) {
	if now.Sub(stamp.Time(m.ensured.Load())) < ensureEvery {
		return
	}
	m.ensured.Store(int64(now))
	for _, r := range m.Regions {
		for _, t := range []Type{DB, KV} {
			e, ok := r.engine(t).(ensurer)
			if !ok {
				continue
			}
			if err := m.ensureOne(ctx, r.Region, t, e); err != nil {
				m.Log.Warn("cannot recreate what an engine may have lost", "region", r.Region, "engine", e.Name(), "error", err)
			}
		}
	}
}

// ensureOne calls Ensure, and then settles the resources that have changed in the meantime: Ensure may
// have recreated a deleted one.
func (m *Manager) ensureOne(ctx context.Context, region string, t Type, e ensurer) error {
	before, err := m.Store.served(ctx, region, e.Name(), t)
	if err != nil || len(before) == 0 {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	failed := e.Ensure(limited, before) // may fail after recreating some
	after, err := m.Store.served(ctx, region, e.Name(), t)
	if err != nil {
		return errors.Join(failed, err)
	}
	current := map[string]int64{}
	for _, p := range after {
		current[p.ID] = p.version
	}
	for _, p := range before {
		if current[p.ID] != p.version {
			m.settleAll(ctx, []*Provisioned{p})
		}
	}
	return failed
}
