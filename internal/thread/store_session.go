package thread

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

const sessionColumns = `s.id, s.org_id, s.project_id, s.thread_id, s.deployment_id, s.route_id, s.environment,
	s.devmode, s.url, s.method, s.trigger, s.started, s.completed, s.started_at, s.completed_at, s.status_code,
	s.error, s.agent_ids, s.created_at, s.updated_at, s.version, s.metadata`

// scanSession reads sessionColumns and then more.
func scanSession(row db.Row, more ...any) (Session, error) {
	var r Session
	var project string
	var completed bool
	columns := []any{
		&r.ID, &r.OrgID, &project, &r.ThreadID, &r.DeploymentID, &r.RouteID, &r.Environment,
		&r.Devmode, &r.URL, &r.Method, &r.Trigger, &r.started, &completed, &r.StartedAt, &r.CompletedAt, &r.StatusCode,
		&r.Error, db.FromJSON(&r.AgentIDs), &r.CreatedAt, &r.UpdatedAt, &r.version, (*[]byte)(&r.Metadata),
	}
	if err := row.Scan(append(columns, more...)...); err != nil {
		return Session{}, err
	}
	r.Pending = !completed
	if project != "" {
		r.ProjectID = &project
	}
	return r, nil
}

// Session returns a session with all of its fields. It returns NotFound if there is none or if the
// caller does not see it.
func (s *Store) Session(ctx context.Context, caller *auth.Caller, sessionID string) (Session, error) {
	found, err := s.session(s.DB.Read(ctx), caller, sessionID, "")
	if errors.Is(err, db.ErrNoRows) {
		return Session{}, errs.Missing("session", sessionID)
	}
	return found, err
}

// session returns a session, or ErrNoRows. It returns NotFound if the caller does not see it. suffix
// ends the statement.
func (s *Store) session(q db.Querier, caller *auth.Caller, sessionID, suffix string) (Session, error) {
	var sealed []byte
	found, err := scanSession(q.Row(`SELECT `+sessionColumns+`, s.user_data FROM sessions s
		WHERE s.org_id = $1 AND s.id = $2`+suffix, caller.OrgID, sessionID), &sealed)
	if err != nil {
		return Session{}, fmt.Errorf("get session: %w", err)
	}
	if !caller.Sees(found.project()) {
		return Session{}, errs.Missing("session", sessionID)
	}
	found.UserData, err = s.open(sessionData, sealed)
	return found, err
}

// getOrInsert returns a session's locked row. If there is none, it inserts and returns r, and true.
func (s *Store) getOrInsert(
	tx *db.Tx, caller *auth.Caller, r Session, userData *sealedText,
) (row Session, inserted bool, err error) {
	suffix := ""
	if tx.Dialect() == db.Postgres {
		suffix = " FOR UPDATE"
	}
	for {
		found, err := s.session(tx, caller, r.ID, suffix)
		if !errors.Is(err, db.ErrNoRows) {
			return found, false, err
		}
		n, err := insertSession(tx, r, userData)
		if err != nil {
			return Session{}, false, err
		}
		if n == 1 {
			return r, true, countSessions(tx, r.OrgID, r.project(), 1)
		}
		// Another transaction has inserted it: now there is a row to lock.
	}
}

func insertSession(tx *db.Tx, r Session, userData *sealedText) (int64, error) {
	n, err := tx.Exec(`INSERT INTO sessions (org_id, id, project_id, thread_id, deployment_id, route_id, environment,
			devmode, url, method, trigger, started, completed, started_at, completed_at, status_code,
			error, agent_ids, created_at, updated_at, version, metadata, user_data_size, user_data)
		VALUES (@org_id, @id, @project_id, @thread_id, @deployment_id, @route_id, @environment, @devmode, @url,
		@method, @trigger, @started, @completed, @started_at, @completed_at, @status_code, @error, @agent_ids,
		@created_at, @updated_at, @version, @metadata, @user_data_size, @user_data)
		ON CONFLICT (org_id, id) DO NOTHING`,
		db.Args{
			"org_id": r.OrgID, "id": r.ID, "project_id": r.project(), "thread_id": r.ThreadID,
			"deployment_id": r.DeploymentID, "route_id": r.RouteID, "environment": r.Environment,
			"devmode": r.Devmode, "url": r.URL, "method": r.Method, "trigger": r.Trigger, "started": r.started,
			"completed": !r.Pending, "started_at": r.StartedAt, "completed_at": r.CompletedAt,
			"status_code": r.StatusCode, "error": r.Error, "agent_ids": encodeAgents(r.AgentIDs),
			"created_at": r.CreatedAt, "updated_at": r.UpdatedAt, "version": r.version,
			"metadata": db.Null(string(r.Metadata)), "user_data_size": userData.size(),
			"user_data": userData.sealed,
		})
	if err != nil {
		return 0, fmt.Errorf("insert session: %w", err)
	}
	return n, nil
}

func encodeAgents(ids []string) string {
	if len(ids) == 0 {
		return "[]"
	}
	text, err := encode.Value(nil, ids)
	if err != nil {
		panic(fmt.Sprintf("encode agent ids: %v", err)) // strings can always be encoded
	}
	return string(text)
}

// Start stores the start of a session. A repeated start changes nothing; one after the completion
// adds what only the start has. It returns Forbidden for a project that is not the caller's, and
// NotFound for a session that the caller does not see.
func (s *Store) Start(ctx context.Context, caller *auth.Caller, b Start) (Session, error) {
	var session Session
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Accounts.EnsureProject(tx, caller, "body.projectId", b.ProjectID); err != nil {
			return err
		}
		now := s.now()
		initial := Session{ID: b.ID, OrgID: caller.OrgID, Pending: true, AgentIDs: []string{}, CreatedAt: now}
		initial.start(b, now)
		found, inserted, err := s.getOrInsert(tx, caller, initial, &sealedText{})
		if err != nil {
			return err
		}
		session = found
		if inserted || found.started {
			return nil
		}
		session.start(b, now)
		oldProject := found.project()
		if err := tx.Send(`UPDATE sessions SET project_id = @project_id, thread_id = @thread_id,
			deployment_id = @deployment_id, route_id = @route_id, environment = @environment, devmode = @devmode,
			url = @url, method = @method, trigger = @trigger, started = @started, started_at = @started_at,
			updated_at = @updated_at, version = @version, metadata = @metadata
			WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": session.OrgID, "id": session.ID, "project_id": session.project(), "thread_id": session.ThreadID,
				"deployment_id": session.DeploymentID, "route_id": session.RouteID, "environment": session.Environment,
				"devmode": session.Devmode, "url": session.URL, "method": session.Method, "trigger": session.Trigger, "started": true,
				"started_at": session.StartedAt, "updated_at": session.UpdatedAt, "version": session.version,
				"metadata": db.Null(string(session.Metadata)),
			}); err != nil {
			return fmt.Errorf("update session: %w", err)
		}
		if oldProject == session.project() {
			return nil
		}
		if err := countSessions(tx, session.OrgID, oldProject, -1); err != nil {
			return err
		}
		return countSessions(tx, session.OrgID, session.project(), 1)
	})
	return session, err
}

func (r *Session) start(b Start, now stamp.Time) {
	r.started = true
	r.version++
	r.UpdatedAt = now
	r.StartedAt = b.Timestamp.Resolve(now)
	r.ProjectID = &b.ProjectID
	r.DeploymentID = b.DeploymentID
	r.RouteID = b.RouteID
	r.Environment = b.Environment
	r.Devmode = b.Devmode
	r.URL = b.URL
	r.Method = b.Method
	r.Trigger = b.Trigger
	if r.ThreadID == nil {
		r.ThreadID = b.ThreadID
	}
	if r.Metadata == nil {
		r.Metadata = b.Metadata
	}
}

// Complete stores the completion of a session, which may arrive before its start. The first
// completion stays. It returns NotFound for a session that the caller does not see.
func (s *Store) Complete(ctx context.Context, caller *auth.Caller, b Completion) (Session, error) {
	userData := sealText(s.Ring, sessionData, b.UserData)
	var session Session
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		projectID, err := completionProject(tx, caller, b.ThreadID)
		if err != nil {
			return err
		}
		now := s.now()
		initial := Session{ID: b.ID, OrgID: caller.OrgID, ProjectID: projectID, CreatedAt: now}
		initial.StartedAt = b.Timestamp.Resolve(now)
		initial.complete(b, now)
		found, inserted, err := s.getOrInsert(tx, caller, initial, userData)
		if err != nil {
			return err
		}
		session = found
		if inserted || !found.Pending {
			return nil
		}
		session.complete(b, now)
		if err := tx.Send(`UPDATE sessions SET thread_id = @thread_id, completed = @completed,
			completed_at = @completed_at, status_code = @status_code, error = @error, agent_ids = @agent_ids,
			updated_at = @updated_at, version = @version, metadata = @metadata, user_data_size = @user_data_size,
			user_data = @user_data WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": session.OrgID, "id": session.ID, "thread_id": session.ThreadID, "completed": true,
				"completed_at": session.CompletedAt, "status_code": session.StatusCode, "error": session.Error,
				"agent_ids": encodeAgents(session.AgentIDs), "updated_at": session.UpdatedAt, "version": session.version,
				"metadata": db.Null(string(session.Metadata)), "user_data_size": userData.size(),
				"user_data": userData.sealed,
			}); err != nil {
			return fmt.Errorf("update session: %w", err)
		}
		return nil
	})
	return session, err
}

func (r *Session) complete(b Completion, now stamp.Time) {
	at := b.Timestamp.Resolve(now)
	r.Pending = false
	r.version++
	r.UpdatedAt = now
	r.CompletedAt = &at
	r.StatusCode = &b.StatusCode
	r.Error = b.Error
	r.UserData = b.UserData
	r.AgentIDs = append([]string{}, b.AgentIDs...)
	if b.ThreadID != nil {
		r.ThreadID = b.ThreadID
	}
	if b.Metadata != nil {
		r.Metadata = b.Metadata
	}
}

// completionProject returns the project for a completion that arrives before its start: the caller's,
// the thread's, or nil.
func completionProject(tx *db.Tx, caller *auth.Caller, threadID *string) (*string, error) {
	if caller.ProjectID != "" {
		return &caller.ProjectID, nil
	}
	if threadID == nil {
		return nil, nil
	}
	var projectID string
	err := tx.Row(`SELECT project_id FROM threads WHERE org_id = $1 AND id = $2`, caller.OrgID, *threadID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get project of thread: %w", err)
	}
	return &projectID, nil
}

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
