package resource

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
)

// Delete deletes all resources in the request or none, with everything they hold. It returns NotFound if
// one does not exist, Conflict for a bucket that must be empty and is not, and Unavailable if an engine
// cannot be reached; the message then says whether the deletion continues.
func (m *Manager) Delete(ctx context.Context, caller *auth.Caller, region *Region, named []Named) error {
	found, err := m.named(ctx, caller, region, named)
	if err != nil {
		return err
	}
	if err := m.check(ctx, found); err != nil {
		return err
	}
	m.step("begin deletion")
	deleting, err := m.beginDeletion(ctx, caller, region, named, found)
	if errors.Is(err, errLost) {
		err = m.explainLoss(ctx, found)
	}
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := m.deleteAll(limited, deleting); err != nil {
		return errs.Unavailablef(err, "the resources are not available any more, but an engine could not delete all of them yet: "+
			"the deletion continues")
	}
	return nil
}

// named returns the databases and key-value stores that a request names, including those whose deletion has
// failed and is due again soon. One that another request is deleting right now is not found.
func (m *Manager) named(ctx context.Context, caller *auth.Caller, region *Region, named []Named) ([]*Provisioned, error) {
	var found []*Provisioned
	for _, n := range named {
		if n.Type == S3 {
			continue
		}
		full := fullName{orgID: caller.OrgID, region: region.Region, of: n.Type, name: n.Name}
		p, err := m.Store.named(m.Store.DB.Read(ctx), full, ` AND state <> 'creating' AND (state <> 'deleting' OR until <= $5)`,
			m.Store.now().Add(retryAfter))
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

// beginDeletion deletes the buckets, and hides the other resources until their engines have deleted them.
func (m *Manager) beginDeletion(ctx context.Context, caller *auth.Caller, region *Region, named []Named, found []*Provisioned,
) (deleting []*Provisioned, err error) {
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		for _, n := range named {
			if n.Type != S3 {
				continue
			}
			if err := m.Buckets.Delete(tx, object.BucketRef{OrgID: caller.OrgID, Region: region.Region, Name: n.Name}, n.IfEmpty); err != nil {
				return err
			}
		}
		deleting, err = m.hide(tx, found)
		return err
	})
	return deleting, err
}

// hide claims resources for deletion. It returns errLost if one of them has changed in the meantime.
func (m *Manager) hide(tx *db.Tx, found []*Provisioned) (deleting []*Provisioned, err error) {
	for _, p := range byID(found) {
		moved, err := m.Store.move(tx, p, Deleting, m.claim())
		if err != nil {
			return nil, err
		}
		deleting = append(deleting, moved)
		if p.State == Deleting {
			continue // recorded when the deletion began
		}
		if err := m.Store.Audit.Record(tx, p.Type.action("delete"), p.ID); err != nil {
			return nil, err
		}
	}
	return deleting, nil
}

// explainLoss explains why a request lost the resources that it had found: NotFound if another request is
// deleting one, otherwise errLost. The other request may have locked the row without committing yet, or
// it may be frozen, so we wait for at most a second.
func (m *Manager) explainLoss(ctx context.Context, found []*Provisioned) error {
	for range 20 {
		for _, p := range found {
			current, err := m.Store.one(m.Store.DB.Read(ctx), `WHERE id = $1`, p.ID)
			switch {
			case errors.Is(err, db.ErrNoRows), err == nil && current.version != p.version && current.State == Deleting:
				return errs.Missing(p.Type.noun(), p.Name)
			case err != nil:
				return err
			case current.version != p.version:
				return errLost
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errLost
}

// byID sorts resources by id. All transactions change them in this order, so that they do not deadlock.
func byID(all []*Provisioned) []*Provisioned {
	return slices.SortedFunc(slices.Values(all), func(a, b *Provisioned) int { return strings.Compare(a.ID, b.ID) })
}

// deleteAll lets the engines delete resources in state Deleting, and removes their rows. It returns the
// first error; Recover retries those that failed.
func (m *Manager) deleteAll(ctx context.Context, all []*Provisioned) (first error) {
	var deleted []*Provisioned
	for _, p := range all {
		err := m.deleteOne(ctx, p)
		if err == nil {
			deleted = append(deleted, p)
			continue
		}
		if first == nil {
			first = err
		}
		m.retry(ctx, p, err)
	}
	m.step("remove rows")
	if err := m.Store.remove(ctx, deleted); err != nil && first == nil {
		first = err
	}
	return first
}

// deleteOne lets the engine delete a resource. If another node has the files, our engine only closes the
// connections that it forwards, and then the other node deletes the files.
func (m *Manager) deleteOne(ctx context.Context, p *Provisioned) error {
	e, err := m.engineOf(p)
	if err != nil {
		return err
	}
	if err := m.call(ctx, p, "delete", e.Delete); err != nil || !m.elsewhere(p) {
		return err
	}
	return m.call(ctx, p, "delete files of", m.deleteThere)
}

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
