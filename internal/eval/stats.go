package eval

import (
	"context"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/list"
	"steward/internal/period"
	"steward/internal/stamp"
)

// Stats counts the runs that started in each bucket of a period, including buckets without runs.
type Stats struct {
	_ struct{} `goName:"EvalRunStats"`

	Period period.Period `json:"period"`
	Series []StatsBucket `json:"series"`
	Groups []StatsGroup  `json:"groups,omitempty" doc:"With by: the four with the most runs in the period, and their results"`
}

// maxGroups caps the groups in a response.
const maxGroups = 4

// StatsGroup counts the runs of one eval or agent.
type StatsGroup struct {
	_ struct{} `goName:"EvalRunGroup"`

	ID     *string       `json:"id" doc:"Id of the evaluation, or identifier of the agent; null for runs without an agent" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	Name   string        `json:"name" doc:"Name of the evaluation, its identifier if it was never registered, or the agent" example:"Politeness"`
	Series []StatsBucket `json:"series"`
}

// StatsBucket is one point in a series.
type StatsBucket struct {
	_ struct{} `goName:"EvalRunCounts"`

	Timestamp stamp.Time `json:"timestamp" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	Runs      int64      `json:"runs" doc:"Runs that were started" example:"120"`
	Passed    int64      `json:"passed" doc:"Runs that passed: by passed of their result, or by success where it has none" example:"110"`
	Failed    int64      `json:"failed" doc:"Runs that ended and did not pass" example:"8"`
	Pending   int64      `json:"pending" doc:"Runs that have not ended" example:"2"`
}

// StatsInput has the query parameters for Stats.
type StatsInput struct {
	ProjectID string `query:"projectId" doc:"Count only those of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	EvalID    string `query:"evalId" doc:"Count only those of this evaluation" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	AgentID   string `query:"agentId" doc:"Count only those whose evaluation has this agentIdentifier" example:"agent_support"`
	By        string `query:"by" enum:"eval,agent" doc:"Also return the results of each evaluation or agent"`
	period.Query
}

// Stats serves GET /cli/eval-run/stats.
func (h *Handler) Stats(ctx context.Context, in *StatsInput) (Stats, error) {
	caller := auth.From(ctx)
	span, err := in.Span(h.Store.Now())
	if err != nil {
		return Stats{}, err
	}
	buckets := span.Buckets()
	s := Stats{Period: span.Period(buckets), Series: emptySeries(buckets)}
	f := Filter{ProjectID: in.ProjectID, EvalID: in.EvalID, AgentID: in.AgentID}
	if !f.confine(caller, "") {
		return s, nil
	}
	if err := h.Store.count(ctx, caller.OrgID, f, buckets, s.Series); err != nil || in.By == "" {
		return s, err
	}
	s.Groups, err = h.Store.groups(ctx, caller.OrgID, f, buckets, in.By)
	return s, err
}

// groups counts the runs of the evals or agents that have most of them in a range.
func (s *Store) groups(ctx context.Context, orgID string, f Filter, r period.Range, by string) ([]StatsGroup, error) {
	q := s.DB.Read(ctx)
	all := f
	all.Since, all.Until = new(r.Start(0)), new(r.Start(r.Len()))
	key := `eval_id`
	name := list.Text(`(SELECT coalesce(r.eval_name, r.eval_identifier, r.eval_id) FROM eval_runs r
		WHERE r.org_id = ? AND r.eval_id = g.key ORDER BY r.created_at DESC, r.id DESC LIMIT 1)`, orgID)
	if by == "agent" {
		key = `agent_identifier`
		name = list.Text(`coalesce(g.key, 'no agent')`)
	}
	text, args := list.Text(`SELECT g.key, ? FROM (SELECT `+key+` AS key, count(*) AS n FROM eval_runs WHERE ?
		GROUP BY `+key+` ORDER BY n DESC, key LIMIT ?) g ORDER BY g.n DESC, g.key`,
		name, all.runs(q.Dialect(), orgID), maxGroups).Statement()
	groups, err := db.Collect(q, func(row db.Row) (g StatsGroup, err error) {
		g.Series = emptySeries(r)
		return g, row.Scan(&g.ID, &g.Name)
	}, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list groups of runs: %w", err)
	}
	for _, g := range groups {
		one := f
		switch {
		case by == "eval":
			one.EvalID = *g.ID
		case g.ID == nil:
			one.noAgent = true
		default:
			one.AgentID = *g.ID
		}
		if err := s.count(ctx, orgID, one, r, g.Series); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

func emptySeries(r period.Range) []StatsBucket {
	series := make([]StatsBucket, r.Len())
	for i := range series {
		series[i].Timestamp = r.Start(int64(i))
	}
	return series
}

func (s *Store) count(ctx context.Context, orgID string, f Filter, r period.Range, series []StatsBucket) error {
	f, possible, err := s.resolveAgent(ctx, orgID, f)
	if err != nil {
		return fmt.Errorf("get agent of eval: %w", err)
	}
	if !possible {
		return nil
	}
	text, args := statsQuery(s.DB.Dialect(), orgID, f, r)
	type counted struct {
		n int64
		StatsBucket
	}
	all, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (c counted, err error) {
		return c, row.Scan(&c.n, &c.Runs, &c.Failed, &c.Pending)
	}, text, args...)
	if err != nil {
		return fmt.Errorf("count runs: %w", err)
	}
	for _, c := range all {
		c.Timestamp = series[c.n].Timestamp
		c.Passed = c.Runs - c.Failed - c.Pending
		series[c.n] = c.StatsBucket
	}
	return nil
}

// statsQuery returns the statement that counts runs: all of them in their filter's index, failed ones
// in eval_runs_failed, and pending ones in eval_runs_unsuccessful. Each bucket is a range there, so
// that the database sorts nothing.
func statsQuery(dialect db.Dialect, orgID string, f Filter, r period.Range) (text string, args []any) {
	start, unit := int64(r.Start(0)), r.Unit*1_000_000
	count := func(f Filter) list.SQL {
		return list.Text(`(SELECT count(*) FROM eval_runs WHERE ? AND created_at >= ? + b.n * ? AND created_at < ? + (b.n + 1) * ?)`,
			f.runs(dialect, orgID), start, unit, start, unit)
	}
	failed, pending := f, f
	failed.Passed = new(bool)
	pending.pending = true
	return list.Text(`WITH RECURSIVE b(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM b WHERE n + 1 < ?)
		SELECT b.n, ?, ?, ? FROM b`, r.Len(), count(f), count(failed), count(pending)).Statement()
}

// LastRuns counts an organization's or eval's runs since a time that have ended, and how many of them
// passed. It looks at the last runs only, up to a limit.
func (s *Store) LastRuns(ctx context.Context, orgID, evalID string, since stamp.Time, limit int64) (ended, passed int64, err error) {
	f := Filter{EvalID: evalID, Since: &since}
	text, args := list.Text(`SELECT count(*), CAST(COALESCE(SUM(CASE WHEN passed = false THEN 0 ELSE 1 END), 0) AS BIGINT)
		FROM (SELECT pending, COALESCE(passed, success) AS passed FROM eval_runs WHERE ?
		ORDER BY created_at DESC, id DESC LIMIT ?) AS latest WHERE pending = false`,
		f.runs(s.DB.Dialect(), orgID), limit).Statement()
	if err := s.DB.Read(ctx).Row(text, args...).Scan(&ended, &passed); err != nil {
		return 0, 0, fmt.Errorf("count last runs: %w", err)
	}
	return ended, passed, nil
}
