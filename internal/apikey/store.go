package apikey

import (
	"context"
	"errors"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store is all SQL of this package. The check of a key reads the member's role in the same statement, so that a key which is new to the
// process costs one read.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Project sees to it that a named project is there, or refuses it.
	Project func(tx *db.Tx, caller *auth.Caller, location, projectID string) error

	// rows serves Get; it is emptied by auth.Callers. Another replica's note of a use bumps nothing, so a row may serve for half of the minute that lastUsedAt has.
	rows db.Cache[rowID, Key]
}

type rowID struct{ orgID, keyID string }

// rowAge and FlushEvery together stay below the minute within which lastUsedAt is true.
const (
	rowAge     = 20 * time.Second
	FlushEvery = 20 * time.Second
)

// Forget empties the cache of rows; it is called when a key, a project or a membership changed.
func (s *Store) Forget() { s.rows.Forget() }

// MakeRoot makes a key for an owner that is not asked for by a request: at first start, or when the first one is lost.
func (s *Store) MakeRoot(tx *db.Tx, orgID, userID, value string) error {
	now := s.Now()
	k := Key{ID: id.At(id.Key, now), OrgID: orgID, Name: "root key", Type: Root, CreatedAt: stamp.Of(now), userID: userID, version: 1}
	return insert(tx, k, value)
}

func insert(tx *db.Tx, k Key, value string) error {
	var projectID *string
	if k.Project != nil {
		projectID = &k.Project.ID
	}
	_, err := tx.Exec(`INSERT INTO api_keys (org_id, id, hash, name, type, project_id, user_id, expires_at, created_at, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		k.OrgID, k.ID, seal.Hash(value), k.Name, k.Type, projectID, k.userID, k.ExpiresAt, k.CreatedAt, k.version)
	if db.IsUnique(err) {
		return errs.New(errs.Conflict, "this key exists already")
	}
	return err
}

// Create makes a key for the caller and gives its value. A project other than the caller's own is Forbidden.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, k Key) (value string, err error) {
	value = NewValue()
	k.OrgID, k.userID = caller.OrgID, caller.UserID
	return value, s.DB.Write(ctx, func(tx *db.Tx) error {
		if k.Project != nil {
			if err := s.Project(tx, caller, "body.projectId", k.Project.ID); err != nil {
				return err
			}
		}
		return errors.Join(insert(tx, k, value), s.Audit(tx, "apikey.create", k.ID))
	})
}

const keyColumns = `k.id, k.name, k.org_id, k.type, k.expires_at, k.last_used_at, k.created_at, k.user_id, k.version, k.project_id,
	COALESCE((SELECT p.name FROM projects p WHERE p.org_id = k.org_id AND p.id = k.project_id), k.project_id)`

func scanKey(row db.Row) (k Key, err error) {
	var projectID, projectName *string
	err = row.Scan(&k.ID, &k.Name, &k.OrgID, &k.Type, &k.ExpiresAt, &k.LastUsedAt, &k.CreatedAt, &k.userID, &k.version, &projectID, &projectName)
	if projectID != nil {
		k.Project = &Project{ID: *projectID, Name: *projectName}
	}
	return k, err
}

// Filter narrows a list of keys.
type Filter struct {
	// UserID is whose keys to list; empty for everybody's.
	UserID    string
	ProjectID string
}

// List gives a page of an organization's keys, newest first.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Key], error) {
	q := s.DB.Read(ctx)
	before := "kez" // sorts after every id of this table
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before); err != nil {
			return page.Page[Key]{}, err
		}
		p.Offset = 0
	}
	const where = ` FROM api_keys k WHERE k.org_id = $1 AND ($2 = '' OR k.user_id = $2) AND ($3 = '' OR k.project_id = $3)`
	var total int64
	if err := q.Row(`SELECT count(*)`+where, orgID, f.UserID, f.ProjectID).Scan(&total); err != nil {
		return page.Page[Key]{}, err
	}
	keys, err := db.Collect(q, scanKey, `SELECT `+keyColumns+where+` AND k.id < $4 ORDER BY k.id DESC LIMIT $5 OFFSET $6`,
		orgID, f.UserID, f.ProjectID, before, p.Limit+1, p.Offset)
	return page.New(keys, total, p, func(k Key) page.Cursor { return page.NewCursor(k.ID) }), err
}

// Get gives a key that the caller may see: its own, or any of the organization for those who manage it. Else NotFound.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, keyID string) (Key, error) {
	k, err := s.rows.GetWithin(rowAge, rowID{caller.OrgID, keyID}, func() (Key, error) { return row(s.DB.Read(ctx), caller.OrgID, keyID) })
	return visible(k, err, caller)
}

func row(q db.Querier, orgID, keyID string) (Key, error) {
	k, err := scanKey(q.Row(`SELECT `+keyColumns+` FROM api_keys k WHERE k.org_id = $1 AND k.id = $2`, orgID, keyID))
	if errors.Is(err, db.ErrNoRows) {
		return k, errs.Missing("API key", keyID)
	}
	return k, err
}

func visible(k Key, err error, caller *auth.Caller) (Key, error) {
	if err == nil && k.userID != caller.UserID && !caller.Manages() {
		return Key{}, errs.Missing("API key", k.ID)
	}
	return k, err
}

// Delete removes a key that the caller may see; it is refused from then on.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, keyID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		k, err := row(tx, caller.OrgID, keyID)
		if k, err = visible(k, err, caller); err != nil {
			return err
		}
		if err := match.Check(k); err != nil {
			return err
		}
		_, err = tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND id = $2`, caller.OrgID, keyID)
		return errors.Join(err, tx.Bump(auth.Callers), s.Audit(tx, "apikey.delete", keyID))
	})
}

// DeleteOfProject removes the keys of a project that goes away.
func (s *Store) DeleteOfProject(tx *db.Tx, orgID, projectID string) error {
	_, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND project_id = $2`, orgID, projectID)
	return err
}

// DeleteOfUser removes the keys of a user who leaves an organization.
func (s *Store) DeleteOfUser(tx *db.Tx, orgID, userID string) error {
	_, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND user_id = $2`, orgID, userID)
	return err
}

// lookup gives whom a hash belongs to and when the key expires. An unknown one, or one whose user is no member any more, is ErrNoRows.
func (s *Store) lookup(ctx context.Context, hash []byte) (*auth.Caller, *stamp.Time, error) {
	var c auth.Caller
	var projectID *string
	var expires *stamp.Time
	err := s.DB.Read(ctx).Row(`SELECT k.org_id, k.id, k.user_id, k.project_id, k.expires_at, m.role
		FROM api_keys k JOIN members m ON m.org_id = k.org_id AND m.user_id = k.user_id WHERE k.hash = $1`, hash).
		Scan(&c.OrgID, &c.KeyID, &c.UserID, &projectID, &expires, &c.Role)
	if projectID != nil {
		c.ProjectID = *projectID
	}
	return &c, expires, err
}

// touch writes when keys were last used; a later time that another replica wrote stays.
func (s *Store) touch(ctx context.Context, uses []use) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, u := range uses {
			if _, err := tx.Exec(`UPDATE api_keys SET last_used_at = $3
				WHERE org_id = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at < $3)`, u.orgID, u.keyID, u.at); err != nil {
				return err
			}
		}
		return nil
	})
}
