package thread

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
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Store has this package's SQL.
type Store struct {
	DB   *db.DB
	Now  func() time.Time
	Ring *seal.Ring
	// Decoding bounds the memory for decoding metadata and frames.
	Decoding *web.Decoding
	// Retention is the time for which we keep the rows of deleted threads.
	Retention time.Duration
	// Audit writes an audit entry in the same transaction. Saves have none: a runtime saves a thread
	// whenever it uses it.
	Audit    *audit.Store
	Accounts *account.Store

	// large remembers lists with more than page.MaxCounted rows.
	large  page.CountCache
	writes db.Gather[*queuedEdit]
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// open returns a sealed value's plain text, or nil if there is none.
func (s *Store) open(purpose string, sealed []byte) (*string, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := s.Ring.Open(purpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", purpose, err)
	}
	text := string(plain)
	return &text, nil
}

// Put creates or replaces a thread. It returns Forbidden for a project that is not the caller's,
// NotFound for a thread in such a project, Conflict for a deleted thread, Invalid for a body that
// cannot be stored, and PreconditionFailed if match names another version.
func (s *Store) Put(
	ctx context.Context, caller *auth.Caller, threadID string, match page.IfMatch, p Put,
) (Thread, error) {
	var metadata indexedMetadata
	err := s.Decoding.Do(ctx, caller.OrgID, p.Metadata, func() error {
		var faults errs.Faults
		metadata = p.check(&faults)
		return faults.Err()
	})
	if err != nil {
		return Thread{}, err
	}
	e := edit{
		id: threadID, projectID: p.ProjectID, location: "body.project_id", match: match,
		userData: sealText(s.Ring, threadData, p.UserData), metadata: &metadata,
	}
	var t Thread
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		var err error
		t, err = s.writeOne(tx, caller, e)
		return err
	})
	if err != nil {
		return Thread{}, err
	}
	t.UserData = p.UserData
	t.Metadata = metadata.text
	return t, nil
}

// Delete marks a thread as deleted and removes its user_data; Purge removes the rest. It returns
// NotFound if there is no such thread, if the caller does not see it, or if it is deleted already.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, threadID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		lookup := &queuedEdit{caller: caller, edit: edit{id: threadID}}
		rows, err := s.lock(tx, []*queuedEdit{lookup})
		if err != nil {
			return err
		}
		r := rows[lookup.key()]
		if r.version == 0 || r.Deleted || !caller.Sees(r.ProjectID) {
			return errs.Missing("thread", threadID)
		}
		if err := match.Check(r); err != nil {
			return err
		}
		if err := tx.Send(`UPDATE threads SET deleted = @deleted, deleted_at = @now, deleted_by = @actor,
			version = version + 1, user_data_size = 0, user_data = NULL
			WHERE org_id = @org_id AND id = @id`,
			db.Args{"org_id": r.indexedThread.OrgID, "id": r.indexedThread.ID, "deleted": true, "now": s.now(), "actor": caller.Actor()}); err != nil {
			return fmt.Errorf("mark thread as deleted: %w", err)
		}
		deleted := r.indexedThread
		deleted.Deleted = true
		index := newIndexWriter()
		index.move(r.indexedThread, deleted)
		if err := index.write(tx); err != nil {
			return err
		}
		return s.Audit.Record(tx, "thread.delete", threadID)
	})
}

// Get returns a thread with all of its fields. It returns NotFound if there is no such thread, if
// the caller does not see it, or if it is deleted.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, threadID string) (Thread, error) {
	t := Thread{OrgID: caller.OrgID}
	var sealed []byte
	err := s.DB.Read(ctx).Row(`SELECT `+threadColumns+`, user_data FROM threads WHERE org_id = $1 AND id = $2`,
		caller.OrgID, threadID).Scan(append(t.columns(), &sealed)...)
	if errors.Is(err, db.ErrNoRows) {
		return Thread{}, errs.Missing("thread", threadID)
	}
	if err != nil {
		return Thread{}, fmt.Errorf("get thread: %w", err)
	}
	if t.DeletedAt != nil || !caller.Sees(t.ProjectID) {
		return Thread{}, errs.Missing("thread", threadID)
	}
	t.UserData, err = s.open(threadData, sealed)
	return t, err
}

// isNew reports whether an organization never had a thread with an id.
func (s *Store) isNew(ctx context.Context, orgID, threadID string) (bool, error) {
	var found int
	err := s.DB.Read(ctx).Row(`SELECT 1 FROM threads WHERE org_id = $1 AND id = $2`, orgID, threadID).Scan(&found)
	if errors.Is(err, db.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("find thread: %w", err)
	}
	return false, nil
}

const threadColumns = `id, project_id, created_at, updated_at, deleted_at, deleted_by, version, metadata`

func (t *Thread) columns() []any {
	return []any{
		&t.ID, &t.ProjectID, &t.CreatedAt, &t.UpdatedAt, &t.DeletedAt, &t.DeletedBy, &t.version, (*[]byte)(&t.Metadata),
	}
}

// Search returns the thread with an id if the caller sees it. Threads have no other name.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, threadID string, _ int) ([]db.Named, error) {
	var projectID string
	err := s.DB.Read(ctx).Row(`SELECT project_id FROM threads WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL`,
		caller.OrgID, threadID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) || err == nil && !caller.Sees(projectID) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find thread: %w", err)
	}
	return []db.Named{{ID: threadID, Name: threadID}}, nil
}
