package resource

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
)

// Rotate gives a resource new credentials and returns it with them. The old ones stop working. Rotate
// returns NotFound, Conflict if a rotation is under way, and Unavailable if the engine cannot be reached;
// the message then says whether the rotation continues.
func (m *Manager) Rotate(ctx context.Context, p *Provisioned, keep func(*db.Tx, Resource) error) (*Provisioned, error) {
	if p.State != Active {
		return nil, errs.New(errs.Conflict, "the credentials of %s %s are being rotated", p.Type.noun(), p.Name)
	}
	if err := m.check(ctx, []*Provisioned{p}); err != nil {
		return nil, err
	}
	m.step("begin rotation")
	var rotating *Provisioned
	err := m.Store.DB.Write(ctx, func(tx *db.Tx) (err error) {
		if rotating, err = m.Store.rotate(tx, p, m.claim()); err != nil {
			return err
		}
		return m.Store.Audit.Record(tx, p.Type.action("rotate"), p.ID)
	})
	if err != nil {
		return nil, err
	}
	active, err := m.finishRotation(context.WithoutCancel(ctx), rotating, keep)
	if err != nil {
		m.retry(context.WithoutCancel(ctx), rotating, err)
		return nil, errs.Unavailablef(err, "the resource has new credentials, but its engine could not apply them yet: the rotation continues")
	}
	return active, nil
}

// finishRotation makes the engine accept only the new password. If that fails, another change may have
// overtaken the call, so we settle the resource.
func (m *Manager) finishRotation(ctx context.Context, rotating *Provisioned, keep func(*db.Tx, Resource) error) (*Provisioned, error) {
	active, err := m.applyRotation(ctx, rotating, keep)
	if err != nil {
		m.settleAll(ctx, []*Provisioned{rotating})
	}
	return active, err
}

func (m *Manager) applyRotation(ctx context.Context, rotating *Provisioned, keep func(*db.Tx, Resource) error) (active *Provisioned, err error) {
	e, err := m.engineOf(rotating)
	if err != nil {
		return nil, err
	}
	if err := m.call(ctx, rotating, "rotate", e.Rotate); err != nil {
		return nil, err
	}
	m.rotateThere(ctx, rotating)
	m.step("activate")
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		if active, err = m.Store.activate(tx, rotating); err != nil || keep == nil {
			return err
		}
		return keep(tx, Resource{Provisioned: active})
	})
	return active, err
}

// RotateBucket gives a bucket new credentials and returns it with them, or NotFound.
func (m *Manager) RotateBucket(ctx context.Context, caller *auth.Caller, region *Region, name string) (b *object.Bucket, err error) {
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		b, err = m.Buckets.RotateKeys(tx, object.BucketRef{OrgID: caller.OrgID, Region: region.Region, Name: name})
		return err
	})
	return b, err
}
