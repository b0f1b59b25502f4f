package resource

import (
	"context"
	"errors"

	"steward/internal/db"
)

// RemoveOrg deletes an organization's databases and key-value stores with everything they hold. It reports
// whether none is left: Recover finishes those whose engine failed and those that others were changing.
func (m *Manager) RemoveOrg(ctx context.Context, orgID string) (done bool, err error) {
	all, err := m.ofOrg(ctx, orgID)
	if err != nil {
		return false, err
	}
	for _, p := range all {
		if p.State == Creating || p.State == Deleting {
			continue // Recover deletes it
		}
		if err := m.removeOne(ctx, p); err != nil {
			return false, err
		}
	}
	all, err = m.ofOrg(ctx, orgID)
	return len(all) == 0, err
}

// ofOrg returns an organization's databases and key-value stores in any state.
func (m *Manager) ofOrg(ctx context.Context, orgID string) ([]*Provisioned, error) {
	return m.Store.all(ctx, `WHERE org_id = $1 ORDER BY id`, orgID)
}

// removeOne deletes a resource, unless another process is changing it.
func (m *Manager) removeOne(ctx context.Context, p *Provisioned) error {
	var deleting []*Provisioned
	err := m.Store.DB.Write(ctx, func(tx *db.Tx) (err error) {
		deleting, err = m.hide(tx, []*Provisioned{p})
		return err
	})
	if errors.Is(err, errLost) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.deleteAll(ctx, deleting)
}
