package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// edit is one change of a thread; what is nil stays as it is.
type edit struct {
	id string
	// projectID may be empty: then the thread stays where it is, and a new one goes to where the caller's threads go.
	projectID string
	// location is where the request names the project; without one, a new thread must not lack a project.
	location string
	match    page.IfMatch
	userData *sealedText
	metadata *indexed
	// merge gives the new user_data from the present one.
	merge func(userData *string) (string, error)
	// version is the one that the row must still have, 0 for none, or the change is errStale.
	version *int64
}

// sealedText is a user_data on its way into a row. One that was merged is sealed when it is written: another merge may follow.
type sealedText struct {
	text   *string
	sealed []byte
}

// indexed is a metadata with the facets of its keys.
type indexed struct {
	text   Metadata
	facets []facet
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

// writing is an edit on its way into the database, and what became of it: a thread without user_data and metadata, or an error.
type writing struct {
	edit
	caller *auth.Caller
	thread Thread
	err    error
}

// Bytes is about how much it adds to a transaction.
func (w *writing) Bytes() int {
	n := 256
	if w.userData != nil {
		n += len(w.userData.sealed)
	}
	if w.metadata != nil {
		n += 2 * len(w.metadata.text)
	}
	return n
}

var (
	// errStale says that a thread was changed since it was read.
	errStale = errors.New("the thread was changed meanwhile")
	// errRaced says that another transaction has made a thread since this one looked.
	errRaced = errors.New("the thread was made meanwhile")
	// errAlone says that an edit needs more than the common transaction may do for it.
	errAlone = errors.New("this edit needs a transaction of its own")
)

// write makes or changes a thread, together with those that others write at the same moment.
func (s *Store) write(ctx context.Context, caller *auth.Caller, e edit) error {
	w := &writing{caller: caller, edit: e}
	if err := s.writes.Do(ctx, s.DB, w, s.changeTogether); err != nil {
		return err
	}
	if !errors.Is(w.err, errAlone) {
		return w.err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := s.change(tx, caller, e)
		return err
	})
}

// change makes or changes a thread in a transaction of its own. What it returns lacks user_data and metadata.
func (s *Store) change(tx *db.Tx, caller *auth.Caller, e edit) (Thread, error) {
	w := &writing{caller: caller, edit: e}
	place := func(w *writing) (string, error) { return s.home(tx, caller, w.edit) }
	for {
		rows, err := s.lock(tx, []*writing{w})
		if err != nil {
			return Thread{}, err
		}
		if w.thread, err = s.apply(rows[w.key()], w, place); err != nil {
			return Thread{}, err
		}
		if err = s.flush(tx, rows); !errors.Is(err, errRaced) {
			return w.thread, err
		}
		// Now there is a row to lock.
	}
}

// changeTogether does the edits of many callers, each as if it came alone: what is wrong with one is its own error. A new thread must be of
// a project that is there; to make one is not for a common transaction, whose context has no caller.
func (s *Store) changeTogether(tx *db.Tx, batch []*writing) error {
	rows, err := s.lock(tx, batch)
	if err != nil {
		return err
	}
	known, err := homes(tx, batch, rows)
	if err != nil {
		return err
	}
	place := func(w *writing) (string, error) {
		if w.projectID != "" || !known[key{w.caller.OrgID, w.caller.ProjectID}] {
			return "", errAlone
		}
		return w.caller.ProjectID, nil
	}
	for _, w := range batch {
		w.thread, w.err = s.apply(rows[w.key()], w, place)
	}
	if err = s.flush(tx, rows); errors.Is(err, errRaced) && len(batch) == 1 {
		batch[0].err, err = errAlone, nil
	}
	return err
}

// homes tells which of the projects are there to which confined callers would add threads.
func homes(tx *db.Tx, batch []*writing, rows map[key]*row) (map[key]bool, error) {
	known := map[key]bool{}
	asked := db.NewBulk(db.Text, db.Text)
	for _, w := range batch {
		home := key{w.caller.OrgID, w.caller.ProjectID}
		if _, seen := known[home]; !seen && home.id != "" && rows[w.key()].version == 0 {
			known[home] = false
			asked.Add(home.orgID, home.id)
		}
	}
	found, err := db.CollectBulk(tx, asked, func(row db.Row) (k key, err error) {
		return k, row.Scan(&k.orgID, &k.id)
	}, `SELECT p.org_id, p.id FROM {v} CROSS JOIN projects p WHERE p.org_id = v.column1 AND p.id = v.column2`)
	for _, home := range found {
		known[home] = true
	}
	return known, err
}

// key names something of an organization.
type key struct{ orgID, id string }

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.id, o.id))
}

func (w *writing) key() key { return key{w.caller.OrgID, w.id} }

// row is a thread while it is locked: as it was found, and as it is to be. Its version is 0 while there is none.
type row struct {
	Thread
	facets []facet
	found  Thread
	listed []facet // the facets under which it was found
	sealed []byte  // the user_data that was found, if an edit needs it
	// What is to be written; nil stays.
	data     *sealedText
	metadata *indexed
}

// lock gives the rows that a batch is about, and keeps others from changing those that are there.
func (s *Store) lock(tx *db.Tx, batch []*writing) (map[key]*row, error) {
	rows, merged := map[key]*row{}, map[key]bool{}
	for _, w := range batch {
		k := w.key()
		rows[k] = &row{Thread: Thread{ID: k.id, OrgID: k.orgID}}
		merged[k] = merged[k] || w.merge != nil
	}
	asked := db.NewBulk(db.Text, db.Text, db.Bool)
	for k := range rows {
		asked.Add(k.orgID, k.id, merged[k])
	}
	found, err := db.CollectBulk(tx, asked, scanLocked, `SELECT t.org_id, t.id, t.project_id, t.created_at, t.updated_at, t.deleted, t.version,
		t.facets, CASE WHEN v.column3 THEN t.user_data ELSE NULL END
		FROM {v} CROSS JOIN threads t WHERE t.org_id = v.column1 AND t.id = v.column2`+locked(tx))
	for _, r := range found {
		r.found, r.listed = r.Thread, r.facets
		rows[key{r.OrgID, r.ID}] = r
	}
	return rows, err
}

// locked is what a SELECT of threads, t, ends with. On SQLite there is but one writer, so nothing is to be locked.
func locked(tx *db.Tx) string {
	if tx.Dialect() == db.Postgres {
		return ` ORDER BY t.org_id, t.id FOR UPDATE OF t`
	}
	return ""
}

func scanLocked(from db.Row) (*row, error) {
	var r row
	var packed []byte
	err := from.Scan(&r.OrgID, &r.ID, &r.ProjectID, &r.CreatedAt, &r.UpdatedAt, &r.Deleted, &r.version, &packed, &r.sealed)
	r.facets = unpackFacets(packed)
	return &r, err
}

// apply does an edit on a row in memory, or leaves it as it is when there is an error. place decides where a thread goes.
func (s *Store) apply(r *row, w *writing, place func(*writing) (string, error)) (Thread, error) {
	fresh, projectID := r.version == 0, r.ProjectID
	switch {
	case !fresh && !w.caller.Sees(r.ProjectID):
		return Thread{}, errs.Missing("thread", r.ID)
	case w.version != nil && *w.version != r.version:
		return Thread{}, errStale
	case r.Deleted:
		return Thread{}, errs.New(errs.Conflict, "thread %s was deleted", r.ID)
	case fresh && w.match.IfMatch != "":
		return Thread{}, errs.New(errs.PreconditionFailed, "there is no such thread yet")
	}
	if err := w.match.Check(r); err != nil && !fresh {
		return Thread{}, err
	}
	data, err := s.merged(r, w)
	if err != nil {
		return Thread{}, err
	}
	if fresh || w.projectID != "" && w.projectID != r.ProjectID {
		if projectID, err = place(w); err != nil {
			return Thread{}, err
		}
	}
	r.become(projectID, data, w.metadata, s.now())
	return r.Thread, nil
}

// merged gives the user_data that an edit leads to; nil when it stays.
func (s *Store) merged(r *row, w *writing) (*sealedText, error) {
	if w.merge == nil {
		return w.userData, nil
	}
	before, err := s.text(r)
	if err != nil {
		return nil, err
	}
	after, err := w.merge(before)
	return &sealedText{text: &after}, err
}

// text gives the user_data as it is now.
func (s *Store) text(r *row) (*string, error) {
	if r.data != nil {
		return r.data.text, nil
	}
	return s.open(threadData, r.sealed)
}

// become takes over what an edit has decided. Whoever moves a thread sends its metadata too.
func (r *row) become(projectID string, data *sealedText, metadata *indexed, now stamp.Time) {
	if r.version == 0 {
		r.CreatedAt, r.facets = now, withProject(projectID, nil)
		r.data, r.metadata = &sealedText{}, &indexed{}
	}
	r.version++
	r.ProjectID, r.UpdatedAt = projectID, max(now, r.UpdatedAt)
	if data != nil {
		r.data = data
	}
	if metadata != nil {
		r.metadata, r.facets = metadata, withProject(projectID, metadata.facets)
	}
}

// flush writes the rows that were changed, with all that belongs to them. errRaced says that another transaction was faster to make one.
func (s *Store) flush(tx *db.Tx, rows map[key]*row) error {
	p := newPosting(tx.Dialect())
	counts := tally{}
	made, changed := newThreads(), map[shape]*db.Bulk{}
	for _, k := range slices.SortedFunc(maps.Keys(rows), key.compare) { // in one order everywhere: no two wait for each other
		r := rows[k]
		if r.version == r.found.version {
			continue
		}
		if r.data != nil && r.data.text != nil && r.data.sealed == nil {
			r.data = sealText(s.Ring, threadData, r.data.text)
		}
		if r.found.version == 0 {
			r.addNew(made)
			counts.add(r.OrgID, r.ProjectID, countThreads, 1)
		} else {
			r.addTo(changed)
			if r.ProjectID != r.found.ProjectID {
				counts.add(r.OrgID, r.found.ProjectID, countThreads, -1)
				counts.add(r.OrgID, r.ProjectID, countThreads, 1)
			}
		}
		p.follow(r)
	}
	if err := insertThreads(tx, made); err != nil {
		return err
	}
	for _, sh := range slices.SortedFunc(maps.Keys(changed), shape.compare) {
		if err := sh.send(tx, changed[sh]); err != nil {
			return err
		}
	}
	return errors.Join(p.send(tx), s.addCounts(tx, counts))
}

func newThreads() *db.Bulk {
	return db.NewBulk(db.Text, db.Text, db.Text, db.Int, db.Int, db.Bool, db.Int, db.Bytes, db.Int, db.Text, db.Bytes)
}

func (r *row) addNew(made *db.Bulk) {
	made.Add(r.OrgID, r.ID, r.ProjectID, int64(r.CreatedAt), int64(r.UpdatedAt), r.Deleted, r.version, packFacets(r.facets), r.data.size(),
		nullText(r.metadata.text), r.data.sealed)
}

func insertThreads(tx *db.Tx, made *db.Bulk) error {
	n, err := made.Exec(tx, `INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version, facets, user_data_size,
		metadata, user_data) SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10,
		v.column11 FROM {v} WHERE true ON CONFLICT (org_id, id) DO NOTHING`)
	if err == nil && n < int64(made.Len()) {
		err = errRaced
	}
	return err
}

// shape tells which columns of a thread are written beside version and time: a megabyte that stays need not be written again.
type shape struct{ facets, metadata, data bool }

func (sh shape) compare(o shape) int { return cmp.Compare(fmt.Sprint(sh), fmt.Sprint(o)) }

// addTo puts a row to those of its shape.
func (r *row) addTo(changed map[shape]*db.Bulk) {
	sh := shape{data: r.data != nil, metadata: r.metadata != nil}
	sh.facets = r.ProjectID != r.found.ProjectID || !slices.Equal(r.facets, r.listed)
	kinds := []db.Kind{db.Text, db.Text, db.Int, db.Int}
	values := []any{r.OrgID, r.ID, int64(r.UpdatedAt), r.version}
	if sh.facets {
		kinds, values = append(kinds, db.Text, db.Bytes), append(values, r.ProjectID, packFacets(r.facets))
	}
	if sh.metadata {
		kinds, values = append(kinds, db.Text), append(values, nullText(r.metadata.text))
	}
	if sh.data {
		kinds, values = append(kinds, db.Int, db.Bytes), append(values, r.data.size(), r.data.sealed)
	}
	if changed[sh] == nil {
		changed[sh] = db.NewBulk(kinds...)
	}
	changed[sh].Add(values...)
}

// send writes the rows of a shape, whose columns come in the order of addTo.
func (sh shape) send(tx *db.Tx, rows *db.Bulk) error {
	set, n := `updated_at = v.column3, version = v.column4`, 4
	for _, part := range []struct {
		there   bool
		columns []string
	}{{sh.facets, []string{"project_id", "facets"}}, {sh.metadata, []string{"metadata"}}, {sh.data, []string{"user_data_size", "user_data"}}} {
		for _, column := range part.columns {
			if part.there {
				n++
				set += fmt.Sprintf(`, %s = v.column%d`, column, n)
			}
		}
	}
	return rows.Send(tx, `UPDATE threads SET `+set+` {FROM v} WHERE threads.org_id = v.column1 AND threads.id = v.column2`)
}
