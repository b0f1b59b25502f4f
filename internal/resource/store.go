package resource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Cache is the name under which changes to databases and key-value stores invalidate caches (db.Watch).
const Cache = "resources"

const passwordPurpose = "resource.password"

// Store holds this package's SQL: the rows for databases and key-value stores.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Audit records the caller's actions.
	Audit *audit.Store
}

const columns = `id, type, org_id, region, name, description, engine, node, state, password, created_by, created_at,
	updated_at, version`

// visible limits a query to resources that callers and clients may use.
const visible = ` AND state IN ('active', 'rotating')`

func (s *Store) scan(r db.Row) (*Provisioned, error) {
	p := &Provisioned{}
	var password []byte
	if err := r.Scan(&p.ID, &p.Type, &p.OrgID, &p.Region, &p.Name, &p.Description, &p.Engine, &p.Node, &p.State, &password,
		&p.CreatedBy, &p.CreatedAt, &p.UpdatedAt, &p.version); err != nil {
		return nil, err
	}
	plain, err := s.Ring.Open(passwordPurpose, password)
	if err != nil {
		return nil, fmt.Errorf("open password of %s: %w", p.ID, err)
	}
	p.Password = string(plain)
	return p, nil
}

// ByID returns a resource by id. It returns NotFound if there is none, or if it is being created or deleted.
func (s *Store) ByID(ctx context.Context, id string) (*Provisioned, error) {
	p, err := s.one(s.DB.Read(ctx), `WHERE id = $1`+visible, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.Missing("resource", id)
	}
	return p, err
}

// ByPassword returns the key-value store with a password, given the password's SHA-256, or NotFound.
func (s *Store) ByPassword(ctx context.Context, hash []byte) (*Provisioned, error) {
	p, err := s.one(s.DB.Read(ctx), `WHERE password_hash = $1 AND type = 'kv'`+visible, hash)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.New(errs.NotFound, "no key-value store has this password")
	}
	return p, err
}

// Get returns an organization's resource by name, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, region string, t Type, name string) (*Provisioned, error) {
	return s.named(s.DB.Read(ctx), fullName{orgID: orgID, region: region, of: t, name: name}, visible)
}

// fullName identifies a resource among all organizations'.
type fullName struct {
	orgID, region string
	of            Type
	name          string
}

// named returns a resource by name, if it meets the condition, or NotFound. The condition's arguments begin at $5.
func (s *Store) named(q db.Querier, n fullName, condition string, args ...any) (*Provisioned, error) {
	p, err := s.one(q, `WHERE org_id = $1 AND region = $2 AND type = $3 AND name = $4`+condition,
		append([]any{n.orgID, n.region, n.of, n.name}, args...)...)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.Missing(n.of.noun(), n.name)
	}
	return p, err
}

// one returns the row that meets a condition, or db.ErrNoRows.
func (s *Store) one(q db.Querier, where string, args ...any) (*Provisioned, error) {
	p, err := s.scan(q.Row(`SELECT `+columns+` FROM resources `+where, args...))
	if err != nil {
		return nil, fmt.Errorf("read resource: %w", err)
	}
	return p, nil
}

// List returns an organization's databases and key-value stores by name. An empty region selects all regions.
func (s *Store) List(ctx context.Context, orgID, region string) ([]*Provisioned, error) {
	where := list.Where(`org_id = ?`+visible, orgID)
	where.Equal(`region`, region)
	text, args := list.Text(`WHERE ? ORDER BY name, region, type`, where).Statement()
	return s.all(ctx, text, args...)
}

func (s *Store) all(ctx context.Context, where string, args ...any) ([]*Provisioned, error) {
	all, err := db.Collect(s.DB.Read(ctx), s.scan, `SELECT `+columns+` FROM resources `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", err)
	}
	return all, nil
}

// IDs returns the ids of all resources of a type, in any state, whose files are in a node's data directory.
func (s *Store) IDs(ctx context.Context, node string, t Type) (map[string]bool, error) {
	ids, err := db.Collect(s.DB.Read(ctx), db.Value[string],
		`SELECT id FROM resources WHERE node = $1 AND type = $2`, node, t)
	if err != nil {
		return nil, fmt.Errorf("list ids of resources: %w", err)
	}
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set, nil
}

// origin counts the resources that an engine has created in a region.
type origin struct {
	Type           Type
	Region, Engine string
	Count          int64
}

// origins counts all resources by origin.
func (s *Store) origins(ctx context.Context) ([]origin, error) {
	all, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (o origin, err error) {
		err = row.Scan(&o.Type, &o.Region, &o.Engine, &o.Count)
		return o, err
	}, `SELECT type, region, engine, count(*) FROM resources GROUP BY type, region, engine ORDER BY type, region, engine`)
	if err != nil {
		return nil, fmt.Errorf("list engines of resources: %w", err)
	}
	return all, nil
}

// served returns a region's resources that live on another server.
func (s *Store) served(ctx context.Context, region, engine string, t Type) ([]*Provisioned, error) {
	return s.all(ctx, `WHERE node = '' AND type = $1 AND region = $2 AND engine = $3`+visible, t, region, engine)
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// names finds usable databases and key-value stores.
var names = db.NameIndex{Table: "resources", ID: "id", Where: "state IN ('active', 'rotating')", Index: "resources_lower_name"}

// Search returns an organization's databases or key-value stores that match an id or words in the name.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, t Type, text string, limit int) ([]db.Named, error) {
	return names.With("type", string(t)).Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}

// NodeCount counts an organization's resources on a node.
type NodeCount struct{ Databases, Stores int64 }

// OfNodes counts an organization's embedded resources by the node that has their files.
func (s *Store) OfNodes(ctx context.Context, orgID string) (map[string]NodeCount, error) {
	counts := map[string]NodeCount{}
	_, err := db.Collect(s.DB.Read(ctx), func(r db.Row) (node string, err error) {
		var count NodeCount
		err = r.Scan(&node, &count.Databases, &count.Stores)
		counts[node] = count
		return node, err
	}, `SELECT node, sum(CASE WHEN type = 'db' THEN 1 ELSE 0 END), sum(CASE WHEN type = 'kv' THEN 1 ELSE 0 END)
		FROM resources WHERE org_id = $1 AND node <> ''`+visible+` GROUP BY node`, orgID)
	if err != nil {
		return nil, fmt.Errorf("count resources of nodes: %w", err)
	}
	return counts, nil
}

// CountElsewhere counts the databases and stores whose files are in other nodes' data directories.
func CountElsewhere(q db.Querier, node string) (n int, err error) {
	if err := q.Row(`SELECT count(*) FROM resources WHERE node <> '' AND node <> $1`, node).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the resources of other nodes: %w", err)
	}
	return n, nil
}

// HasEmbedded reports whether any node has files for a type.
func HasEmbedded(q db.Querier, t Type) (has bool, err error) {
	if err := q.Row(`SELECT EXISTS (SELECT 1 FROM resources WHERE node > '' AND type = $1)`, t).Scan(&has); err != nil {
		return false, fmt.Errorf("look for embedded resources: %w", err)
	}
	return has, nil
}
