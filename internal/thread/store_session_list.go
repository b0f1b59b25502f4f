package thread

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

// SessionFilter selects sessions for a list.
type SessionFilter struct{ ProjectID, ThreadID string }

// Sessions returns a page of an organization's sessions, the latest start first. It returns Invalid for
// another list's cursor.
func (s *Store) Sessions(ctx context.Context, orgID string, f SessionFilter, p page.Paging) (page.Page[Session], error) {
	q := s.DB.Read(ctx)
	if f.ThreadID != "" {
		return s.sessions(orgID, f).CountedPage(q, p, &s.large, s.Now())
	}
	_, _, total, err := projectCounts(q, orgID, f.ProjectID)
	if err != nil {
		return page.Page[Session]{}, fmt.Errorf("count sessions: %w", err)
	}
	return s.sessions(orgID, f).Page(q, p, total)
}

// listedSessions has the columns for a page. A user_data over MaxListed stays in the database.
var listedSessions = fmt.Sprintf(sessionColumns+`, s.user_data_size,
	CASE WHEN s.user_data_size > %d THEN NULL ELSE s.user_data END`, MaxListed)

func (s *Store) sessions(orgID string, f SessionFilter) list.Query[Session] {
	where := list.Where(`s.org_id = ?`, orgID)
	where.Equal(`s.project_id`, f.ProjectID)
	where.Equal(`s.thread_id`, f.ThreadID)
	return list.Query[Session]{
		Name: "sessions", From: list.Text(`sessions s`), Where: where, Columns: listedSessions, Scan: s.sessionScanner(),
		Order: list.ByTime(`s.started_at`, `s.id`, func(r Session) (stamp.Time, string) { return r.StartedAt, r.ID }),
	}
}

// sessionScanner returns a function that reads a page's rows.
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
