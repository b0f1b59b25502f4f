package thread

import (
	"fmt"

	"steward/internal/db"
	"steward/internal/thread/term"
)

// indexedThread is a thread with its terms, sorted.
type indexedThread struct {
	Thread
	terms []term.Term
}

// indexWriter collects a transaction's changes to the index tables and counts, so that each kind of
// change takes one statement for all threads.
type indexWriter struct {
	created indexTable
	updated indexTable
	added   []indexedThread
	removed []indexedThread
}

// indexTable collects the changes to one table.
type indexTable struct {
	name    string
	removed db.Bulk[indexEntry]
	added   db.Bulk[indexEntry]
	moved   db.Bulk[indexEntry]
}

// indexEntry is an entry in an index table that we remove, add with its keys, or move to another
// position.
type indexEntry struct {
	OrgID    string
	Position []byte
	ThreadID string
	Keys     []byte
	To       []byte
}

func createdEntry(t indexedThread, of term.Term) indexEntry {
	return indexEntry{OrgID: t.OrgID, Position: of.Position(t.Deleted, t.CreatedAt), ThreadID: t.ID}
}

func updatedEntry(t indexedThread, of term.Term) indexEntry {
	return indexEntry{OrgID: t.OrgID, Position: of.Position(t.Deleted, t.UpdatedAt), ThreadID: t.ID}
}

func (e indexEntry) withKeys(keys []byte) indexEntry {
	e.Keys = keys
	return e
}

func (e indexEntry) movedTo(other indexEntry) indexEntry {
	e.To = other.Position
	return e
}

func newIndexWriter() *indexWriter {
	return &indexWriter{created: indexTable{name: "thread_index_created"}, updated: indexTable{name: "thread_index_updated"}}
}

// insert adds a thread's entries, each with its metadata keys.
func (w *indexWriter) insert(t indexedThread, keys []term.Term) {
	prefixes := term.PackPrefixes(keys)
	for _, of := range t.terms {
		w.created.added = append(w.created.added, createdEntry(t, of).withKeys(prefixes))
		w.updated.added = append(w.updated.added, updatedEntry(t, of).withKeys(prefixes))
	}
	w.added = append(w.added, t)
}

func (w *indexWriter) remove(t indexedThread) {
	for _, of := range t.terms {
		w.created.removed = append(w.created.removed, createdEntry(t, of))
		w.updated.removed = append(w.updated.removed, updatedEntry(t, of))
	}
	w.removed = append(w.removed, t)
}

// move moves the entries for a thread whose terms stay the same.
func (w *indexWriter) move(from, to indexedThread) {
	for _, of := range from.terms {
		w.updated.moved = append(w.updated.moved, updatedEntry(from, of).movedTo(updatedEntry(to, of)))
	}
	if from.Deleted == to.Deleted {
		return
	}
	for _, of := range from.terms {
		w.created.moved = append(w.created.moved, createdEntry(from, of).movedTo(createdEntry(to, of)))
	}
	w.removed = append(w.removed, from)
	w.added = append(w.added, to)
}

func (w *indexWriter) write(tx *db.Tx) error {
	if err := w.created.write(tx); err != nil {
		return fmt.Errorf("write %s: %w", w.created.name, err)
	}
	if err := w.updated.write(tx); err != nil {
		return fmt.Errorf("write %s: %w", w.updated.name, err)
	}
	for _, t := range w.removed {
		if err := countThread(tx, t, -1); err != nil {
			return err
		}
	}
	for _, t := range w.added {
		if err := countThread(tx, t, 1); err != nil {
			return err
		}
	}
	return nil
}

func (t *indexTable) write(tx *db.Tx) error {
	const where = ` WHERE i.org_id = v.org_id AND i.position = v.position AND i.thread_id = v.thread_id`
	if err := t.removed.Send(tx, `DELETE FROM `+t.name+` AS i {USING v}`+where); err != nil {
		return err
	}
	if err := t.added.Send(tx, `INSERT INTO `+t.name+` (org_id, position, thread_id, keys)
		SELECT v.org_id, v.position, v.thread_id, v.keys FROM {v}`); err != nil {
		return err
	}
	return t.moved.Send(tx, `UPDATE `+t.name+` AS i SET position = v.to {FROM v}`+where)
}

// counts has each project's number of threads, deleted threads and sessions. termCounts has the number
// of threads for each term.
var (
	counts = db.NewCounters("thread_counts",
		[]string{"org_id", "project_id"}, []string{"threads", "deleted", "sessions"})
	termCounts = db.NewCounters("thread_term_counts", []string{"org_id", "term"}, []string{"threads", "deleted"})
)

// countThread counts a thread n times for its project and terms.
func countThread(tx *db.Tx, t indexedThread, n int64) error {
	live, deleted := n, int64(0)
	if t.Deleted {
		live, deleted = 0, n
	}
	if err := counts.Add(tx, []any{t.OrgID, t.ProjectID}, live, deleted, 0); err != nil {
		return fmt.Errorf("count threads: %w", err)
	}
	for _, of := range t.terms {
		if err := termCounts.Add(tx, []any{t.OrgID, of[:]}, live, deleted); err != nil {
			return fmt.Errorf("count threads of a term: %w", err)
		}
	}
	return nil
}

// countSessions adds n to a project's sessions. The project is "" until we know it.
func countSessions(tx *db.Tx, orgID, projectID string, n int64) error {
	if err := counts.Add(tx, []any{orgID, projectID}, 0, 0, n); err != nil {
		return fmt.Errorf("count sessions: %w", err)
	}
	return nil
}

// projectCounts returns a project's counts, or the organization's if projectID is empty.
func projectCounts(q db.Querier, orgID, projectID string) (threads, deleted, sessions int64, err error) {
	key := []any{orgID}
	if projectID != "" {
		key = append(key, projectID)
	}
	n, err := counts.Sum(q, key...)
	if err != nil {
		return 0, 0, 0, err
	}
	return n[0], n[1], n[2], nil
}

// termCount returns the number of threads with a term, either deleted ones or the others.
func termCount(q db.Querier, orgID string, t term.Term, deleted bool) (int64, error) {
	n, err := termCounts.Sum(q, orgID, t[:])
	if err != nil {
		return 0, err
	}
	if deleted {
		return n[1], nil
	}
	return n[0], nil
}
