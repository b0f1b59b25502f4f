package eval

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
)

// combinations are the filters of runs, with the index that each must read.
var combinations = []struct {
	name  string
	f     Filter
	index string
}{
	{"none", Filter{}, "eval_runs_newest"},
	{"project", Filter{ProjectID: "p1"}, "eval_runs_project"},
	{"agent", Filter{AgentID: "a1"}, "eval_runs_agent"},
	{"eval", Filter{EvalID: "e1"}, "eval_runs_eval"},
	{"session", Filter{SessionID: "s1"}, "eval_runs_session"},
	{"project+agent", Filter{ProjectID: "p1", AgentID: "a1"}, "eval_runs_project_agent"},
	{"project+eval", Filter{ProjectID: "p1", EvalID: "e1"}, "eval_runs_eval"},
	{"project+session", Filter{ProjectID: "p1", SessionID: "s1"}, "eval_runs_session"},
	{"agent+eval", Filter{AgentID: "a1", EvalID: "e1"}, "eval_runs_eval"},
	{"agent+session", Filter{AgentID: "a1", SessionID: "s1"}, "eval_runs_session"},
	{"eval+session", Filter{EvalID: "e1", SessionID: "s1"}, "eval_runs_session"},
	{"other project+agent", Filter{ProjectID: "p2", AgentID: "a1"}, "eval_runs_project_agent"},
	{"other project+eval", Filter{ProjectID: "p2", EvalID: "e1"}, "eval_runs_eval or eval_runs_project"},
	{"other agent+eval", Filter{AgentID: "a2", EvalID: "e1"}, "eval_runs_eval or eval_runs_agent"},
	{"project+agent+session", Filter{ProjectID: "p1", AgentID: "a1", SessionID: "s1"}, "eval_runs_session"},
	{"project+agent+unknown eval", Filter{ProjectID: "p1", AgentID: "a1", EvalID: "e7"}, "eval_runs_eval"},
	{"all", Filter{ProjectID: "p1", AgentID: "a1", EvalID: "e1", SessionID: "s1"}, "eval_runs_session"},
	{"passed", Filter{Passed: new(true)}, "eval_runs_newest"},
	{"passed+eval", Filter{Passed: new(true), EvalID: "e1"}, "eval_runs_eval"},
	{"passed+project+agent", Filter{Passed: new(true), ProjectID: "p1", AgentID: "a1"}, "eval_runs_project_agent"},
	{"failed", Filter{Passed: new(false)}, "eval_runs_failed"},
	{"failed+agent", Filter{Passed: new(false), AgentID: "a1"}, "eval_runs_failed"},
	{"failed+project+eval", Filter{Passed: new(false), ProjectID: "p1", EvalID: "e1"}, "eval_runs_failed"},
	{"failed+session", Filter{Passed: new(false), SessionID: "s1"}, "eval_runs_session"},
	{"score", Filter{MinScore: new(0.5), MaxScore: new(0.8)}, "eval_runs_scored or eval_runs_newest"},
	{"score+agent", Filter{MinScore: new(0.5), AgentID: "a1"}, "eval_runs_agent or eval_runs_scored"},
	{"since+until", Filter{Since: new(stamp.Time(1763200005000000)), Until: new(stamp.Time(1763200015000000))}, "eval_runs_newest"},
	{"since+agent", Filter{Since: new(stamp.Time(1763200005000000)), AgentID: "a1"}, "eval_runs_agent"},
}

// fill inserts runs by SQL: half of them of one project, agent and eval, the worst case of a
// filter. A session has ten. One of 50 has failed.
func fill(t testing.TB, d *db.DB, n int) {
	dbtest.Fill(t, d, n, func(tx *db.Tx, first, last int) error {
		_, err := tx.Exec(`INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, eval_name, agent_identifier,
		devmode, pending, success, created_at, updated_at, written_at, version, size, result, passed, score, judged)
		WITH RECURSIVE seq (i) AS (SELECT CAST($4 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i < $1)
		SELECT 'org_a', 'evalrun_' || CAST(100000000 + i AS TEXT), CASE i % 2 WHEN 0 THEN 'p1' ELSE 'p' || CAST(i % 20 AS TEXT) END,
			's' || CAST(i / 10 AS TEXT), CASE i % 2 WHEN 0 THEN 'e1' ELSE 'e' || CAST(i % 1000 AS TEXT) END, 'a name',
			CASE i % 2 WHEN 0 THEN 'a1' ELSE 'a' || CAST(i % 100 AS TEXT) END, $2, $2, $3, 1763200000000000 + i * 1000, 0, 0, 1, 40,
			'{"success":true,"score":0.75,"reason":"good"}', i % 50 <> 0,
			CASE i % 50 WHEN 0 THEN 0.05 ELSE 0.75 END, $3 FROM seq`, last, false, true, first)
		return err
	})
	err := d.Write(context.Background(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO evals (org_id, id, project_id, agent_identifier, name, devmode, created_at,
			updated_at, version) VALUES ('org_a', 'e1', 'p1', 'a1', 'a name', $1, 0, 0, 1)`, false); err != nil {
			return err
		}
		_, err := tx.Exec(countAll)
		return err
	})
	if err == nil && d.Dialect() == db.Postgres {
		err = d.Write(context.Background(), func(tx *db.Tx) error {
			_, err := tx.Exec(`ANALYZE eval_runs`)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// countAll inserts the counts of runs.
const countAll = `INSERT INTO eval_counts (org_id, kind, key, project_id, n)
	SELECT org_id, 'run', '', project_id, count(*) FROM eval_runs GROUP BY org_id, project_id
	UNION ALL SELECT org_id, 'run by eval', eval_id, project_id, count(*) FROM eval_runs GROUP BY org_id, project_id, eval_id
	UNION ALL SELECT org_id, 'run by agent', agent_identifier, project_id, count(*) FROM eval_runs
		WHERE agent_identifier IS NOT NULL GROUP BY org_id, project_id, agent_identifier`

// TestListsReadOneIndex reads the plans of both engines.
func TestListsReadOneIndex(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, 20_000)
		for _, c := range combinations {
			text, args, err := runList(d.Dialect(), "org_a", c.f).Statement(page.Paging{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			plan := explain(t, d, text, args)
			used := func(index string) bool { return slices.Contains(strings.Fields(plan), index) }
			if !slices.ContainsFunc(strings.Split(c.index, " or "), used) || strings.Contains(plan, "TEMP B-TREE") ||
				strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s is not served by %s alone:\n%s", c.name, c.index, plan)
			}
		}
	})
}

// explain returns the plan of a statement. For PostgreSQL, values replace the parameters.
func explain(t *testing.T, d *db.DB, text string, args []any) string {
	prefix := "EXPLAIN QUERY PLAN "
	scan := func(row db.Row) (line string, err error) {
		var a, b, c int
		err = row.Scan(&a, &b, &c, &line)
		return line, err
	}
	if d.Dialect() == db.Postgres {
		prefix = "EXPLAIN "
		scan = func(row db.Row) (line string, err error) {
			err = row.Scan(&line)
			return line, err
		}
		for i := len(args); i > 0; i-- {
			value := fmt.Sprint(args[i-1])
			switch arg := args[i-1].(type) {
			case string:
				value = "'" + arg + "'"
			case stamp.Time:
				value = fmt.Sprint(int64(arg))
			}
			text = strings.ReplaceAll(text, "$"+strconv.Itoa(i), value)
		}
		args = nil
	}
	lines, err := db.Collect(d.Read(t.Context()), scan, prefix+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

// benchRows returns the number of runs of a benchmark.
func benchRows(n int) int {
	if s := os.Getenv("STEWARD_BENCH_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	return n
}

// BenchmarkRuns measures a page of 100 with its total for each combination of filters.
// STEWARD_BENCH_ROWS sets the number of runs.
func BenchmarkRuns(b *testing.B) {
	n := benchRows(200_000)
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.Open(b, dialect)
			fill(b, d, n)
			s := &Store{DB: d, Now: time.Now}
			for _, c := range combinations {
				b.Run(c.name, func(b *testing.B) {
					var took []time.Duration
					for b.Loop() {
						began := time.Now()
						if _, err := s.Runs(b.Context(), "org_a", c.f, page.Paging{Limit: 100}); err != nil {
							b.Fatal(err)
						}
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				})
			}
		})
	}
}

// TestListsReadFewRows shows for every combination of filters that PostgreSQL reads what is listed and
// counted, also deep in the list and with a plan that was made without the values: the sixth.
func TestListsReadFewRows(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fill(t, d, 30_000)
	dbtest.Vacuum(t, o.URL)
	s := &Store{DB: d, Now: time.Now}
	err = d.Write(t.Context(), func(tx *db.Tx) error { // one transaction has one connection, and so one cache of plans
		for _, c := range combinations {
			if c.f.Passed != nil && *c.f.Passed || c.f.MinScore != nil {
				continue // reads the runs that do not match, too
			}
			for _, offset := range []int{0, page.MaxSkipped + 1000} {
				for range 6 {
					before, fetchedBefore := dbtest.RowsRead(t, tx, "eval")
					got, err := s.Runs(tx.Context(), "org_a", c.f, page.Paging{Limit: 10, Offset: offset})
					if err != nil {
						return err
					}
					read, fetched := dbtest.RowsRead(t, tx, "eval")
					most, mostFetched := int64(offset)+1200, int64(1200)
					if c.f.Since != nil { // there is no stored count
						most += page.MaxCounted
					}
					if c.f.EvalID != "" && c.f.ProjectID != "" { // the index of an eval does not have the project
						most += 2 * int64(offset)
						mostFetched += int64(offset)
					}
					if read-before > most || fetched-fetchedBefore > mostFetched {
						t.Errorf("%s, offset %d: %d rows were read and %d fetched for %d of %d",
							c.name, offset, read-before, fetched-fetchedBefore, len(got.Items), got.Total)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOffsetsDeepInAList compares pages by offset with the list as cursors show it.
func TestOffsetsDeepInAList(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const size = page.MaxSkipped + 200
		fill(t, d, size)
		s := &Store{DB: d, Now: time.Now}
		read := func(p page.Paging) page.Page[Run] {
			got, err := s.Runs(t.Context(), "org_a", Filter{}, p)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		var all []Run
		for p, more := (page.Paging{Limit: page.MaxLimit}), true; more; more = p.Cursor != "" {
			got := read(p)
			all = append(all, got.Items...)
			p.Cursor = got.Next
		}
		for _, offset := range []int{page.MaxSkipped, page.MaxSkipped + 1, size - 1, size, 5 * size} {
			got := read(page.Paging{Limit: 7, Offset: offset})
			want := all[min(offset, size):min(offset+7, size)]
			sameID := func(a, b Run) bool { return a.ID == b.ID }
			if !slices.EqualFunc(got.Items, want, sameID) || got.Total != size || got.Paging.Offset != offset || (got.Next != "") != (offset+7 < size) {
				t.Errorf("offset %d: %d runs of %d, next %q", offset, len(got.Items), got.Total, got.Next)
			}
		}
	})
}
