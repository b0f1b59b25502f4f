package resource

import (
	"context"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
)

// Transfer moves an embedded resource to its region's engine, and returns the new resource, which has the
// same name but another id and password. fill copies the contents, and nobody may use the embedded
// resource in the meantime. If fill fails or the process dies, the embedded resource stays as it was, and
// Recover removes the remains from the engine. The embedded files are kept in any case.
func (m *Manager) Transfer(
	ctx context.Context, p *Provisioned, fill func(ctx context.Context, to *Provisioned) error,
) (moved *Provisioned, err error) {
	region := find(m.Regions, p.Region)
	if region == nil || !region.has(p.Type) {
		return nil, errs.New(errs.Invalid, "region %s has no engine for it", p.Region)
	}
	if p.State != Active {
		return nil, errLost
	}
	planned := m.plan(&auth.Caller{OrgID: p.OrgID}, region, []NewResource{{Type: p.Type, Description: p.Description}})
	to := planned[0].Provisioned
	to.CreatedBy = p.CreatedBy
	to.CreatedAt = p.CreatedAt
	if err := m.provision(ctx, []*Provisioned{to}); err != nil {
		return nil, err
	}
	m.step("fill")
	if err = fill(ctx, to); err == nil {
		m.step("replace")
		moved, err = m.replace(ctx, p, to)
	}
	if err != nil {
		m.undo(ctx, []*Provisioned{to})
		return nil, err
	}
	return moved, nil
}

// Renew extends our claim on a resource that we are creating. It returns Conflict if another process has
// taken it over.
func (m *Manager) Renew(ctx context.Context, p *Provisioned) error {
	return m.Store.postpone(ctx, p, m.claim().until)
}

// replace removes an embedded resource's row, and makes its replacement visible under the same name.
func (m *Manager) replace(ctx context.Context, old, created *Provisioned) (moved *Provisioned, err error) {
	ctx = auth.With(ctx, &auth.Caller{OrgID: old.OrgID})
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`DELETE FROM resources`+current(tx), db.Args{"id": old.ID, "version": old.version})
		if err != nil {
			return fmt.Errorf("delete resource: %w", err)
		}
		if n == 0 {
			return errLost
		}
		moved, err = m.Store.scan(tx.Row(`UPDATE resources SET name = @name, state = 'active', worker = NULL, until = NULL,
			updated_at = @now, version = version + 1`+current(tx)+` RETURNING `+columns,
			db.Args{"id": created.ID, "version": created.version, "name": old.Name, "now": m.Store.now()}))
		if moved, err = m.Store.changed(tx, moved, err); err != nil {
			return err
		}
		return m.Store.Audit.Record(tx, old.Type.action("move"), moved.ID)
	})
	return moved, err
}
