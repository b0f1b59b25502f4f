package eval

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/period"
)

// stats gets a series as somebody, and returns the sums of its buckets.
func (f *fixture) stats(who string, query url.Values) (s Stats, sum StatsBucket) {
	f.Helper()
	rec := f.send(who, "GET", "/cli/eval-run/stats?"+query.Encode(), nil)
	if rec.Code != 200 {
		f.Fatalf("%v: %d %s", query, rec.Code, rec.Body)
	}
	f.must(json.Unmarshal(rec.Body.Bytes(), &s))
	for _, b := range s.Series {
		if b.Runs != b.Passed+b.Failed+b.Pending {
			f.Errorf("%+v", b)
		}
		sum.Runs += b.Runs
		sum.Passed += b.Passed
		sum.Failed += b.Failed
		sum.Pending += b.Pending
	}
	return s, sum
}

// TestStatsCountRunsByResult has runs of two evals, projects and agents with all results.
func TestStatsCountRunsByResult(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for eval, project := range map[string]string{"e1": "red", "e2": "green"} {
			if rec := f.send("ada", "PUT", "/cli/eval/"+eval, map[string]any{
				"name": eval, "agentIdentifier": "agent-" + eval, "projectId": project,
			}); rec.Code != 200 {
				t.Fatal(rec.Body)
			}
		}
		first := f.now
		for i, r := range []struct{ id, eval, project, result string }{
			{"a", "e1", "red", `{"success":true,"score":0.1}`},
			{"b", "e1", "red", `{"success":true,"passed":false,"score":0.9}`},
			{"c", "e1", "red", ""},
			{"d", "e2", "green", `{"success":true,"passed":true}`},
			{"e", "e2", "green", `{"success":true}`},
		} {
			f.now = first.Add(time.Duration(i) * 90 * time.Minute)
			body := map[string]any{"id": r.id, "sessionId": "s", "evalId": r.eval, "orgId": "org_a", "projectId": r.project}
			if rec := f.send("ada", "POST", "/evalrun", body); rec.Code != 201 {
				t.Fatal(rec.Body)
			}
			if r.result == "" {
				continue
			}
			done := map[string]any{"id": r.id, "result": json.RawMessage(r.result)}
			if rec := f.send("ada", "PUT", "/evalrun", done); rec.Code != 200 {
				t.Fatal(rec.Body)
			}
		}
		f.now = f.now.Add(time.Minute)
		s, _ := f.stats("ada", url.Values{"start": {"2026-11-15T12:00:00Z"}, "end": {"2026-11-15T18:00:00Z"}, "granularity": {"hour"}})
		if len(s.Series) != 6 || s.Series[0].Passed != 1 || s.Series[1].Failed != 1 || s.Series[2].Runs != 0 || s.Series[3].Pending != 1 ||
			s.Series[1].Timestamp.String() != "2026-11-15T13:00:00.000Z" || s.Period.Granularity != period.Hour ||
			s.Period.End.String() != "2026-11-15T18:00:00.000Z" {
			t.Errorf("%+v", s)
		}
		all := StatsBucket{Runs: 5, Passed: 3, Failed: 1, Pending: 1}
		one := StatsBucket{Runs: 3, Passed: 1, Failed: 1, Pending: 1}
		two := StatsBucket{Runs: 2, Passed: 2}
		for _, c := range []struct {
			who   string
			query url.Values
			want  StatsBucket
		}{
			{"ada", nil, all},
			{"ada", url.Values{"granularity": {"day"}}, all},
			{"ada", url.Values{"evalId": {"e1"}}, one},
			{"ada", url.Values{"projectId": {"green"}}, two},
			{"ada", url.Values{"agentId": {"agent-e1"}}, one},
			{"ada", url.Values{"agentId": {"agent-e1"}, "projectId": {"red"}}, one},
			{"ada", url.Values{"agentId": {"agent-e1"}, "evalId": {"e1"}, "projectId": {"red"}}, one},
			{"ada", url.Values{"agentId": {"agent-e1"}, "evalId": {"e2"}}, StatsBucket{}},
			{"ada", url.Values{"evalId": {"unknown"}}, StatsBucket{}},
			{"red", nil, one},
			{"red", url.Values{"projectId": {"green"}}, StatsBucket{}},
			{"bob", nil, StatsBucket{}},
			{"bob", url.Values{"evalId": {"e1"}}, StatsBucket{}},
			{"ada", url.Values{"end": {"2026-11-15T13:00:00Z"}}, StatsBucket{Runs: 1, Passed: 1}},
		} {
			if _, sum := f.stats(c.who, c.query); sum != c.want {
				t.Errorf("%s %v: %+v, want %+v", c.who, c.query, sum, c.want)
			}
		}
		for _, bad := range []string{"granularity=week", "start=now", "start=2026-11-08T00:00:00Z&granularity=minute", "start=2027-01-01"} {
			if rec := f.send("ada", "GET", "/cli/eval-run/stats?"+bad, nil); rec.Code != 422 {
				t.Errorf("%s: %d %s", bad, rec.Code, rec.Body)
			}
		}
	})
}

// TestStatsReadIndexesOnly reads the plans of both engines for all filters.
func TestStatsReadIndexesOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, 20_000)
		span, err := period.Query{Start: "2025-11-15", End: "2025-11-16", Granularity: period.Hour}.Span(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []Filter{
			{}, {ProjectID: "p1"}, {AgentID: "a1"}, {EvalID: "e1"}, {ProjectID: "p1", AgentID: "a1"}, {ProjectID: "p1", EvalID: "e1"},
		} {
			text, args := statsQuery(d.Dialect(), "org_a", f, span.Buckets())
			plan := explain(t, d, text, args)
			if !strings.Contains(plan, "eval_runs_unsuccessful") || !strings.Contains(plan, "eval_runs_failed") || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Seq Scan on eval_runs") {
				t.Errorf("%+v:\n%s", f, plan)
			}
		}
	})
}

// BenchmarkStats measures a series over all runs, with STEWARD_BENCH_ROWS of them.
func BenchmarkStats(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.Open(b, dialect)
			fill(b, d, benchRows(200_000))
			h := &Handler{Store: &Store{DB: d, Now: func() time.Time { return time.UnixMicro(1763200000000000 + 1_000_000_000) }}}
			ctx := auth.With(b.Context(), callers["ada"])
			for name, in := range map[string]StatsInput{
				"all minutes": {Query: period.Query{Granularity: period.Minute}},
				"all hours":   {Query: period.Query{Granularity: period.Hour}},
				"one eval":    {EvalID: "e1", Query: period.Query{Granularity: period.Hour}},
				"rare eval":   {EvalID: "e7", Query: period.Query{Granularity: period.Hour}},
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if _, err := h.Stats(ctx, &in); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
