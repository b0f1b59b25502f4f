package eval

import (
	"context"
	"fmt"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/list"
	"steward/internal/period"
	"steward/internal/stamp"
)

// Stats has the results of the runs that were started in each bucket of a period, including buckets
// without runs.
type Stats struct {
	_ struct{} `goName:"EvalRunStats"`

	Period period.Period `json:"period"`
	Series []StatsBucket `json:"series"`
}

// StatsBucket is one point of a series.
type StatsBucket struct {
	_ struct{} `goName:"EvalRunCounts"`

	Timestamp stamp.Time `json:"timestamp" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	Runs      int64      `json:"runs" doc:"Runs that were started" example:"120"`
	Passed    int64      `json:"passed" example:"110"`
	Failed    int64      `json:"failed" example:"8"`
	Pending   int64      `json:"pending" doc:"Runs that have not ended" example:"2"`
}

// StatsInput is the query of the results over time.
type StatsInput struct {
	ProjectID string `query:"projectId" doc:"Count only those of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	EvalID    string `query:"evalId" doc:"Count only those of this evaluation" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	AgentID   string `query:"agentId" doc:"Count only those whose evaluation has this agentIdentifier" example:"agent_support"`
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
	return s, h.Store.count(ctx, caller.OrgID, f, buckets, s.Series)
}

func emptySeries(r period.Range) []StatsBucket {
	series := make([]StatsBucket, r.Len())
	for i := range series {
		series[i].Timestamp = r.Start(int64(i))
	}
	return series
}

// count adds the runs of a filter to the series of a range.
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

// statsQuery returns the statement that counts runs: all from the index of their filter, those that
// failed and are pending from eval_runs_unsuccessful. Each bucket is a range of these, so that nothing
// is sorted, and nothing is read but the indexes.
func statsQuery(dialect db.Dialect, orgID string, f Filter, r period.Range) (text string, args []any) {
	start, unit := int64(r.Start(0)), r.Unit*1_000_000
	count := func(conditions list.Conditions) list.SQL {
		return list.Text(`(SELECT count(*) FROM eval_runs WHERE ? AND created_at >= ? + b.n * ? AND created_at < ? + (b.n + 1) * ?)`,
			conditions, start, unit, start, unit)
	}
	unsuccessful := unsuccessfulRuns(dialect, orgID, f)
	failed := append(slices.Clone(unsuccessful), list.Where(`pending = false`)...)
	pending := append(slices.Clone(unsuccessful), list.Where(`pending = true`)...)
	return list.Text(`WITH RECURSIVE b(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM b WHERE n + 1 < ?)
		SELECT b.n, ?, ?, ? FROM b`, r.Len(), count(runList(dialect, orgID, f).Where), count(failed), count(pending)).Statement()
}

// unsuccessfulRuns returns the conditions of the runs of a filter without success. They hide the filter
// from SQLite, which would prefer an index of which more columns match, and then read the rows.
func unsuccessfulRuns(dialect db.Dialect, orgID string, f Filter) list.Conditions {
	hide := ""
	if dialect == db.SQLite {
		hide = "+"
	}
	where := list.Where(`org_id = ?`, orgID)
	where.Equal(hide+`eval_id`, f.EvalID)
	where.Equal(hide+`project_id`, f.ProjectID)
	where.Equal(hide+`agent_identifier`, f.AgentID)
	where.Add(`NOT success`)
	return where
}
