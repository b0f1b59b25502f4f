package resource

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Every change increments a resource's version, and names the version that it changes. So if two
// processes change a resource at once, one fails, and a process notices when another replica's recovery
// has taken its resource.

// current matches version @version of resource @id. If another transaction has locked the row, that one
// is changing the resource, and we do not wait.
func current(tx *db.Tx) string {
	return ` WHERE id IN (SELECT id FROM resources WHERE id = @id AND version = @version` + db.SkipLocked(tx.Dialect()) + `)`
}

// errLost says that another request has changed the resource in the meantime.
var errLost = errs.New(errs.Conflict, "a resource of the request is being changed by another request; try again")

// claim names the only worker who may change a resource until a time.
type claim struct {
	worker string
	until  stamp.Time
}

// insert inserts a resource in state Creating. It returns Conflict if the name is taken.
func (s *Store) insert(tx *db.Tx, p *Provisioned, c claim) error {
	n, err := tx.Exec(`INSERT INTO resources (id, type, org_id, region, name, description, engine, node, state, worker, until,
		password, password_hash, created_by, created_at, updated_at, version)
		VALUES (@id, @type, @org_id, @region, @name, @description, @engine, @node, @state, @worker, @until,
		@password, @password_hash, @created_by, @created_at, @updated_at, @version)
		ON CONFLICT (org_id, region, type, name) DO NOTHING`,
		db.Args{
			"id": p.ID, "type": p.Type, "org_id": p.OrgID, "region": p.Region, "name": p.Name,
			"description": p.Description, "engine": p.Engine, "node": p.Node, "state": p.State,
			"worker": c.worker, "until": c.until, "password": s.Ring.Seal(passwordPurpose, []byte(p.Password)),
			"password_hash": seal.Hash(p.Password), "created_by": p.CreatedBy, "created_at": p.CreatedAt,
			"updated_at": p.UpdatedAt, "version": p.version,
		})
	if err != nil {
		return fmt.Errorf("insert resource: %w", err)
	}
	if n == 0 {
		return s.taken(tx, p)
	}
	return nil
}

// taken returns a Conflict that explains why p's name is taken.
func (s *Store) taken(tx *db.Tx, p *Provisioned) error {
	holder, err := s.named(tx, fullName{orgID: p.OrgID, region: p.Region, of: p.Type, name: p.Name}, "")
	if errs.KindOf(err) == errs.NotFound {
		return errLost // just deleted
	}
	if err != nil {
		return err
	}
	why := "exists already"
	if holder.State == Creating || holder.State == Deleting {
		why = "is being " + map[State]string{Creating: "created", Deleting: "deleted"}[holder.State]
	}
	return errs.New(errs.Conflict, "a %s named %s %s", p.Type.noun(), p.Name, why)
}

// move changes p's state and returns the result, or errLost if p is not the current version.
func (s *Store) move(tx *db.Tx, p *Provisioned, to State, c claim) (*Provisioned, error) {
	moved, err := s.scan(tx.Row(`UPDATE resources SET state = @state, worker = @worker, until = @until,
		updated_at = @now, version = version + 1`+current(tx)+` RETURNING `+columns,
		db.Args{
			"id": p.ID, "version": p.version, "state": to, "worker": c.worker, "until": c.until, "now": s.now(),
		}))
	return s.changed(tx, moved, err)
}

// activate ends p's creation or rotation. It returns errLost if p is not the current version.
func (s *Store) activate(tx *db.Tx, p *Provisioned) (*Provisioned, error) {
	active, err := s.scan(tx.Row(`UPDATE resources SET state = 'active', worker = NULL, until = NULL,
		updated_at = @now, version = version + 1`+current(tx)+` RETURNING `+columns,
		db.Args{"id": p.ID, "version": p.version, "now": s.now()}))
	return s.changed(tx, active, err)
}

// rotate begins rotating p's password. It returns errLost if p is not the current version.
func (s *Store) rotate(tx *db.Tx, p *Provisioned, c claim) (*Provisioned, error) {
	password := newPassword()
	rotating, err := s.scan(tx.Row(`UPDATE resources SET state = 'rotating', worker = @worker, until = @until,
		updated_at = @now, password = @password, password_hash = @password_hash, version = version + 1`+current(tx)+` RETURNING `+columns,
		db.Args{
			"id": p.ID, "version": p.version, "worker": c.worker, "until": c.until, "now": s.now(),
			"password": s.Ring.Seal(passwordPurpose, []byte(password)), "password_hash": seal.Hash(password),
		}))
	return s.changed(tx, rotating, err)
}

// changed returns an update's result, and invalidates caches.
func (s *Store) changed(tx *db.Tx, p *Provisioned, err error) (*Provisioned, error) {
	if errors.Is(err, db.ErrNoRows) {
		return nil, errLost
	}
	if err != nil {
		return nil, fmt.Errorf("update resource: %w", err)
	}
	return p, tx.Invalidate(Cache)
}

// postpone sets the time when Recover may take p. It returns errLost if p has changed or is being changed.
func (s *Store) postpone(ctx context.Context, p *Provisioned, until stamp.Time) error {
	var n int64
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		return tx.SendCount(&n, `UPDATE resources SET until = @until`+current(tx)+` AND state <> 'active'`,
			db.Args{"id": p.ID, "version": p.version, "until": until})
	})
	if err != nil {
		return fmt.Errorf("postpone resource: %w", err)
	}
	if n == 0 {
		return errLost
	}
	return nil
}

// remove removes the rows whose engines have deleted the resources. It skips rows that another
// transaction has locked; Recover removes those.
func (s *Store) remove(ctx context.Context, deleted []*Provisioned) error {
	if len(deleted) == 0 {
		return nil
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, p := range deleted {
			if err := tx.Send(`DELETE FROM resources WHERE id IN (SELECT id FROM resources WHERE id = $1 AND state = 'deleting'`+
				db.SkipLocked(tx.Dialect())+`)`, p.ID); err != nil {
				return fmt.Errorf("delete resource: %w", err)
			}
		}
		return tx.Invalidate(Cache)
	})
}

// due returns the resources that nobody is changing any more, longest waiting first. It leaves out those
// whose files are on one of nodes, which must delete them itself.
func (s *Store) due(ctx context.Context, now stamp.Time, nodes []string, limit int) ([]*Provisioned, error) {
	where := list.Where(`state <> 'active' AND until <= ?`, now)
	for _, node := range nodes {
		where.Add(`(state = 'rotating' OR node <> ?)`, node)
	}
	text, args := list.Text(`WHERE ? ORDER BY until LIMIT ?`, where, limit).Statement()
	return s.all(ctx, text, args...)
}

// expire makes Recover finish a worker's changes at once.
func (s *Store) expire(ctx context.Context, worker string) error {
	if _, err := s.DB.Exec(ctx, `UPDATE resources SET until = $2 WHERE id IN (SELECT id FROM resources
		WHERE worker = $1 AND state <> 'active' AND until > $2`+db.SkipLocked(s.DB.Dialect())+`)`, worker, s.now()); err != nil {
		return fmt.Errorf("expire changes of resources: %w", err)
	}
	return nil
}

// newPassword returns a unique password: a key-value store can be found by its password alone.
func newPassword() string { return id.Secret(43) }
