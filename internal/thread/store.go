package thread

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store is all SQL of this package, in the files store*.go.
type Store struct {
	DB   *db.DB
	Now  func() time.Time
	Ring *seal.Ring
	// Retention is how long the rows of deleted threads stay.
	Retention time.Duration
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Project sees to it that a named project is there, or refuses it.
	Project func(tx *db.Tx, caller *auth.Caller, location, projectID string) error
	// DefaultProject gives the project for a thread that comes without one.
	DefaultProject func(tx *db.Tx, orgID string) (string, error)

	writes db.Gather[*writing]
	turn   atomic.Uint32 // picks the slot of the next count
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

func (s *Store) open(purpose string, sealed []byte) (*string, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := s.Ring.Open(purpose, sealed)
	if err != nil {
		return nil, err
	}
	text := string(plain)
	return &text, nil
}

// Put makes a thread, or replaces all of it. Errors are Invalid, Forbidden for a project that is not the caller's, NotFound for a thread of
// such a project, Conflict for a deleted thread, PreconditionFailed.
func (s *Store) Put(ctx context.Context, caller *auth.Caller, threadID string, match page.IfMatch, p Put) (t Thread, err error) {
	var faults errs.Faults
	if p.UserData != nil {
		checkUserData(&faults, "body.user_data", *p.UserData)
	}
	text, keys := checkMetadata(&faults, "body.metadata", p.Metadata)
	if err := faults.Err(); err != nil {
		return Thread{}, err
	}
	e := edit{
		id: threadID, projectID: p.ProjectID, location: "body.project_id", match: match,
		userData: sealText(s.Ring, threadData, p.UserData), metadata: &indexed{text: text, facets: keys},
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if t, err = s.change(tx, caller, e); err != nil {
			return err
		}
		action := "thread.update"
		if t.version == 1 {
			action = "thread.create"
		}
		return s.Audit(tx, action, t.ID)
	})
	t.UserData, t.Metadata = p.UserData, text
	return t, err
}

// home decides on the project of a new thread: the one that was named, the caller's own, the one of the session that names the thread,
// the organization's default.
func (s *Store) home(tx *db.Tx, caller *auth.Caller, e edit) (projectID string, err error) {
	switch {
	case e.projectID != "":
		projectID = e.projectID
	case caller.ProjectID != "":
		projectID = caller.ProjectID
	case e.location != "":
		return "", errs.Wrong(e.location, "expected the project of the new thread")
	default:
		err = tx.Row(`SELECT project_id FROM sessions WHERE org_id = $1 AND thread_id = $2 AND project_id <> ''
			ORDER BY started_at DESC, id DESC LIMIT 1`, caller.OrgID, e.id).Scan(&projectID)
		if errors.Is(err, db.ErrNoRows) {
			projectID, err = s.DefaultProject(tx, caller.OrgID)
		}
		if err != nil {
			return "", err
		}
	}
	return projectID, s.Project(tx, caller, e.location, projectID)
}

// Delete hides a thread, empties its user_data, and leaves the rest until Purge. One that is not there, or not seen, or deleted
// already, is NotFound.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, threadID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		rows, err := s.lock(tx, []*writing{{caller: caller, edit: edit{id: threadID}}})
		if err != nil {
			return err
		}
		r := rows[key{caller.OrgID, threadID}]
		if r.version == 0 || r.Deleted || !caller.Sees(r.ProjectID) {
			return errs.Missing("thread", threadID)
		}
		if err := match.Check(r); err != nil {
			return err
		}
		if err := tx.Send(`UPDATE threads SET deleted = $3, deleted_at = $4, deleted_by = $5, version = version + 1, user_data_size = 0,
			user_data = NULL WHERE org_id = $1 AND id = $2`, r.OrgID, r.ID, true, s.now(), caller.UserID); err != nil {
			return err
		}
		counts := tally{}
		counts.add(r.OrgID, r.ProjectID, countThreads, -1)
		counts.add(r.OrgID, r.ProjectID, countDeleted, 1)
		p := newPosting(tx.Dialect())
		p.hide(r.Thread, r.facets)
		return errors.Join(p.send(tx), s.addCounts(tx, counts), s.Audit(tx, "thread.delete", threadID))
	})
}

// Get gives a thread whole. One that is not there, or not seen, or deleted, is NotFound.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, threadID string) (Thread, error) {
	t := Thread{OrgID: caller.OrgID}
	var sealed []byte
	err := s.DB.Read(ctx).Row(`SELECT `+threadColumns+`, user_data FROM threads WHERE org_id = $1 AND id = $2`, caller.OrgID, threadID).
		Scan(append(t.columns(), &sealed)...)
	if errors.Is(err, db.ErrNoRows) || err == nil && (t.DeletedAt != nil || !caller.Sees(t.ProjectID)) {
		return Thread{}, errs.Missing("thread", threadID)
	}
	if err == nil {
		t.UserData, err = s.open(threadData, sealed)
	}
	return t, err
}

// largeData gives the version of a thread that the caller sees, 0 when there is none, and its sealed user_data if that has more than
// `least` bytes.
func (s *Store) largeData(ctx context.Context, caller *auth.Caller, threadID string, least int) (version int64, sealed []byte, err error) {
	err = s.DB.Read(ctx).Row(`SELECT version, CASE WHEN user_data_size > $3 THEN user_data ELSE NULL END FROM threads
		WHERE org_id = $1 AND id = $2 AND ($4 = '' OR project_id = $4)`, caller.OrgID, threadID, least, caller.ProjectID).Scan(&version, &sealed)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil, nil
	}
	return version, sealed, err
}

const threadColumns = `id, project_id, created_at, updated_at, deleted_at, deleted_by, version, metadata`

// columns are where threadColumns go.
func (t *Thread) columns() []any {
	return []any{
		&t.ID, &t.ProjectID, (*int64)(&t.CreatedAt), (*int64)(&t.UpdatedAt), &t.DeletedAt, &t.DeletedBy, &t.version, (*[]byte)(&t.Metadata),
	}
}

func nullText(m Metadata) *string {
	if m == nil {
		return nil
	}
	text := string(m)
	return &text
}

// nullBytes keeps a nil slice from becoming an empty value.
func nullBytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
