package thread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
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

	vast web.Crowds[vastKey]
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// edit is one change of a thread; what is nil stays as it is.
type edit struct {
	id string
	// projectID may be empty: then the thread stays where it is, and a new one goes to where the caller's threads go.
	projectID string
	// location is where the request names the project; without one, a new thread must not lack a project.
	location string
	match    web.IfMatch
	userData *sealedText
	metadata *indexed
	// merge gives the new user_data from the present one.
	merge func(userData *string) (string, error)
	// version is the one that the row must still have, 0 for none, or the change is errStale.
	version *int64
	// audited changes leave a line in the log.
	audited bool
}

// sealedText is a user_data on its way into a row.
type sealedText struct {
	text   *string
	sealed []byte
}

// indexed is a metadata with the facets of its keys.
type indexed struct {
	text   Metadata
	facets []facet
}

func (s *Store) seal(purpose string, text *string) *sealedText {
	if text == nil {
		return &sealedText{}
	}
	return &sealedText{text: text, sealed: s.Ring.Seal(purpose, []byte(*text))}
}

func (d *sealedText) size() int {
	if d.text == nil {
		return 0
	}
	return len(*d.text)
}

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
func (s *Store) Put(ctx context.Context, caller *auth.Caller, threadID string, match web.IfMatch, p Put) (t Thread, err error) {
	var faults errs.Faults
	if p.UserData != nil {
		checkUserData(&faults, "body.user_data", *p.UserData)
	}
	text, keys := checkMetadata(&faults, "body.metadata", p.Metadata)
	if err := faults.Err(); err != nil {
		return Thread{}, err
	}
	e := edit{
		id: threadID, projectID: p.ProjectID, location: "body.project_id", match: match, audited: true,
		userData: s.seal(threadData, p.UserData), metadata: &indexed{text: text, facets: keys},
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		t, err = s.change(tx, caller, e)
		return err
	})
	t.UserData, t.Metadata = p.UserData, text
	return t, err
}

// current is a thread's row while it is locked.
type current struct {
	Thread
	facets []facet
	sealed []byte
}

// errStale says that a thread was changed since it was read.
var errStale = errors.New("the thread was changed meanwhile")

// at is the version of a row, 0 when there is none.
func (c *current) at() int64 {
	if c == nil {
		return 0
	}
	return c.version
}

// lock gives a thread's row and keeps others from changing it, or nil when there is none. A thread that the caller does not see is
// NotFound.
func (s *Store) lock(tx *db.Tx, caller *auth.Caller, threadID string, withData bool) (*current, error) {
	column, suffix := "NULL", ""
	if withData {
		column = "user_data"
	}
	if tx.Dialect() == db.Postgres { // on SQLite there is but one writer
		column, suffix = column+"::bytea", " FOR UPDATE"
	}
	c := current{Thread: Thread{ID: threadID, OrgID: caller.OrgID}}
	var packed []byte
	err := tx.Row(`SELECT project_id, created_at, updated_at, deleted, version, facets, `+column+` FROM threads
		WHERE org_id = $1 AND id = $2`+suffix, caller.OrgID, threadID).
		Scan(&c.ProjectID, &c.CreatedAt, &c.UpdatedAt, &c.Deleted, &c.version, &packed, &c.sealed)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case !caller.Sees(c.ProjectID):
		return nil, errs.Missing("thread", threadID)
	}
	c.facets = unpackFacets(packed)
	return &c, nil
}

// change makes or changes a thread: the one way in. What it returns lacks user_data and metadata.
func (s *Store) change(tx *db.Tx, caller *auth.Caller, e edit) (Thread, error) {
	for {
		c, err := s.lock(tx, caller, e.id, e.merge != nil)
		if err != nil {
			return Thread{}, err
		}
		if e.version != nil && *e.version != c.at() {
			return Thread{}, errStale
		}
		if c != nil {
			return s.update(tx, caller, c, e)
		}
		t, made, err := s.create(tx, caller, e)
		if err != nil || made {
			return t, err
		}
		// Another transaction made it in between; now there is a row to lock.
	}
}

func (s *Store) create(tx *db.Tx, caller *auth.Caller, e edit) (t Thread, made bool, err error) {
	if e.match.IfMatch != "" {
		return t, false, errs.New(errs.PreconditionFailed, "there is no such thread yet")
	}
	if e.projectID, err = s.home(tx, caller, e); err != nil {
		return t, false, err
	}
	if err := e.mergeInto(s, nil); err != nil {
		return t, false, err
	}
	now := s.now()
	t = Thread{ID: e.id, OrgID: caller.OrgID, ProjectID: e.projectID, CreatedAt: now, UpdatedAt: now, version: 1}
	if e.userData == nil {
		e.userData = &sealedText{}
	}
	if e.metadata == nil {
		e.metadata = &indexed{}
	}
	facets := withProject(t.ProjectID, e.metadata.facets)
	n, err := tx.Exec(`INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version, facets, user_data_size,
		metadata, user_data) VALUES ($1, $2, $3, $4, $4, $5, 1, $6, $7, $8, $9) ON CONFLICT (org_id, id) DO NOTHING`,
		t.OrgID, t.ID, t.ProjectID, now, false, packFacets(facets), e.userData.size(), nullText(e.metadata.text), nullBytes(e.userData.sealed))
	if err != nil || n == 0 {
		return t, false, err
	}
	err = errors.Join(insertFacets(tx, t, facets), count(tx, t.OrgID, t.ProjectID, countThreads, t.ID, 1), s.note(tx, e, "thread.create"))
	return t, true, err
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

// mergeInto turns a merge into a user_data to write.
func (e *edit) mergeInto(s *Store, sealed []byte) error {
	if e.merge == nil {
		return nil
	}
	before, err := s.open(threadData, sealed)
	if err != nil {
		return err
	}
	after, err := e.merge(before)
	if err != nil {
		return err
	}
	e.userData = s.seal(threadData, &after)
	return nil
}

func (s *Store) update(tx *db.Tx, caller *auth.Caller, c *current, e edit) (Thread, error) {
	if c.Deleted {
		return Thread{}, errs.New(errs.Conflict, "thread %s was deleted", c.ID)
	}
	if err := e.match.Check(c); err != nil {
		return Thread{}, err
	}
	if err := e.mergeInto(s, c.sealed); err != nil {
		return Thread{}, err
	}
	t := c.Thread
	t.version++
	t.UpdatedAt = max(s.now(), c.UpdatedAt)
	if e.projectID != "" && e.projectID != c.ProjectID {
		t.ProjectID = e.projectID
		if err := s.Project(tx, caller, e.location, t.ProjectID); err != nil {
			return Thread{}, err
		}
		if err := move(tx, c.Thread, t); err != nil {
			return Thread{}, err
		}
	}
	facets := c.facets
	if e.metadata != nil { // whoever moves a thread sends its metadata too
		facets = withProject(t.ProjectID, e.metadata.facets)
	}
	if err := s.rewrite(tx, t, e, facets); err != nil {
		return Thread{}, err
	}
	return t, errors.Join(changeFacets(tx, c.Thread, t, c.facets, facets), s.note(tx, e, "thread.update"))
}

// rewrite writes the columns that an edit changes, and no other: a megabyte that stays need not be written again.
func (s *Store) rewrite(tx *db.Tx, t Thread, e edit, facets []facet) error {
	set := `project_id = $3, updated_at = $4, version = $5, facets = $6`
	args := []any{t.OrgID, t.ID, t.ProjectID, t.UpdatedAt, t.version, packFacets(facets)}
	if e.metadata != nil {
		args = append(args, nullText(e.metadata.text))
		set += fmt.Sprintf(`, metadata = $%d`, len(args))
	}
	if e.userData != nil {
		args = append(args, e.userData.size(), nullBytes(e.userData.sealed))
		set += fmt.Sprintf(`, user_data_size = $%d, user_data = $%d`, len(args)-1, len(args))
	}
	return tx.Send(`UPDATE threads SET `+set+` WHERE org_id = $1 AND id = $2`, args...)
}

func (s *Store) note(tx *db.Tx, e edit, action string) error {
	if !e.audited {
		return nil
	}
	return s.Audit(tx, action, e.id)
}

// Delete hides a thread, empties its user_data, and leaves the rest until Purge. One that is not there, or not seen, or deleted
// already, is NotFound.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, threadID string, match web.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		c, err := s.lock(tx, caller, threadID, false)
		if err != nil {
			return err
		}
		if c == nil || c.Deleted {
			return errs.Missing("thread", threadID)
		}
		if err := match.Check(c); err != nil {
			return err
		}
		if err := tx.Send(`UPDATE threads SET deleted = $3, deleted_at = $4, deleted_by = $5, version = version + 1, user_data_size = 0,
			user_data = NULL WHERE org_id = $1 AND id = $2`, c.OrgID, c.ID, true, s.now(), caller.UserID); err != nil {
			return err
		}
		return errors.Join(hideFacets(tx, c.Thread, c.facets), count(tx, c.OrgID, c.ProjectID, countThreads, c.ID, -1),
			count(tx, c.OrgID, c.ProjectID, countDeleted, c.ID, 1), s.Audit(tx, "thread.delete", threadID))
	})
}

// Get gives a thread whole. One that is not there, or not seen, or deleted, is NotFound.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, threadID string) (Thread, error) {
	t, err := s.scan(s.DB.Read(ctx).Row(`SELECT `+threadColumns+`, t.user_data FROM threads t WHERE t.org_id = $1 AND t.id = $2`,
		caller.OrgID, threadID))
	if errors.Is(err, db.ErrNoRows) || err == nil && (t.Deleted || !caller.Sees(t.ProjectID)) {
		return Thread{}, errs.Missing("thread", threadID)
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

const threadColumns = `t.org_id, t.id, t.project_id, t.created_at, t.updated_at, t.deleted, t.deleted_at, t.deleted_by, t.version,
	t.metadata`

func (s *Store) scan(row db.Row) (t Thread, err error) {
	var metadata *string
	var sealed []byte
	err = row.Scan(&t.OrgID, &t.ID, &t.ProjectID, &t.CreatedAt, &t.UpdatedAt, &t.Deleted, &t.DeletedAt, &t.DeletedBy, &t.version,
		&metadata, &sealed)
	if err != nil {
		return t, err
	}
	if metadata != nil {
		t.Metadata = Metadata(*metadata)
	}
	t.UserData, err = s.open(threadData, sealed)
	return t, err
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
