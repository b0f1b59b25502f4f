package apikey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store holds this package's SQL.
type Store struct {
	DB       *db.DB
	Now      func() time.Time
	Audit    *audit.Store
	Accounts *account.Store
	// Consented returns Unauthorized unless the caller's user lets its OAuth client have the scopes. If
	// it returns nil, the consent cannot be revoked until the transaction ends.
	Consented func(tx *db.Tx, caller *auth.Caller, scopes []string) error

	// keys caches Get's results. Another replica's use of a key does not invalidate it, so entries expire
	// after cacheAge.
	keys db.Cache[cacheKey, Key]
}

type cacheKey struct{ orgID, keyID string }

// Together these must be less than the minute to which lastUsedAt is accurate.
const (
	cacheAge = 20 * time.Second
	// FlushEvery is the interval between calls to Checker.Flush.
	FlushEvery = 20 * time.Second
)

// Forget empties the cache. Call it when a key, a project or a membership has changed.
func (s *Store) Forget() { s.keys.Forget() }

// MakeRoot creates a root key with a given value.
func (s *Store) MakeRoot(tx *db.Tx, orgID, userID, value string) error {
	now := s.Now()
	k := Key{
		ID: id.At(id.Key, now), OrgID: orgID, Name: "root key", Type: Root, CreatedAt: stamp.Of(now),
		userID: userID, version: 1,
	}
	return insert(tx, k, value)
}

func insert(tx *db.Tx, k Key, value string) error {
	var projectID *string
	if k.Project != nil {
		projectID = &k.Project.ID
	}
	var scopes *string
	if k.Scopes != nil {
		scopes = new(db.ToJSON(k.Scopes))
	}
	_, err := tx.Exec(`INSERT INTO api_keys
		(org_id, id, hash, name, type, project_id, user_id, client_id, scopes, expires_at, created_at, version)
		VALUES (@org_id, @id, @hash, @name, @type, @project_id, @user_id, @client_id, @scopes, @expires_at, @created_at, @version)`,
		db.Args{
			"org_id": k.OrgID, "id": k.ID, "hash": seal.Hash(value), "name": k.Name, "type": k.Type,
			"project_id": projectID, "user_id": k.userID, "client_id": db.Null(k.clientID), "scopes": scopes,
			"expires_at": k.ExpiresAt, "created_at": k.CreatedAt, "version": k.version,
		})
	if db.IsUnique(err) {
		return errs.New(errs.Conflict, "this API key already exists")
	}
	if err != nil {
		return fmt.Errorf("insert API key: %w", err)
	}
	return nil
}

// Create creates a key for the caller and returns its value. It returns Forbidden if the key would have
// more rights than the caller, and Unauthorized if the consent that the caller relies on is gone.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, k Key) (value string, err error) {
	value = NewValue()
	if err := k.restrict(caller); err != nil {
		return "", err
	}
	return value, s.DB.Write(ctx, func(tx *db.Tx) error {
		if k.clientID != "" {
			if err := s.Consented(tx, caller, k.Scopes); err != nil {
				return err
			}
		}
		if k.Project != nil {
			if err := s.Accounts.EnsureProject(tx, caller, "body.projectId", k.Project.ID); err != nil {
				return err
			}
		}
		if err := insert(tx, k, value); err != nil {
			return err
		}
		return s.Audit.Record(tx, "apikey.create", k.ID)
	})
}

const keyColumns = `k.id, k.name, k.org_id, k.type, k.expires_at, k.last_used_at, k.created_at, k.user_id,
	k.version, k.scopes, k.project_id,
	COALESCE((SELECT p.name FROM project_names p WHERE p.org_id = k.org_id AND p.id = k.project_id), k.project_id)`

func scanKey(row db.Row) (k Key, err error) {
	var projectID, projectName *string
	err = row.Scan(&k.ID, &k.Name, &k.OrgID, &k.Type, &k.ExpiresAt, &k.LastUsedAt, &k.CreatedAt, &k.userID, &k.version,
		db.FromJSON(&k.Scopes), &projectID, &projectName)
	if err != nil {
		return Key{}, err
	}
	if projectID != nil {
		k.Project = &Project{ID: *projectID, Name: *projectName}
	}
	return k, nil
}

// Filter selects keys in a list.
type Filter struct {
	// UserID selects one user's keys; "" selects all.
	UserID    string
	ProjectID string
}

// list returns the organization's keys that match, newest first.
func (f Filter) list(orgID string) list.Query[Key] {
	where := list.Where(`k.org_id = ?`, orgID)
	where.Equal(`k.user_id`, f.UserID)
	where.Equal(`k.project_id`, f.ProjectID)
	return list.Query[Key]{
		Name: "API keys", From: list.Text(`api_keys k`), Where: where, Columns: keyColumns, Scan: scanKey,
		Order: list.ByID(`k.id`, id.Key, func(k Key) string { return k.ID }),
	}
}

// List returns a page of an organization's keys, newest first.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Key], error) {
	q := s.DB.Read(ctx)
	total, err := f.list(orgID).Count(q)
	if err != nil {
		return page.Page[Key]{}, err
	}
	return f.list(orgID).Page(q, p, total)
}

// Get returns a key that the caller can see: their own, or any in the organization if they manage it. For
// other keys it returns NotFound.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, keyID string) (Key, error) {
	k, err := s.keys.GetWithin(cacheAge, cacheKey{caller.OrgID, keyID}, func() (Key, error) {
		return get(s.DB.Read(ctx), caller.OrgID, keyID)
	})
	if err != nil {
		return Key{}, err
	}
	return k, checkVisible(k, caller)
}

func get(q db.Querier, orgID, keyID string) (Key, error) {
	k, err := scanKey(q.Row(`SELECT `+keyColumns+` FROM api_keys k WHERE k.org_id = $1 AND k.id = $2`, orgID, keyID))
	if errors.Is(err, db.ErrNoRows) {
		return Key{}, errs.Missing("API key", keyID)
	}
	if err != nil {
		return Key{}, fmt.Errorf("get API key: %w", err)
	}
	return k, nil
}

func checkVisible(k Key, caller *auth.Caller) error {
	if k.userID != caller.UserID && !caller.Manages() {
		return errs.Missing("API key", k.ID)
	}
	return nil
}

// Delete deletes a key that the caller can see. The key stops working at once.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, keyID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		k, err := get(tx, caller.OrgID, keyID)
		if err != nil {
			return err
		}
		if err := checkVisible(k, caller); err != nil {
			return err
		}
		if err := match.Check(k); err != nil {
			return err
		}
		n, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND id = $2`, caller.OrgID, keyID)
		if err != nil {
			return fmt.Errorf("delete API key: %w", err)
		}
		if n == 0 { // another request was faster
			return errs.Missing("API key", keyID)
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.Audit.Record(tx, "apikey.delete", keyID)
	})
}

// DeleteOfProject deletes a deleted project's keys.
func (s *Store) DeleteOfProject(tx *db.Tx, orgID, projectID string) error {
	if _, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND project_id = $2`, orgID, projectID); err != nil {
		return fmt.Errorf("delete API keys of project: %w", err)
	}
	return nil
}

// DeleteRoots deletes an organization's root keys and returns their ids. The keys stop working at once.
func (s *Store) DeleteRoots(tx *db.Tx, orgID string) ([]string, error) {
	ids, err := db.Collect(tx, db.Value[string], `DELETE FROM api_keys WHERE org_id = $1 AND type = $2 RETURNING id`, orgID, Root)
	if err != nil {
		return nil, fmt.Errorf("delete root keys: %w", err)
	}
	return ids, tx.Invalidate(auth.Callers)
}

// DeleteOfUser deletes the keys of a user who leaves an organization.
func (s *Store) DeleteOfUser(tx *db.Tx, orgID, userID string) error {
	if _, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
		return fmt.Errorf("delete API keys of user: %w", err)
	}
	return nil
}

// DeleteOfClient deletes the keys that an OAuth client created with a user's access tokens, or with all
// users' if userID is empty.
func (s *Store) DeleteOfClient(tx *db.Tx, orgID, clientID, userID string) error {
	deleted, err := tx.Exec(`DELETE FROM api_keys WHERE org_id = $1 AND client_id = $2 AND ($3 = '' OR user_id = $3)`,
		orgID, clientID, userID)
	if err != nil {
		return fmt.Errorf("delete API keys of client: %w", err)
	}
	if deleted == 0 {
		return nil
	}
	return tx.Invalidate(auth.Callers)
}

// lookup returns a key's caller, with the member's role in the same query. It returns ErrNoRows if the
// key is unknown or its user is no longer a member.
func (s *Store) lookup(ctx context.Context, hash []byte) (*auth.Caller, error) {
	var c auth.Caller
	var projectID, clientID *string
	err := s.DB.Read(ctx).Row(`SELECT k.org_id, k.id, k.user_id, k.project_id, k.client_id, k.scopes, k.expires_at, m.role
		FROM api_keys k JOIN active_members m ON m.org_id = k.org_id AND m.user_id = k.user_id WHERE k.hash = $1`, hash).
		Scan(&c.OrgID, &c.KeyID, &c.UserID, &projectID, &clientID, db.FromJSON(&c.Scopes), &c.KeyExpires, &c.Role)
	if err != nil {
		return nil, fmt.Errorf("look up API key: %w", err)
	}
	if projectID != nil {
		c.ProjectID = *projectID
	}
	if clientID != nil {
		c.ClientID = *clientID
	}
	return &c, nil
}

// touch writes the keys' times of last use. If another replica has written a later time, it keeps that.
func (s *Store) touch(ctx context.Context, uses []use) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, u := range uses {
			if _, err := tx.Exec(`UPDATE api_keys SET last_used_at = $3
				WHERE org_id = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at < $3)`,
				u.orgID, u.keyID, u.at); err != nil {
				return fmt.Errorf("update last use of API key: %w", err)
			}
		}
		return nil
	})
}

// keyNames finds all keys, and ownKeyNames a user's own.
var (
	keyNames    = db.NameIndex{Table: "api_keys", ID: "id", Index: "api_keys_name"}
	ownKeyNames = db.NameIndex{Table: "api_keys", ID: "id", Index: "api_keys_user_name"}
)

// Search finds keys that the caller can see, by id or words in the name: their own, or all in the
// organization if they manage it.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	if caller.Manages() {
		return keyNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
	}
	return ownKeyNames.With("user_id", caller.UserID).Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}
