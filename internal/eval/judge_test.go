package eval

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"steward/internal/db"
)

// results have what a run says about itself after it was completed with one of them.
var results = []struct {
	result, passed, score string
	success               bool
}{
	{`null`, `null`, `null`, true},
	{`[{"passed":true}]`, `null`, `null`, true},
	{`{"success":true,"passed":false,"score":0.25,"reason":"rude"}`, `false`, `0.25`, true},
	{`{"success":true, "passed" : true , "score" : 1 }`, `true`, `1`, true},
	{`{"success":false,"passed":true}`, `true`, `null`, false},
	{`{"passed":null,"score":null}`, `null`, `null`, true},
	{`{"passed":"false","score":"1"}`, `null`, `null`, true},
	{`{"Passed":false,"SCORE":1}`, `null`, `null`, true},
	{`{"passed":0,"score":true}`, `null`, `null`, true},
	{`{"score":-0.0}`, `null`, `0`, true},
	{`{"score":-1.5e-3}`, `null`, `-0.0015`, true},
	{`{"score":12345678901234567890}`, `null`, `12345678901234567000`, true},
	{`{"a":{"passed":false,"score":1}}`, `null`, `null`, true},
}

// runResult is the part of a run that its result decides.
type runResult struct {
	Success       bool
	Passed, Score json.RawMessage
}

func (f *fixture) checkResults() {
	f.Helper()
	for i, want := range results {
		got := read[runResult](f, f.want(200, "ada", "GET", fmt.Sprint("/cli/eval-run/r", i), nil))
		if got.Success != want.success || string(got.Passed) != want.passed || string(got.Score) != want.score {
			f.Errorf("%s: success %v, passed %s, score %s, want %+v", want.result, got.Success, got.Passed, got.Score, want)
		}
	}
}

func TestVerdictComesFromTheResult(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for i, r := range results {
			f.want(201, "ada", "POST", "/evalrun", start(fmt.Sprint("r", i), "s", "e", "red"))
			f.want(200, "ada", "PUT", "/evalrun", fmt.Sprintf(`{"id":"r%d","result":%s}`, i, r.result))
		}
		f.checkResults()
		for _, bad := range []string{"passed=maybe", "minScore=NaN", "maxScore=Inf", "minScore=1e999", "since=soon"} {
			f.want(422, "ada", "GET", "/cli/eval-run?"+bad, nil)
		}
	})
}

// TestRunsOfAnEarlierVersionAreJudged completes runs as version 0.1.0 does, which knows no verdict, and more of them than
// a batch has.
func TestRunsOfAnEarlierVersionAreJudged(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		complete := func(id, result string, success bool) {
			f.want(201, "ada", "POST", "/evalrun", start(id, "s", "e", "red"))
			f.must(f.store.DB.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`UPDATE eval_runs SET pending = false, success = $1, error = NULL, result = $2, size = $3,
					version = version + 1 WHERE org_id = 'org_a' AND id = $4 AND pending`, success, result, len(result), id)
				return err
			}))
		}
		for i, r := range results {
			complete(fmt.Sprint("r", i), r.result, r.success)
		}
		for i := range judgeBatch + 1 {
			complete(fmt.Sprint("other", i), `{"passed":false}`, true)
		}
		f.want(201, "ada", "POST", "/evalrun", start("pending", "s", "e", "red"))
		tag := f.want(200, "ada", "GET", "/cli/eval-run/r2", nil).Header().Get("ETag")
		f.must(f.store.Sweep(t.Context()))
		f.checkResults()
		if f.want(200, "ada", "GET", "/cli/eval-run/r2", nil).Header().Get("ETag") == tag {
			t.Error("the run has changed, but not its ETag")
		}
		if _, total := f.list("ada", "/cli/eval-run?passed=false"); total != fmt.Sprint(judgeBatch+2) {
			t.Errorf("%s runs failed", total)
		}
		var left int64
		f.must(f.store.DB.Read(t.Context()).Row(`SELECT count(*) FROM eval_runs WHERE NOT judged AND result IS NOT NULL`).Scan(&left))
		if left > 0 {
			t.Errorf("%d runs are not judged", left)
		}
	})
}

// TestStatsByEvalAndAgent has runs of evals that were never registered, whose agent is not known.
func TestStatsByEvalAndAgent(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(200, "ada", "PUT", "/cli/eval/e0", define("Tone", "support", "red"))
		n := 0
		begin := func(runs int, evalID, identifier, result string) {
			for range runs {
				n++
				body := start(fmt.Sprint("r", n), "s", evalID, "red")
				body["evalIdentifier"] = identifier
				f.want(201, "ada", "POST", "/evalrun", body)
				f.want(200, "ada", "PUT", "/evalrun", object{"id": body["id"], "result": json.RawMessage(result)})
			}
		}
		begin(2, "e0", "tone", `{"success":true,"passed":false}`)
		begin(1, "e0", "tone", `{"success":true}`)
		begin(5, "e1", "stranger", `{"success":true,"passed":true}`)
		begin(2, "e2", "", `{"success":false}`)
		begin(1, "e3", "c", `1`)
		begin(1, "e4", "d", `1`)
		f.now = f.now.Add(time.Minute)
		type group struct {
			id, name             string
			runs, passed, failed int64
		}
		for query, want := range map[string][]group{
			"by=eval":  {{"e1", "stranger", 5, 5, 0}, {"e0", "Tone", 3, 1, 2}, {"e2", "e2", 2, 0, 2}, {"e3", "c", 1, 1, 0}},
			"by=agent": {{"", "no agent", 9, 7, 2}, {"support", "support", 3, 1, 2}},
			"by=eval&evalId=e0&agentId=support&projectId=red": {{"e0", "Tone", 3, 1, 2}},
			"by=agent&evalId=e1":                              {{"", "no agent", 5, 5, 0}},
			"by=agent&agentId=support":                        {{"support", "support", 3, 1, 2}},
			"by=eval&projectId=green":                         nil,
			"by=eval&start=2026-11-14&end=2026-11-15":         nil,
		} {
			values, err := url.ParseQuery(query)
			f.must(err)
			s, _ := f.stats("ada", values)
			var got []group
			for _, g := range s.Groups {
				var sum group
				if g.ID != nil {
					sum.id = *g.ID
				}
				sum.name = g.Name
				for _, b := range g.Series {
					sum.runs += b.Runs
					sum.passed += b.Passed
					sum.failed += b.Failed
				}
				got = append(got, sum)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", query, got, want)
			}
		}
	})
}
