package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

const sessionColumns = `s.id, s.org_id, s.project_id, s.thread_id, s.deployment_id, s.route_id, s.environment, s.devmode, s.url, s.method,
	s.trigger, s.started, s.completed, s.started_at, s.completed_at, s.status_code, s.error, s.agent_ids, s.created_at, s.updated_at,
	s.version, s.metadata`

// storedSession is a row of sessionColumns.
type storedSession struct {
	Session
	project, agents string
	completed       bool
}

func (r *storedSession) columns() []any {
	return []any{
		&r.ID, &r.OrgID, &r.project, &r.ThreadID, &r.DeploymentID, &r.RouteID, &r.Environment, &r.Devmode, &r.URL, &r.Method, &r.Trigger,
		&r.started, &r.completed, &r.StartedAt, &r.CompletedAt, &r.StatusCode, &r.Error, &r.agents, &r.CreatedAt, &r.UpdatedAt, &r.version,
		(*[]byte)(&r.Metadata),
	}
}

// read gives all but the user_data.
func (r *storedSession) read() (Session, error) {
	out := r.Session
	out.Pending = !r.completed
	if project := r.project; project != "" {
		out.ProjectID = &project
	}
	return out, json.Unmarshal([]byte(r.agents), &out.AgentIDs)
}

// session gives a row, locked where that is asked for, or ErrNoRows. One that the caller does not see is NotFound.
func (s *Store) session(q db.Querier, caller *auth.Caller, sessionID, suffix string) (Session, error) {
	var row storedSession
	var sealed []byte
	if err := q.Row(`SELECT `+sessionColumns+`, s.user_data FROM sessions s WHERE s.org_id = $1 AND s.id = $2`+suffix,
		caller.OrgID, sessionID).Scan(append(row.columns(), &sealed)...); err != nil {
		return Session{}, err
	}
	if !caller.Sees(row.project) {
		return Session{}, errs.Missing("session", sessionID)
	}
	found, err := row.read()
	if err == nil {
		found.UserData, err = s.open(sessionData, sealed)
	}
	return found, err
}

// Session gives one session. One that is not there, or not seen, is NotFound.
func (s *Store) Session(ctx context.Context, caller *auth.Caller, sessionID string) (Session, error) {
	found, err := s.session(s.DB.Read(ctx), caller, sessionID, "")
	if errors.Is(err, db.ErrNoRows) {
		err = errs.Missing("session", sessionID)
	}
	return found, err
}

// upsert gives the row of a session, locked, after `fresh` has been inserted if there was none. made tells which.
func (s *Store) upsert(tx *db.Tx, caller *auth.Caller, fresh Session, data *sealedText) (row Session, made bool, err error) {
	suffix := ""
	if tx.Dialect() == db.Postgres {
		suffix = " FOR UPDATE"
	}
	for {
		row, err = s.session(tx, caller, fresh.ID, suffix)
		if !errors.Is(err, db.ErrNoRows) {
			return row, false, err
		}
		n, err := insertSession(tx, fresh, data)
		if err != nil {
			return fresh, false, err
		}
		if n == 1 {
			return fresh, true, s.count(tx, fresh.OrgID, fresh.project(), countSessions, 1)
		}
	}
}

func insertSession(tx *db.Tx, r Session, data *sealedText) (int64, error) {
	return tx.Exec(`INSERT INTO sessions (org_id, id, project_id, thread_id, deployment_id, route_id, environment, devmode, url, method,
		trigger, started, completed, started_at, completed_at, status_code, error, agent_ids, created_at, updated_at, version, metadata,
		user_data_size, user_data)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
		ON CONFLICT (org_id, id) DO NOTHING`,
		r.OrgID, r.ID, r.project(), r.ThreadID, r.DeploymentID, r.RouteID, r.Environment, r.Devmode, r.URL, r.Method,
		r.Trigger, r.started, !r.Pending, r.StartedAt, r.CompletedAt, r.StatusCode, r.Error, agentText(r.AgentIDs), r.CreatedAt, r.UpdatedAt,
		r.version, nullText(r.Metadata), data.size(), nullBytes(data.sealed))
}

func agentText(ids []string) string {
	if len(ids) == 0 {
		return "[]"
	}
	text, err := encodeJSON(ids)
	if err != nil {
		panic(fmt.Sprintf("agent ids: %v", err)) // strings can always be encoded
	}
	return string(text)
}

// Start records that a session began. A repeat changes nothing; a start after the completion adds what only the start knows. Errors are
// Invalid, Forbidden for another project than the caller's, NotFound for a session that the caller does not see.
func (s *Store) Start(ctx context.Context, caller *auth.Caller, b Start) (out Session, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Project(tx, caller, "body.projectId", b.ProjectID); err != nil {
			return err
		}
		now := s.now()
		fresh := Session{ID: b.ID, OrgID: caller.OrgID, Pending: true, AgentIDs: []string{}, CreatedAt: now}
		fresh.begin(b, now)
		row, made, err := s.upsert(tx, caller, fresh, &sealedText{})
		out = row
		if err != nil || made || row.started {
			return err
		}
		out.begin(b, now)
		return s.writeStart(tx, row, out)
	})
	return out, err
}

// begin fills in what a start tells.
func (r *Session) begin(b Start, now stamp.Time) {
	r.started = true
	r.version++
	r.UpdatedAt = now
	r.ProjectID, r.DeploymentID, r.RouteID, r.Environment, r.Devmode = &b.ProjectID, b.DeploymentID, b.RouteID, b.Environment, b.Devmode
	r.URL, r.Method, r.Trigger, r.StartedAt = b.URL, b.Method, b.Trigger, b.Timestamp.within(now)
	if r.ThreadID == nil {
		r.ThreadID = b.ThreadID
	}
	if r.Metadata == nil {
		r.Metadata = b.Metadata
	}
}

func (s *Store) writeStart(tx *db.Tx, before, r Session) error {
	err := tx.Send(`UPDATE sessions SET project_id = $3, thread_id = $4, deployment_id = $5, route_id = $6, environment = $7, devmode = $8,
		url = $9, method = $10, trigger = $11, started = $12, started_at = $13, updated_at = $14, version = $15, metadata = $16
		WHERE org_id = $1 AND id = $2`, r.OrgID, r.ID, r.project(), r.ThreadID, r.DeploymentID, r.RouteID, r.Environment, r.Devmode,
		r.URL, r.Method, r.Trigger, true, r.StartedAt, r.UpdatedAt, r.version, nullText(r.Metadata))
	if err != nil || before.project() == r.project() {
		return err
	}
	counts := tally{}
	counts.add(r.OrgID, before.project(), countSessions, -1)
	counts.add(r.OrgID, r.project(), countSessions, 1)
	return s.addCounts(tx, counts)
}

// Complete records how a session ended, also before its start is known. Of two completions the first one stays. Errors are Invalid, and
// NotFound for a session that the caller does not see.
func (s *Store) Complete(ctx context.Context, caller *auth.Caller, b Completion) (out Session, err error) {
	data := sealText(s.Ring, sessionData, b.UserData)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		now := s.now()
		fresh := Session{ID: b.ID, OrgID: caller.OrgID, StartedAt: b.Timestamp.within(now), CreatedAt: now}
		if fresh.ProjectID, err = s.projectOf(tx, caller, b.ThreadID); err != nil {
			return err
		}
		fresh.end(b, now)
		row, made, err := s.upsert(tx, caller, fresh, data)
		out = row
		if err != nil || made || !row.Pending {
			return err
		}
		out.end(b, now)
		return tx.Send(`UPDATE sessions SET thread_id = $3, completed = $4, completed_at = $5, status_code = $6, error = $7, agent_ids = $8,
			updated_at = $9, version = $10, metadata = $11, user_data_size = $12, user_data = $13 WHERE org_id = $1 AND id = $2`,
			out.OrgID, out.ID, out.ThreadID, true, out.CompletedAt, out.StatusCode, out.Error, agentText(out.AgentIDs),
			out.UpdatedAt, out.version, nullText(out.Metadata), data.size(), nullBytes(data.sealed))
	})
	return out, err
}

// end fills in what a completion tells.
func (r *Session) end(b Completion, now stamp.Time) {
	at := b.Timestamp.within(now)
	r.Pending = false
	r.version++
	r.UpdatedAt, r.CompletedAt = now, &at
	r.StatusCode, r.Error, r.UserData = &b.StatusCode, b.Error, b.UserData
	r.AgentIDs = append([]string{}, b.AgentIDs...)
	if b.ThreadID != nil {
		r.ThreadID = b.ThreadID
	}
	if b.Metadata != nil {
		r.Metadata = b.Metadata
	}
}

// projectOf gives the project of a completion that comes before its start: the caller's, or the thread's, or nil.
func (s *Store) projectOf(tx *db.Tx, caller *auth.Caller, threadID *string) (*string, error) {
	if caller.ProjectID != "" {
		return &caller.ProjectID, nil
	}
	if threadID == nil {
		return nil, nil
	}
	var project string
	err := tx.Row(`SELECT project_id FROM threads WHERE org_id = $1 AND id = $2`, caller.OrgID, *threadID).Scan(&project)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return &project, err
}

// SessionFilter narrows a list of sessions.
type SessionFilter struct{ ProjectID, ThreadID string }

// Sessions gives a page of the sessions of an organization, the latest start first. A wrong cursor is Invalid.
func (s *Store) Sessions(ctx context.Context, orgID string, f SessionFilter, p page.Paging) (page.Page[Session], error) {
	q := s.DB.Read(ctx)
	where, args := f.where(orgID)
	n, err := s.countSessions(q, orgID, f, where, args)
	if err != nil {
		return page.Page[Session]{}, err
	}
	if p.Cursor != "" {
		var at int64
		var last string
		if err := p.Cursor.Scan(&at, &last); err != nil {
			return page.Page[Session]{}, err
		}
		p.Offset = 0
		args = append(args, at, last)
		where += fmt.Sprintf(` AND (s.started_at, s.id) < ($%d, $%d)`, len(args)-1, len(args))
	}
	args = append(args, p.Limit+1, p.Offset)
	text := fmt.Sprintf(`SELECT `+sessionColumns+`, CASE WHEN s.user_data_size > %d THEN NULL ELSE s.user_data END
		FROM sessions s`+where+` ORDER BY s.started_at DESC, s.id DESC LIMIT $%d OFFSET $%d`, MaxListed, len(args)-1, len(args))
	o := opener{ring: s.Ring, purpose: sessionData}
	rows, cut, err := collect(db.Each(q, (*listedSession).columns, text, args...), p.Room(n), func(r *listedSession) (Session, int, error) {
		one, err := r.read()
		if err == nil {
			one.UserData, err = o.open(r.sealed)
		}
		return one, weight(one.UserData, one.Metadata), err
	})
	if err != nil {
		return page.Page[Session]{}, err
	}
	result := page.New(rows, n, p, Session.cursor)
	if cut && len(rows) <= p.Limit {
		result.Next = rows[len(rows)-1].cursor()
	}
	return result, nil
}

// listedSession is a row of a list, which leaves out a large user_data.
type listedSession struct {
	storedSession
	sealed []byte
}

func (r *listedSession) columns() []any { return append(r.storedSession.columns(), &r.sealed) }

func (r Session) cursor() page.Cursor { return page.NewCursor(int64(r.StartedAt), r.ID) }

func (f SessionFilter) where(orgID string) (string, []any) {
	where, args := ` WHERE s.org_id = $1`, []any{orgID}
	if f.ProjectID != "" {
		args = append(args, f.ProjectID)
		where += fmt.Sprintf(` AND s.project_id = $%d`, len(args))
	}
	if f.ThreadID != "" {
		args = append(args, f.ThreadID)
		where += fmt.Sprintf(` AND s.thread_id = $%d`, len(args))
	}
	return where, args
}

// countSessions gives the size of a list: from the totals, and for a thread by counting up to page.MaxCounted; beyond it is Unknown.
func (s *Store) countSessions(q db.Querier, orgID string, f SessionFilter, where string, args []any) (n int64, err error) {
	if f.ThreadID == "" {
		return total(q, orgID, f.ProjectID, countSessions)
	}
	err = q.Row(fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM sessions s`+where+` LIMIT %d) x`, page.MaxCounted+1), args...).Scan(&n)
	if n > page.MaxCounted {
		n = page.Unknown
	}
	return n, err
}
