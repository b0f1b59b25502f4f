package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"steward/internal/db"
	"steward/internal/page"
)

// Filter selects the evals or runs of a list. Empty fields match all.
type Filter struct {
	ProjectID, AgentID string
	// EvalID and SessionID select runs.
	EvalID, SessionID string
}

// conditions are the WHERE clause of a list and its arguments, the first of which is the
// organization.
type conditions struct {
	text string
	args []any
}

func newConditions(orgID string) *conditions {
	return &conditions{text: `org_id = $1`, args: []any{orgID}}
}

// equal adds the condition that an expression has a value, unless that is empty.
func (c *conditions) equal(expression, value string) {
	if value != "" {
		c.args = append(c.args, value)
		c.text += fmt.Sprintf(` AND %s = $%d`, expression, len(c.args))
	}
}

func evalConditions(orgID string, f Filter) *conditions {
	c := newConditions(orgID)
	c.equal(`project_id`, f.ProjectID)
	c.equal(`agent_identifier`, f.AgentID)
	return c
}

// runConditions returns the conditions of a list of runs. Filters by session or eval must read the
// index of that, since a session has few runs, and those of an eval have one project and agent.
// SQLite prefers the index of project and agent, of which more columns match, so the agent is
// hidden from it: a page of a session's runs out of 200,000 takes 0.07 ms, and 170 ms otherwise.
func runConditions(dialect db.Dialect, orgID string, f Filter) *conditions {
	agent := `agent_identifier`
	if dialect == db.SQLite && f.SessionID+f.EvalID != "" {
		agent = `+agent_identifier`
	}
	c := newConditions(orgID)
	c.equal(`session_id`, f.SessionID)
	c.equal(`eval_id`, f.EvalID)
	c.equal(`project_id`, f.ProjectID)
	c.equal(agent, f.AgentID)
	return c
}

// List returns a page of evals, newest first. It returns Invalid for a cursor of another list.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Eval], error) {
	l := list[Eval]{
		store: s, orgID: orgID, filter: f, kind: countEvals, table: `evals`,
		columns: evalColumns, scan: scanEval,
		conditions: evalConditions(orgID, f),
		cursorAt:   func(e Eval) page.Cursor { return page.NewCursor(int64(e.CreatedAt), e.ID) },
	}
	return l.page(ctx, p)
}

// Runs returns a page of runs, newest first. It returns Invalid for a cursor of another list.
func (s *Store) Runs(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Run], error) {
	f, possible, err := s.resolveAgent(ctx, orgID, f)
	if err != nil {
		return page.Page[Run]{}, fmt.Errorf("get agent of eval: %w", err)
	}
	if !possible {
		return page.Page[Run]{Paging: p}, nil
	}
	l := list[Run]{
		store: s, orgID: orgID, filter: f, kind: countRuns, table: `eval_runs`,
		columns: listedRunColumns, scan: listedRunScanner(),
		conditions: runConditions(s.DB.Dialect(), orgID, f),
		cursorAt:   func(r Run) page.Cursor { return page.NewCursor(int64(r.CreatedAt), r.ID) },
	}
	return l.page(ctx, p)
}

// resolveAgent removes the agent from a filter that also names an eval: all runs of an eval have
// its agent, so either all match or none. Otherwise a list might read all runs of an eval to find
// none. The agent stays if the eval does not exist or is being relabelled.
func (s *Store) resolveAgent(ctx context.Context, orgID string, f Filter) (_ Filter, possible bool, err error) {
	if f.EvalID == "" || f.AgentID == "" {
		return f, true, nil
	}
	var agent string
	err = s.DB.Read(ctx).Row(`SELECT e.agent_identifier FROM evals e WHERE e.org_id = $1 AND e.id = $2 AND NOT EXISTS
		(SELECT 1 FROM eval_relabels l WHERE l.org_id = $1 AND l.eval_id = $2)`, orgID, f.EvalID).Scan(&agent)
	if errors.Is(err, db.ErrNoRows) {
		return f, true, nil
	}
	if err != nil {
		return f, false, err
	}
	possible = agent == f.AgentID
	f.AgentID = ""
	return f, possible, nil
}

// list reads pages of one of the two tables.
type list[T any] struct {
	store      *Store
	orgID      string
	filter     Filter
	kind       string
	table      string
	columns    string
	scan       func(db.Row) (T, error)
	conditions *conditions
	cursorAt   func(T) page.Cursor
}

func (l list[T]) page(ctx context.Context, p page.Paging) (page.Page[T], error) {
	before, beforeID := int64(math.MaxInt64), "~" // greater than every id
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before, &beforeID); err != nil {
			return page.Page[T]{}, err
		}
		p.Offset = 0
	}
	total, counted, err := l.storedTotal(ctx)
	if err != nil {
		return page.Page[T]{}, err
	}
	if counted && total == 0 {
		return page.Page[T]{Paging: p}, nil
	}
	rows, err := l.rows(ctx, before, beforeID, p)
	if err != nil {
		return page.Page[T]{}, fmt.Errorf("list %s: %w", l.table, err)
	}
	if !counted {
		if total, err = l.total(ctx, p, len(rows)); err != nil {
			return page.Page[T]{}, fmt.Errorf("count %s: %w", l.table, err)
		}
	}
	return page.New(rows, total, p, l.cursorAt), nil
}

// rows returns the rows of a page and one more, after a position. The rows before a page deep in the
// list are skipped in the index.
func (l list[T]) rows(ctx context.Context, before int64, beforeID string, p page.Paging) ([]T, error) {
	q := l.store.DB.Read(ctx)
	offset := p.Offset
	if p.IsDeep() {
		err := q.Row(l.query(`created_at, id`), l.args(before, beforeID, 1, offset-1)...).Scan(&before, &beforeID)
		if errors.Is(err, db.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		offset = 0
	}
	return db.Collect(q, l.scan, l.query(l.columns), l.args(before, beforeID, p.Limit+1, offset)...)
}

// query returns the statement of a page.
func (l list[T]) query(columns string) string {
	n := len(l.conditions.args)
	return fmt.Sprintf(`SELECT %s FROM %s WHERE %s AND (created_at, id) < ($%d, $%d)
		ORDER BY created_at DESC, id DESC LIMIT $%d OFFSET $%d`, columns, l.table, l.conditions.text, n+1, n+2, n+3, n+4)
}

// args returns the arguments of a page: those of the conditions, the position before it, limit and
// offset.
func (l list[T]) args(before int64, beforeID string, limit, offset int) []any {
	return append(slices.Clone(l.conditions.args), before, beforeID, limit, offset)
}

// storedTotal returns the size of a list that has a stored count, and whether it has one.
func (l list[T]) storedTotal(ctx context.Context) (total int64, stored bool, err error) {
	kind, key := l.kind, ""
	f := l.filter
	switch {
	case f.SessionID != "", f.AgentID != "" && (f.EvalID != "" || kind == countEvals):
		return 0, false, nil
	case f.EvalID != "":
		kind, key = countEvalRuns, f.EvalID
	case f.AgentID != "":
		kind, key = countAgentRuns, f.AgentID
	}
	total, err = countOf(l.store.DB.Read(ctx), l.orgID, kind, key, f.ProjectID)
	return total, true, err
}

// total returns the size of a list without a stored count, of which a page was read.
func (l list[T]) total(ctx context.Context, p page.Paging, rows int) (int64, error) {
	isEnd := p.Cursor == "" && rows <= p.Limit && (rows > 0 || p.Offset == 0)
	if isEnd {
		return int64(p.Offset + rows), nil
	}
	key := countedFilter{l.kind, l.orgID, l.filter}
	if l.store.uncounted.IsLarge(key, l.store.Now()) {
		return page.Unknown, nil
	}
	var n int64
	// In the order of the list, the first of a million rows are counted as fast as those of a few.
	text := fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s ORDER BY created_at DESC, id DESC LIMIT %d) x`,
		l.table, l.conditions.text, page.MaxCounted+1)
	if err := l.store.DB.Read(ctx).Row(text, l.conditions.args...).Scan(&n); err != nil {
		return 0, err
	}
	if n > page.MaxCounted {
		l.store.uncounted.SetLarge(key, l.store.Now())
		return page.Unknown, nil
	}
	return n, nil
}

// countedFilter identifies a list.
type countedFilter struct {
	kind   string
	orgID  string
	filter Filter
}
