package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/thread/term"
)

// edit is a change to one thread. Nil fields change nothing.
type edit struct {
	id string
	// projectID may be empty: an existing thread then stays in its project, and chooseProject
	// decides for a new one.
	projectID string
	// location is where the request names the project. If it is set, a new thread must have one.
	location string
	match    page.IfMatch
	userData *sealedText
	metadata *indexedMetadata
	// merge returns the new user_data from the current one.
	merge func(userData *string) (string, error)
	// If the row no longer has this version (0 for no row), the edit fails with errStale.
	version *int64
}

// sealedText is a user_data that we shall write. We seal a merged one only then, since another merge
// may follow.
type sealedText struct {
	text   *string
	sealed []byte
}

// indexedMetadata is metadata with its keys' terms.
type indexedMetadata struct {
	text Metadata
	keys []term.Term
}

func sealText(ring *seal.Ring, purpose string, text *string) *sealedText {
	if text == nil {
		return &sealedText{}
	}
	return &sealedText{text: text, sealed: ring.Seal(purpose, []byte(*text))}
}

func (d *sealedText) size() int64 {
	if d.text == nil {
		return 0
	}
	return int64(len(*d.text))
}

// queuedEdit is an edit that waits to be written in a batch, and its result: a thread without user_data
// and metadata, or an error.
type queuedEdit struct {
	edit
	caller *auth.Caller
	thread Thread
	err    error
}

// Org returns the caller's organization, for db.Gather.
func (e *queuedEdit) Org() string { return e.caller.OrgID }

// Bytes estimates how much the edit adds to a transaction.
func (e *queuedEdit) Bytes() int {
	n := 256
	if e.userData != nil {
		n += len(e.userData.sealed)
	}
	if e.metadata != nil {
		n += 2 * len(e.metadata.text)
	}
	return n
}

// threadID identifies the edit's thread.
func (e *queuedEdit) key() scopedID { return scopedID{e.caller.OrgID, e.id} }

// scopedID is an id within an organization.
type scopedID struct{ orgID, id string }

func (s scopedID) compare(o scopedID) int {
	return cmp.Or(cmp.Compare(s.orgID, o.orgID), cmp.Compare(s.id, o.id))
}

var (
	// errStale means that a thread has changed since we read it.
	errStale = errors.New("the thread was changed since it was read")
	// errInserted means that another transaction has inserted a thread since we looked for it.
	errInserted = errors.New("the thread was inserted by another transaction")
	// errNeedsTx means that an edit needs its own transaction.
	errNeedsTx = errors.New("this edit needs a transaction of its own")
)

// write creates or changes a thread, in one transaction with the edits of concurrent callers.
func (s *Store) write(ctx context.Context, caller *auth.Caller, e edit) error {
	queued := &queuedEdit{caller: caller, edit: e}
	if err := s.writes.Do(ctx, s.DB, queued, s.writeBatch); err != nil {
		return fmt.Errorf("write threads: %w", err)
	}
	if !errors.Is(queued.err, errNeedsTx) {
		return queued.err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := s.writeOne(tx, caller, e)
		return err
	})
}

// writeOne creates or changes a thread in its own transaction. It returns the thread without user_data
// and metadata.
func (s *Store) writeOne(tx *db.Tx, caller *auth.Caller, e edit) (Thread, error) {
	queued := &queuedEdit{caller: caller, edit: e}
	project := func(*queuedEdit) (string, error) {
		projectID := cmp.Or(e.projectID, caller.ProjectID)
		if projectID == "" && e.location != "" {
			return "", errs.InvalidField(e.location, projectRule)
		}
		if projectID == "" {
			var err error
			if projectID, err = s.inferProject(tx, caller.OrgID, e.id); err != nil {
				return "", err
			}
		}
		return projectID, s.Accounts.EnsureProject(tx, caller, e.location, projectID)
	}
	for {
		rows, err := s.lock(tx, []*queuedEdit{queued})
		if err != nil {
			return Thread{}, err
		}
		t, err := s.apply(rows[queued.key()], queued, project)
		if err != nil {
			return Thread{}, err
		}
		err = s.flush(tx, rows)
		if errors.Is(err, errInserted) {
			continue // now there is a row to lock
		}
		return t, err
	}
}

// writeBatch applies several callers' edits as if each was written alone, and sets their results. It
// creates threads only in projects that exist: to create a project, a transaction needs its caller's
// context.
func (s *Store) writeBatch(tx *db.Tx, batch []*queuedEdit) error {
	rows, err := s.lock(tx, batch)
	if err != nil {
		return err
	}
	known, err := knownProjects(tx, batch, rows)
	if err != nil {
		return err
	}
	project := func(e *queuedEdit) (string, error) {
		if e.projectID != "" || !known[scopedID{e.caller.OrgID, e.caller.ProjectID}] {
			return "", errNeedsTx
		}
		return e.caller.ProjectID, nil
	}
	for _, e := range batch {
		e.thread, e.err = s.apply(rows[e.key()], e, project)
	}
	err = s.flush(tx, rows)
	if errors.Is(err, errInserted) && len(batch) == 1 {
		batch[0].err = errNeedsTx
		return nil
	}
	return err
}

// knownProjects looks up the projects in which a batch would create threads, and returns those that exist.
func knownProjects(tx *db.Tx, batch []*queuedEdit, rows map[scopedID]*row) (map[scopedID]bool, error) {
	known := map[scopedID]bool{}
	queries := db.Bulk[scopedID]{}
	for _, e := range batch {
		project := scopedID{e.caller.OrgID, e.caller.ProjectID}
		if _, seen := known[project]; !seen && project.id != "" && rows[e.key()].version == 0 {
			known[project] = false
			queries = append(queries, project)
		}
	}
	found, err := db.CollectBulk(tx, queries, scanScopedID,
		`SELECT p.org_id, p.id FROM {v} CROSS JOIN project_names p WHERE p.org_id = v.org_id AND p.id = v.id`)
	if err != nil {
		return nil, fmt.Errorf("look up projects: %w", err)
	}
	for _, project := range found {
		known[project] = true
	}
	return known, nil
}

func scanScopedID(row db.Row) (s scopedID, err error) { return s, row.Scan(&s.orgID, &s.id) }

// lock returns the rows for a batch's threads, and locks those that exist.
func (s *Store) lock(tx *db.Tx, batch []*queuedEdit) (map[scopedID]*row, error) {
	rows := map[scopedID]*row{}
	merged := map[scopedID]bool{}
	for _, e := range batch {
		key := e.key()
		rows[key] = &row{indexedThread: indexedThread{Thread: Thread{ID: key.id, OrgID: key.orgID}}}
		merged[key] = merged[key] || e.merge != nil
	}
	type query struct {
		scopedID
		merged bool
	}
	queries := make(db.Bulk[query], 0, len(rows))
	for key := range rows {
		queries = append(queries, query{key, merged[key]})
	}
	found, err := db.CollectBulk(tx, queries, scanLocked, `SELECT t.org_id, t.id, t.project_id, t.created_at,
			t.updated_at, t.deleted, t.version, t.terms, CASE WHEN v.merged THEN t.user_data ELSE NULL END
		FROM {v} CROSS JOIN threads t WHERE t.org_id = v.org_id AND t.id = v.id`+forUpdate(tx))
	if err != nil {
		return nil, fmt.Errorf("lock threads: %w", err)
	}
	for _, r := range found {
		rows[scopedID{r.OrgID, r.ID}] = r
	}
	return rows, nil
}

// forUpdate ends a SELECT from threads t whose rows we shall change. SQLite has one writer, so there is
// nothing to lock.
func forUpdate(tx *db.Tx) string {
	if tx.Dialect() == db.Postgres {
		return ` ORDER BY t.org_id, t.id FOR UPDATE OF t`
	}
	return ""
}

func (s *Store) inferProject(tx *db.Tx, orgID, threadID string) (projectID string, err error) {
	err = tx.Row(`SELECT project_id FROM sessions WHERE org_id = $1 AND thread_id = $2 AND project_id <> ''
		ORDER BY started_at DESC, id DESC LIMIT 1`, orgID, threadID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return s.Accounts.Oldest(tx, orgID)
	}
	if err != nil {
		return "", fmt.Errorf("look up the session of a thread: %w", err)
	}
	return projectID, nil
}
