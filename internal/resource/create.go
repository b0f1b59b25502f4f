package resource

import (
	"context"
	"errors"
	"slices"
	"strings"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/object"
)

// Create creates all resources in the request or none, and returns them in the same order. If keep is not
// nil, Create calls it in the transaction that makes the resources visible. It returns Conflict if a name
// is taken, and Unavailable if an engine cannot be reached.
func (m *Manager) Create(ctx context.Context, caller *auth.Caller, region *Region, wanted []NewResource,
	keep func(*db.Tx, []Resource) error,
) ([]Resource, error) {
	c := creation{caller: caller, region: region, wanted: wanted, planned: m.plan(caller, region, wanted)}
	if err := m.provision(ctx, provisioned(c.planned)); err != nil {
		return nil, err
	}
	m.step("activate")
	created, err := m.finish(ctx, c, keep)
	if err != nil {
		m.undo(ctx, provisioned(c.planned))
		return nil, err
	}
	return created, nil
}

// creation is a request to create resources in a region. Each one in planned belongs to the one in wanted
// with the same index.
type creation struct {
	caller  *auth.Caller
	region  *Region
	wanted  []NewResource
	planned []Resource
}

// plan returns a row for each requested database and key-value store, and an empty Resource for each bucket.
func (m *Manager) plan(caller *auth.Caller, region *Region, wanted []NewResource) []Resource {
	now := m.Store.now()
	planned := make([]Resource, len(wanted))
	for i, w := range wanted {
		e := region.engine(w.Type)
		if e == nil {
			continue
		}
		p := &Provisioned{
			ID: id.New(w.Type.prefix()), Type: w.Type, OrgID: caller.OrgID, Region: region.Region, Description: w.Description,
			Engine: e.Name(), State: Creating, Password: newPassword(), CreatedBy: caller.Actor(), CreatedAt: now, UpdatedAt: now,
			version: 1,
		}
		p.Name = p.Type.newName()
		if w.Name != nil {
			p.Name = *w.Name
		}
		if e.Local() {
			p.Node = m.Node
		}
		planned[i].Provisioned = p
	}
	return planned
}

func provisioned(all []Resource) []*Provisioned {
	var found []*Provisioned
	for _, r := range all {
		if r.Provisioned != nil {
			found = append(found, r.Provisioned)
		}
	}
	return found
}

// provision reserves the names and lets the engines create the resources. If that fails, it leaves
// nothing behind.
func (m *Manager) provision(ctx context.Context, planned []*Provisioned) error {
	if len(planned) == 0 {
		return nil
	}
	m.step("reserve")
	if err := m.reserve(ctx, planned); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, p := range planned {
		e, err := m.engineOf(p)
		if err == nil {
			err = m.call(limited, p, "create", e.Create)
		}
		if err != nil {
			m.undo(ctx, planned)
			return err
		}
	}
	return nil
}

// reserve inserts the rows. They are sorted so that concurrent requests do not deadlock.
func (m *Manager) reserve(ctx context.Context, planned []*Provisioned) error {
	sorted := slices.SortedFunc(slices.Values(planned), func(a, b *Provisioned) int {
		return strings.Compare(string(a.Type)+a.Name, string(b.Type)+b.Name)
	})
	err := m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		for _, p := range sorted {
			if err := m.Store.insert(tx, p, m.claim()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && errs.KindOf(err) != errs.Conflict {
		m.undo(ctx, planned) // the rows may have been committed
	}
	return err
}

// finish creates the requested buckets and makes all resources visible.
func (m *Manager) finish(
	ctx context.Context, c creation, keep func(*db.Tx, []Resource) error,
) (created []Resource, err error) {
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		created = make([]Resource, len(c.planned))
		for i := range c.planned {
			if created[i], err = m.finishOne(tx, c, i); err != nil {
				return err
			}
		}
		if keep == nil {
			return nil
		}
		return keep(tx, created)
	})
	return created, err
}

// finishOne creates a bucket, or makes a database or key-value store visible.
func (m *Manager) finishOne(tx *db.Tx, c creation, i int) (Resource, error) {
	p := c.planned[i].Provisioned
	if p == nil {
		wanted := c.wanted[i]
		name := ""
		if wanted.Name != nil {
			name = *wanted.Name
		}
		b, err := m.Buckets.Create(tx, c.caller, object.NewBucket{Name: name, Region: c.region.Region, Description: wanted.Description})
		return Resource{Bucket: b}, err
	}
	active, err := m.Store.activate(tx, p)
	if err != nil {
		return Resource{}, err
	}
	return Resource{Provisioned: active}, m.Store.Audit.Record(tx, p.Type.action("create"), p.ID)
}

// undo deletes resources that are only partly created, even if the client has gone.
func (m *Manager) undo(ctx context.Context, planned []*Provisioned) {
	if len(planned) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	m.step("undo")
	abandoned, lost, err := m.abandon(ctx, planned)
	if err != nil {
		m.Log.Warn("cannot undo the creation of resources yet", "error", err)
		return // Recover continues
	}
	_ = m.deleteAll(ctx, abandoned) // logged; Recover continues
	m.settleAll(ctx, lost)
}

// abandon marks resources that are being created as deleting. It returns as lost the ones that another
// replica has taken over or that have been created after all.
func (m *Manager) abandon(ctx context.Context, planned []*Provisioned) (abandoned, lost []*Provisioned, err error) {
	err = m.Store.DB.Write(ctx, func(tx *db.Tx) error {
		abandoned, lost = nil, nil
		for _, p := range byID(planned) {
			deleting, err := m.Store.move(tx, p, Deleting, m.claim())
			switch {
			case errors.Is(err, errLost):
				lost = append(lost, p)
			case err != nil:
				return err
			default:
				abandoned = append(abandoned, deleting)
			}
		}
		return nil
	})
	return abandoned, lost, err
}
