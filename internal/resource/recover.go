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
	// RecoverEvery is how often Recover has to be called.
	RecoverEvery = 5 * time.Second
	// retryAfter is when the recovery tries again what an engine has refused.
	retryAfter = 10 * time.Second
	// recoverBatch is the number of resources that are read at a time.
	recoverBatch = 100
	// ensureEvery is how often engines recreate what they may have lost.
	ensureEvery = 15 * time.Second
)

// ReleaseOwn ends the claims of an earlier process with the same data directory, so that the next Recover
// completes what it was changing. It must be called before this process serves requests.
func (m *Manager) ReleaseOwn(ctx context.Context) error { return m.Store.expire(ctx, m.Node) }

// Recover completes the changes whose processes have died or given up, whatever the replica: what was
// being created or deleted is deleted, and rotations are finished. Files that another node has are deleted by
// that one. It logs the errors of engines, and tries again later.
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
		lost := 0 // are being changed, perhaps by a process that does not go on
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

// recover completes the change of one resource, unless its engine has been found to be down. It
// returns errors of the database only, and errLost if another replica changes the resource.
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

// takeOver claims a resource. One that was being created is deleted from now on.
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

// complete completes the deletion or rotation of a resource that this process has claimed.
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

// ensurer is an engine that can lose what it has created, such as the users of a Redis server without
// a file for them.
type ensurer interface {
	Engine
	// Ensure creates what is missing of some resources.
	Ensure(ctx context.Context, all []*Provisioned) error
}

// ensure calls Ensure of the engines that have it, if that was not done within ensureEvery.
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

// ensureOne calls Ensure of an engine, and then reconciles the resources that were changed meanwhile:
// Ensure may have recreated one that was deleted.
func (m *Manager) ensureOne(ctx context.Context, region string, t Type, e ensurer) error {
	before, err := m.Store.served(ctx, region, e.Name(), t)
	if err != nil || len(before) == 0 {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	failed := e.Ensure(limited, before) // perhaps after recreating some
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
