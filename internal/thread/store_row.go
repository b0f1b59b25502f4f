package thread

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
	"steward/internal/thread/term"
)

// row is a locked thread, as we found it and as we shall write it. Its version is 0 if it does not
// exist.
type row struct {
	indexedThread
	found  indexedThread
	sealed []byte // the user_data that was found, if an edit needs it

	// We write userData and metadata unless they are nil.
	userData *sealedText
	metadata *indexedMetadata
}

func scanLocked(from db.Row) (*row, error) {
	var t indexedThread
	var packed, sealed []byte
	err := from.Scan(&t.OrgID, &t.ID, &t.ProjectID, &t.CreatedAt, &t.UpdatedAt, &t.Deleted, &t.version, &packed, &sealed)
	if err != nil {
		return nil, err
	}
	t.terms = term.Unpack(packed)
	return &row{indexedThread: t, found: t, sealed: sealed}, nil
}

// apply applies an edit to a row in memory. If it returns an error, the row is as before. project
// decides where a new or moved thread goes.
func (s *Store) apply(r *row, e *queuedEdit, project func(*queuedEdit) (string, error)) (Thread, error) {
	isNew := r.version == 0
	switch {
	case !isNew && !e.caller.Sees(r.ProjectID):
		return Thread{}, errs.Missing("thread", r.ID)
	case e.version != nil && *e.version != r.version:
		return Thread{}, errStale
	case r.Deleted:
		return Thread{}, errs.New(errs.Conflict, "thread %s was deleted", r.ID)
	case isNew && e.match.IfMatch != "":
		return Thread{}, errs.New(errs.PreconditionFailed, "thread %s does not exist", r.ID)
	}
	if !isNew {
		if err := e.match.Check(r); err != nil {
			return Thread{}, err
		}
	}
	userData, err := s.newUserData(r, e)
	if err != nil {
		return Thread{}, err
	}
	projectID := r.ProjectID
	if isNew || e.projectID != "" && e.projectID != projectID {
		if projectID, err = project(e); err != nil {
			return Thread{}, err
		}
	}
	r.change(projectID, userData, e.metadata, s.now())
	return r.Thread, nil
}

// newUserData returns an edit's user_data, or nil if the thread keeps its own.
func (s *Store) newUserData(r *row, e *queuedEdit) (*sealedText, error) {
	if e.merge == nil {
		return e.userData, nil
	}
	before, err := s.currentUserData(r)
	if err != nil {
		return nil, err
	}
	after, err := e.merge(before)
	if err != nil {
		return nil, err
	}
	return &sealedText{text: &after}, nil
}

func (s *Store) currentUserData(r *row) (*string, error) {
	if r.userData != nil {
		return r.userData.text, nil
	}
	return s.open(threadData, r.sealed)
}

// change writes an edit to the row. An edit that moves a thread to another project always has metadata.
func (r *row) change(projectID string, userData *sealedText, metadata *indexedMetadata, now stamp.Time) {
	if r.version == 0 {
		r.CreatedAt = now
		r.terms = term.All(projectID, nil)
		r.userData = &sealedText{}
		r.metadata = &indexedMetadata{}
	}
	r.version++
	r.ProjectID = projectID
	r.UpdatedAt = max(now, r.UpdatedAt)
	if userData != nil {
		r.userData = userData
	}
	if metadata != nil {
		r.metadata = metadata
		r.terms = term.All(projectID, metadata.keys)
	}
}

// flush writes changed rows with their index entries and counts. It returns errInserted if another
// transaction has inserted one of them.
func (s *Store) flush(tx *db.Tx, rows map[scopedID]*row) error {
	index := newIndexWriter()
	var inserts db.Bulk[threadRow]
	updates := threadUpdates{}
	for _, key := range slices.SortedFunc(maps.Keys(rows), scopedID.compare) { // always in this order, to avoid deadlocks
		r := rows[key]
		if r.version == r.found.version {
			continue
		}
		if r.userData != nil && r.userData.sealed == nil {
			r.userData = sealText(s.Ring, threadData, r.userData.text)
		}
		r.collect(&inserts, updates, index)
	}
	n, err := inserts.Exec(tx, `INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version,
			terms, user_data_size, metadata, user_data)
		SELECT v.org_id, v.id, v.project_id, v.created_at, v.updated_at, v.deleted, v.version,
			v.terms, v.user_data_size, v.metadata, v.user_data FROM {v} WHERE true ON CONFLICT (org_id, id) DO NOTHING`)
	if err != nil {
		return fmt.Errorf("insert threads: %w", err)
	}
	if n < int64(len(inserts)) {
		return errInserted
	}
	if err := updates.write(tx); err != nil {
		return err
	}
	return index.write(tx)
}

// collect adds a row to the statements that write it.
func (r *row) collect(inserts *db.Bulk[threadRow], updates threadUpdates, index *indexWriter) {
	if r.found.version == 0 {
		*inserts = append(*inserts, r.row())
		index.insert(r.indexedThread, r.metadata.keys)
		return
	}
	updates.add(r)
	if slices.Equal(r.found.terms, r.terms) {
		index.move(r.found, r.indexedThread)
		return
	}
	index.remove(r.found)
	index.insert(r.indexedThread, r.metadata.keys)
}

// threadRow is a row in threads. An update uses only the columns that change.
type threadRow struct {
	OrgID, ID, ProjectID string
	CreatedAt, UpdatedAt stamp.Time
	Deleted              bool
	Version              int64
	Terms                []byte
	UserDataSize         int64
	Metadata             *string
	UserData             []byte
}

func (r *row) row() threadRow {
	to := threadRow{
		OrgID: r.OrgID, ID: r.ID, ProjectID: r.ProjectID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Deleted: r.Deleted,
		Version: r.version, Terms: term.Pack(r.terms),
	}
	if r.metadata != nil {
		to.Metadata = db.Null(string(r.metadata.text))
	}
	if r.userData != nil {
		to.UserDataSize = r.userData.size()
		to.UserData = r.userData.sealed
	}
	return to
}

// threadUpdates groups rows by the statement that updates them. It sets only columns that change, since
// we do not want to write an unchanged user_data, which may have a megabyte.
type threadUpdates map[string]db.Bulk[threadRow]

func (u threadUpdates) add(r *row) {
	columns := []string{"updated_at", "version"}
	if !slices.Equal(r.terms, r.found.terms) {
		columns = append(columns, "project_id", "terms")
	}
	if r.metadata != nil {
		columns = append(columns, "metadata")
	}
	if r.userData != nil {
		columns = append(columns, "user_data_size", "user_data")
	}
	for i, column := range columns {
		columns[i] = column + " = v." + column
	}
	text := `UPDATE threads SET ` + strings.Join(columns, ", ") +
		` {FROM v} WHERE threads.org_id = v.org_id AND threads.id = v.id`
	u[text] = append(u[text], r.row())
}

func (u threadUpdates) write(tx *db.Tx) error {
	for _, text := range slices.Sorted(maps.Keys(u)) {
		if err := u[text].Send(tx, text); err != nil {
			return fmt.Errorf("update threads: %w", err)
		}
	}
	return nil
}
