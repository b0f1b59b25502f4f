package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/page"
)

// Filter narrows a list; empty fields do not.
type Filter struct {
	ProjectID, AgentID string
	// EvalID and SessionID are for runs alone.
	EvalID, SessionID string
}

// query gathers conditions and their arguments; the first is always the organization.
type query struct {
	dialect db.Dialect
	where   strings.Builder
	args    []any
}

func (s *Store) newQuery(orgID string) *query {
	q := &query{dialect: s.DB.Dialect(), args: []any{orgID}}
	q.where.WriteString(`org_id = $1`)
	return q
}

// with adds the condition that a column has a value, unless that is empty.
func (q *query) with(column, value string) {
	if value != "" {
		fmt.Fprintf(&q.where, ` AND %s = %s`, column, q.arg(value))
	}
}

// among is with for a column that is to be checked on the few rows which the index of another one gives. SQLite does not know how often
// a value occurs and would as soon take the index that gives a million rows, so it must not see that there is one. PostgreSQL knows.
func (q *query) among(column, value string) {
	if q.dialect == db.SQLite {
		column += ` || ''`
	}
	q.with(column, value)
}

func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

// runQuery puts the conditions so that one index serves them and the order. A session has few runs, so everything else is checked on
// those; so are the project and the agent of an eval's runs, which hardly differ: an eval has one of each.
func (s *Store) runQuery(orgID string, f Filter) *query {
	q := s.newQuery(orgID)
	switch {
	case f.SessionID != "":
		q.with(`session_id`, f.SessionID)
		q.among(`eval_id`, f.EvalID)
		q.among(`project_id`, f.ProjectID)
		q.among(`agent_identifier`, f.AgentID)
	case f.EvalID != "":
		q.with(`eval_id`, f.EvalID)
		q.among(`project_id`, f.ProjectID)
		q.among(`agent_identifier`, f.AgentID)
	default:
		q.with(`project_id`, f.ProjectID)
		q.with(`agent_identifier`, f.AgentID)
	}
	return q
}

// List gives a page of evals, newest first.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Eval], error) {
	q := s.newQuery(orgID)
	q.with(`project_id`, f.ProjectID)
	q.with(`agent_identifier`, f.AgentID)
	l := lister[Eval]{
		s: s, orgID: orgID, what: evals, table: `evals`, columns: evalColumns, dest: (*Eval).columns,
		at: func(e Eval) page.Cursor { return page.NewCursor(int64(e.CreatedAt), e.ID) },
	}
	return l.page(ctx, q, f, p)
}

// Runs gives a page of runs, newest first.
func (s *Store) Runs(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Run], error) {
	f, possible, err := s.settled(ctx, orgID, f)
	if err != nil || !possible {
		return page.Page[Run]{Paging: p}, err
	}
	l := lister[Run]{
		s: s, orgID: orgID, what: runs, table: `eval_runs`, columns: listedColumns, dest: (*Run).columns,
		at: func(r Run) page.Cursor { return page.NewCursor(int64(r.CreatedAt), r.ID) },
	}
	result, err := l.page(ctx, s.runQuery(orgID, f), f, p)
	for i := range result.Items {
		result.Items[i].Truncated = result.Items[i].size > maxListed
	}
	return result, err
}

// settled takes the agent out of a filter that also names an eval: all runs of an eval have its agent, or else no run matches. Otherwise
// all of an eval's runs, maybe millions, might be looked through in vain. That is left for evals which are not known (any more), and for
// those whose runs are being labelled.
func (s *Store) settled(ctx context.Context, orgID string, f Filter) (_ Filter, possible bool, err error) {
	if f.EvalID == "" || f.AgentID == "" {
		return f, true, nil
	}
	var agent string
	err = s.DB.Read(ctx).Row(`SELECT e.agent_identifier FROM evals e WHERE e.org_id = $1 AND e.id = $2 AND NOT EXISTS
		(SELECT 1 FROM eval_relabels l WHERE l.org_id = $1 AND l.eval_id = $2)`, orgID, f.EvalID).Scan(&agent)
	if errors.Is(err, db.ErrNoRows) {
		return f, true, nil
	}
	possible = agent == f.AgentID
	f.AgentID = ""
	return f, possible, err
}

// lister reads pages of one of the two tables.
type lister[T any] struct {
	s       *Store
	orgID   string
	what    what
	table   string
	columns string
	dest    func(*T) []any // where they go
	at      func(T) page.Cursor
}

func (l lister[T]) page(ctx context.Context, q *query, f Filter, p page.Paging) (page.Page[T], error) {
	before, beforeID := int64(math.MaxInt64), "~" // sorts after every id
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before, &beforeID); err != nil {
			return page.Page[T]{}, err
		}
		p.Offset = 0
	}
	total, counted, err := l.counted(ctx, f)
	if err != nil || counted && total == 0 {
		return page.Page[T]{Paging: p}, err
	}
	args := append(slices.Clone(q.args), before, beforeID, p.Limit+1, p.Offset)
	rows := make([]T, 0, p.Room(total)) // none where it was not counted: those lists are short
	for row, err := range db.Each(l.s.DB.Read(ctx), l.dest, l.text(q), args...) {
		if err != nil {
			return page.Page[T]{}, err
		}
		rows = append(rows, *row)
	}
	switch {
	case counted:
	case p.Cursor != "" || len(rows) > p.Limit || len(rows) == 0 && p.Offset > 0:
		total, err = l.count(ctx, q, f)
	default: // the page shows where the list ends
		total = int64(p.Offset + len(rows))
	}
	return page.New(rows, total, p, l.at), err
}

// text is the statement of a page; its last four arguments are the place to go on from, limit and offset.
func (l lister[T]) text(q *query) string {
	n := len(q.args)
	return fmt.Sprintf(`SELECT %s FROM %s WHERE %s AND (created_at, id) < ($%d, $%d) ORDER BY created_at DESC, id DESC LIMIT $%d OFFSET $%d`,
		l.columns, l.table, q.where.String(), n+1, n+2, n+3, n+4)
}

// counted gives the size of a list whose count is kept.
func (l lister[T]) counted(ctx context.Context, f Filter) (n int64, kept bool, err error) {
	what, key := l.what, ""
	switch {
	case f.SessionID != "", f.AgentID != "" && (f.EvalID != "" || what == evals):
		return 0, false, nil
	case f.EvalID != "":
		what, key = runsOfEval, f.EvalID
	case f.AgentID != "":
		what, key = runsOfAgent, f.AgentID
	}
	q := &query{args: []any{l.orgID, string(what), key}}
	q.where.WriteString(`org_id = $1 AND what = $2 AND key = $3`)
	q.with(`project_id`, f.ProjectID)
	err = l.s.DB.Read(ctx).Row(`SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM eval_counts WHERE `+q.where.String(), q.args...).Scan(&n)
	return n, true, err
}

// count counts the rows of another list, if they are not too many.
func (l lister[T]) count(ctx context.Context, q *query, f Filter) (n int64, err error) {
	key := many{l.what, l.orgID, f}
	if l.s.crowds.Has(key, l.s.Now()) {
		return page.Unknown, nil
	}
	err = l.s.DB.Read(ctx).Row(fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s LIMIT %d) x`, l.table, q.where.String(),
		page.MaxCounted+1), q.args...).Scan(&n)
	if n > page.MaxCounted {
		l.s.crowds.Note(key, l.s.Now())
		n = page.Unknown
	}
	return n, err
}

// many names a filter of a list.
type many struct {
	what  what
	orgID string
	f     Filter
}
