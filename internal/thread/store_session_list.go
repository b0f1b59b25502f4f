package thread

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/page"
)

// SessionFilter selects the sessions of a list.
type SessionFilter struct{ ProjectID, ThreadID string }

// Sessions returns a page of the sessions of an organization, the latest start first. It returns
// Invalid for a cursor of another list.
func (s *Store) Sessions(ctx context.Context, orgID string, f SessionFilter, p page.Paging) (page.Page[Session], error) {
	q := s.DB.Read(ctx)
	total, err := f.count(q, orgID)
	if err != nil {
		return page.Page[Session]{}, fmt.Errorf("count sessions: %w", err)
	}
	from := p
	if p.IsDeep() {
		from.Cursor, err = f.cursorBefore(q, orgID, p.Offset)
		if errors.Is(err, db.ErrNoRows) {
			return page.Page[Session]{Total: total, Paging: p}, nil
		}
		if err != nil {
			return page.Page[Session]{}, fmt.Errorf("find page of sessions: %w", err)
		}
	}
	text, args, err := f.query(orgID, from)
	if err != nil {
		return page.Page[Session]{}, err
	}
	rows, err := db.Collect(q, s.sessionScanner(), text, args...)
	if err != nil {
		return page.Page[Session]{}, fmt.Errorf("list sessions: %w", err)
	}
	return page.New(rows, total, p, Session.cursor), nil
}

// count returns the size of a list: that of a project from its counts, that of a thread by counting
// up to page.MaxCounted.
func (f SessionFilter) count(q db.Querier, orgID string) (int64, error) {
	if f.ThreadID == "" {
		_, _, sessions, err := projectCounts(q, orgID, f.ProjectID)
		return sessions, err
	}
	args := arguments{orgID}
	text := fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM sessions s WHERE %s
		ORDER BY s.started_at DESC, s.id DESC LIMIT %d) x`,
		f.where(&args), page.MaxCounted+1)
	var n int64
	if err := q.Row(text, args...).Scan(&n); err != nil {
		return 0, err
	}
	if n > page.MaxCounted {
		return page.Unknown, nil
	}
	return n, nil
}

func (f SessionFilter) where(args *arguments) string {
	where := `s.org_id = $1`
	if f.ProjectID != "" {
		where += ` AND s.project_id = ` + args.add(f.ProjectID)
	}
	if f.ThreadID != "" {
		where += ` AND s.thread_id = ` + args.add(f.ThreadID)
	}
	return where
}

// cursorBefore returns the cursor at which the page with an offset begins, or db.ErrNoRows. It reads
// the index only.
func (f SessionFilter) cursorBefore(q db.Querier, orgID string, offset int) (page.Cursor, error) {
	args := arguments{orgID}
	text := fmt.Sprintf(`SELECT s.started_at, s.id FROM sessions s WHERE %s
		ORDER BY s.started_at DESC, s.id DESC LIMIT 1 OFFSET %s`, f.where(&args), args.add(offset-1))
	var last Session
	err := q.Row(text, args...).Scan(&last.StartedAt, &last.ID)
	return last.cursor(), err
}

// query returns the statement of a page. A user_data over MaxListed stays in the database.
func (f SessionFilter) query(orgID string, p page.Paging) (string, []any, error) {
	args := arguments{orgID}
	where := f.where(&args)
	if p.Cursor != "" {
		var at int64
		var last string
		if err := p.Cursor.Scan(&at, &last); err != nil {
			return "", nil, err
		}
		where += fmt.Sprintf(` AND (s.started_at, s.id) < (%s, %s)`, args.add(at), args.add(last))
		p.Offset = 0
	}
	text := fmt.Sprintf(`SELECT %s, s.user_data_size,
			CASE WHEN s.user_data_size > %d THEN NULL ELSE s.user_data END
		FROM sessions s WHERE %s ORDER BY s.started_at DESC, s.id DESC LIMIT %s OFFSET %s`,
		sessionColumns, MaxListed, where, args.add(p.Limit+1), args.add(p.Offset))
	return text, args, nil
}

// sessionScanner returns a function that reads the rows of a page.
func (s *Store) sessionScanner() func(db.Row) (Session, error) {
	fields := pageFields{store: s, purpose: sessionData}
	return func(row db.Row) (Session, error) {
		var size int
		var sealed []byte
		session, err := scanSession(row, &size, &sealed)
		if err != nil {
			return Session{}, err
		}
		session.Metadata, session.MetadataOmitted = fields.metadata(session.Metadata)
		session.UserData, session.UserDataOmitted, err = fields.userData(size, sealed)
		return session, err
	}
}

func (r Session) cursor() page.Cursor { return page.NewCursor(int64(r.StartedAt), r.ID) }
