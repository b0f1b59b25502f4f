package eval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/page"
)

func TestPutCreatesAndReplacesEvals(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(404, "ada", "GET", "/cli/eval/e1", nil)
		f.want(412, "ada", "PUT", "/cli/eval/e1", define("politeness", "support", "red"), "If-Match", "*")
		made := f.want(200, "ada", "PUT", "/cli/eval/e1", define("politeness", "support", "red"))
		got := read[object](f, made)
		all := object{
			"id": "e1", "name": "politeness", "description": nil, "identifier": nil, "agentIdentifier": "support", "orgId": "org_a",
			"projectId": "red", "devmode": false, "createdAt": "2026-11-15T12:00:00.000Z", "updatedAt": "2026-11-15T12:00:00.000Z",
		}
		for field, want := range all {
			if value, there := got[field]; !there || value != want {
				t.Errorf("%s is %v, want %v", field, value, want)
			}
		}
		f.now = f.now.Add(time.Minute)
		body := define("manners", "support", "green")
		body["description"], body["identifier"], body["version"], body["devmode"] = "d", "i", "7", true
		f.want(412, "ada", "PUT", "/cli/eval/e1", body, "If-Match", `"2"`)
		f.want(200, "ada", "PUT", "/cli/eval/e1", body, "If-Match", made.Header().Get("ETag"))
		rec := f.want(200, "ada", "GET", "/cli/eval/e1", nil)
		got = read[object](f, rec)
		if got["name"] != "manners" || got["projectId"] != "green" || got["identifier"] != "i" ||
			got["version"] != "7" || got["devmode"] != true ||
			got["createdAt"] != "2026-11-15T12:00:00.000Z" || got["updatedAt"] != "2026-11-15T12:01:00.000Z" ||
			rec.Header().Get("ETag") != `"2"` {
			t.Errorf("got %v, ETag %s", got, rec.Header().Get("ETag"))
		}
		for project, want := range map[string]string{"red": "0", "green": "1"} {
			if _, total := f.list("ada", "/cli/eval?projectId="+project); total != want {
				t.Errorf("%s has %s evals, want %s", project, total, want)
			}
		}
		problem := f.want(422, "ada", "PUT", "/cli/eval/a%20b", object{"name": " ", "agentIdentifier": "", "projectId": "/"}).Body.String()
		for _, location := range []string{"path.id", "body.name", "body.agentIdentifier", "body.projectId"} {
			if !strings.Contains(problem, location) {
				t.Errorf("%s is not named: %s", location, problem)
			}
		}
	})
}

func TestSyncIsAllOrNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		one := func(evalID string) object {
			e := define("n", "a", "red")
			e["id"] = evalID
			return e
		}
		const path = "/cli/devmode/eval"
		f.want(200, "ada", "POST", path, object{"deploymentId": "d1", "create": []object{one("x"), one("y")}, "delete": []string{}})
		rec := f.want(200, "ada", "POST", "/cli/devmode/eval", object{
			"deploymentId": "d2", "create": []object{one("z"), one("y")},
			"delete": []string{"x", "unknown", "y"},
		})
		if got := strings.TrimSpace(rec.Body.String()); got != `{"created":["z","y"],"deleted":["x","y"]}` {
			t.Errorf("got %s", got)
		}
		y := read[object](f, f.want(200, "ada", "GET", "/cli/eval/y", nil))
		if y["devmode"] != true || y["deploymentId"] != "d2" {
			t.Errorf("got %v", y)
		}
		f.want(404, "ada", "GET", "/cli/eval/x", nil)
		if ids, total := f.list("ada", "/cli/eval"); !slices.Equal(ids, []string{"z", "y"}) || total != "2" {
			t.Errorf("got %v of %s", ids, total)
		}
		// All or nothing: the second eval may not be created by this key, so the first is not
		// deleted either.
		other := one("g")
		other["projectId"] = "green"
		f.want(403, "red", "POST", "/cli/devmode/eval", object{"create": []object{one("w"), other}, "delete": []string{"z"}})
		f.want(200, "ada", "GET", "/cli/eval/z", nil)
		f.want(404, "ada", "GET", "/cli/eval/w", nil)
		body := f.want(422, "ada", "POST", path, object{"create": []object{one("w"), one("/")}, "delete": []string{""}}).Body.String()
		if !strings.Contains(body, "body.create[1].id") || !strings.Contains(body, "body.delete[0]") {
			t.Errorf("got %s", body)
		}
		f.want(200, "ada", "POST", "/cli/devmode/eval", object{})
	})
}

// TestOtherCallersSeeNothing calls every route as another organization and another project.
func TestOtherCallersSeeNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(200, "ada", "PUT", "/cli/eval/e", define("n", "a", "red"))
		f.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		for _, who := range []string{"bob", "green"} {
			f.want(404, who, "GET", "/cli/eval/e", nil)
			f.want(404, who, "GET", "/cli/eval-run/r", nil)
			f.want(404, who, "PUT", "/evalrun", object{"id": "r"})
			for _, path := range []string{
				"/cli/eval", "/cli/eval?agentId=a", "/cli/eval?orgId=org_a", "/cli/eval?projectId=red", "/cli/eval-run",
				"/cli/eval-run?sessionId=s", "/cli/eval-run?evalId=e&agentId=a", "/cli/eval-run?projectId=red", "/cli/eval-run?orgId=org_a",
			} {
				if ids, total := f.list(who, path); len(ids) != 0 || total != "0" {
					t.Errorf("%s sees %v of %s at %s", who, ids, total, path)
				}
			}
		}
		f.want(404, "green", "PUT", "/cli/eval/e", define("n", "a", "green"))
		f.want(403, "green", "PUT", "/cli/eval/new", define("n", "a", "red"))
		f.want(403, "green", "POST", "/evalrun", start("r2", "s", "e", "red"))
		f.want(403, "green", "POST", "/evalrun", start("r", "s", "e", "green"))
		mine := define("n", "a", "green")
		mine["id"] = "e"
		f.want(403, "green", "POST", "/cli/devmode/eval", object{"create": []object{mine}})
		f.want(403, "green", "POST", "/cli/devmode/eval", object{"delete": []string{"e"}})
		foreign := define("n", "a", "red")
		foreign["orgId"] = "org_b"
		f.want(403, "ada", "PUT", "/cli/eval/e3", foreign)

		// The same ids in another organization are other evals and runs.
		f.want(200, "bob", "PUT", "/cli/eval/e", define("bobs", "b", "red"))
		r := start("r", "s", "e", "red")
		r["orgId"] = "org_b"
		f.want(201, "bob", "POST", "/evalrun", r)
		f.want(200, "bob", "PUT", "/evalrun", object{"id": "r", "error": "x"})
		if got := read[object](f, f.want(200, "red", "GET", "/cli/eval-run/r", nil)); got["pending"] != true || got["evalName"] != "n" {
			t.Errorf("got %v", got)
		}
		f.want(200, "red", "PUT", "/evalrun", object{"id": "r"})
		f.want(200, "red", "PUT", "/cli/eval/e", define("n", "a", "red"))
	})
}

// TestRunsFollowTheLabelsOfTheirEval has runs start before their eval exists, and the eval change,
// disappear and return.
func TestRunsFollowTheLabelsOfTheirEval(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(201, "ada", "POST", "/evalrun", start("early", "s", "e", "red"))
		check := func(runID string, name, agent any) {
			t.Helper()
			got := read[object](f, f.want(200, "ada", "GET", "/cli/eval-run/"+runID, nil))
			if got["evalName"] != name || got["agentIdentifier"] != agent {
				t.Errorf("%s is of %v, %v; want %v, %v", runID, got["evalName"], got["agentIdentifier"], name, agent)
			}
			for _, a := range []string{"support", "sales"} {
				ids, _ := f.list("ada", "/cli/eval-run?agentId="+a)
				if slices.Contains(ids, runID) != (a == agent) {
					t.Errorf("%s: agent %s has %v", runID, a, ids)
				}
			}
		}
		check("early", nil, nil)
		f.want(200, "ada", "PUT", "/cli/eval/e", define("first", "support", "red"))
		f.want(201, "ada", "POST", "/evalrun", start("later", "s", "e", "red"))
		check("early", "first", "support")
		check("later", "first", "support")
		f.want(200, "ada", "PUT", "/cli/eval/e", define("second", "sales", "red"))
		check("early", "second", "sales")
		check("later", "second", "sales")
		f.want(200, "ada", "POST", "/cli/devmode/eval", object{"delete": []string{"e"}})
		f.want(201, "ada", "POST", "/evalrun", start("orphan", "s", "e", "red"))
		check("later", "second", "sales")
		check("orphan", nil, nil)
		f.want(200, "ada", "PUT", "/cli/eval/e", define("third", "support", "red"))
		check("later", "third", "support")
		check("orphan", "third", "support")
	})
}

// insertRuns inserts runs by SQL: more than one transaction labels or purges.
func (f *fixture) insertRuns(n int, prefix, evalID, projectID string) {
	f.Helper()
	f.must(f.store.DB.Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, devmode, pending, success,
			created_at, updated_at, written_at, version, size) WITH RECURSIVE seq (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM seq WHERE i < $1)
			SELECT 'org_a', $2 || CAST(1000000 + i AS TEXT), $3, 's', $4, $5, $6, $7, i, i, i, 1, 0 FROM seq`,
			n-1, prefix, projectID, evalID, false, true, false)
		if err != nil {
			return err
		}
		return addRuns(tx, countedRun{orgID: "org_a", projectID: projectID, evalID: evalID}, int64(n))
	}))
}

// TestSweepLabelsRunsInBatches has more runs than one transaction labels, and an eval that changes
// in between.
func TestSweepLabelsRunsInBatches(t *testing.T) {
	const n = 3*labelBatch + 7
	each(t, func(t *testing.T, f *fixture) {
		f.insertRuns(n, "r", "e", "red")
		labelled := func(agent string) (count int) {
			f.must(f.store.DB.Read(t.Context()).Row(`SELECT count(*) FROM eval_runs WHERE agent_identifier = $1`, agent).Scan(&count))
			return count
		}
		f.want(200, "ada", "PUT", "/cli/eval/e", define("n", "support", "red"))
		if got := labelled("support"); got != labelBatch {
			t.Fatalf("%d runs were labelled in the first transaction", got)
		}
		if ids, _ := f.list("ada", "/cli/eval-run?agentId=support&limit=1"); ids[0] != fmt.Sprintf("r%d", 1_000_000+n-1) {
			t.Errorf("the newest run is not among the first labelled: %v", ids)
		}
		f.now = f.now.Add(grace)
		more, err := f.store.relabelNext(t.Context())
		f.must(err)
		if got := labelled("support"); !more || got != 2*labelBatch {
			t.Errorf("%d runs after one step", got)
		}
		f.want(200, "ada", "PUT", "/cli/eval/e", define("n", "sales", "red"))
		f.now = f.now.Add(grace)
		f.must(f.store.Sweep(t.Context()))
		if got := labelled("sales"); got != n {
			t.Errorf("%d of %d runs have the eval's agent in the end", got, n)
		}
		if ids, _ := f.list("ada", "/cli/eval-run?agentId=support&evalId=e"); len(ids) != 0 {
			t.Errorf("%d runs are still found by the old agent", len(ids))
		}
		var left int
		f.must(f.store.DB.Read(t.Context()).Row(`SELECT count(*) FROM eval_relabels`).Scan(&left))
		if left != 0 {
			t.Errorf("%d relabels are left", left)
		}
	})
}

// TestSweepPurgesDeletedProjectsInBatches deletes a project with more runs than one transaction
// removes, and creates it again.
func TestSweepPurgesDeletedProjectsInBatches(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for i := range 3 {
			f.want(200, "ada", "PUT", fmt.Sprintf("/cli/eval/e%d", i), define("n", "a", "red"))
		}
		f.want(200, "ada", "PUT", "/cli/eval/kept", define("n", "a", "green"))
		f.want(201, "ada", "POST", "/evalrun", start("kept", "s", "kept", "green"))
		f.insertRuns(2*purgeBatch+5, "r", "e0", "red")
		f.must(f.accounts.DeleteProject(t.Context(), "org_a", "red", page.IfMatch{}))
		if ids, total := f.list("ada", "/cli/eval"); !slices.Equal(ids, []string{"kept"}) || total != "1" {
			t.Errorf("evals: %v of %s", ids, total)
		}
		if ids, total := f.list("ada", "/cli/eval-run"); len(ids) != purgeBatch+6 || total != fmt.Sprint(purgeBatch+6) {
			t.Errorf("%d runs of %s after the first batch", len(ids), total)
		}
		f.now = f.now.Add(time.Second)
		f.want(201, "ada", "POST", "/evalrun", start("new", "s", "e0", "red"))
		f.must(f.store.Sweep(t.Context()))
		f.now = f.now.Add(grace)
		f.must(f.store.Sweep(t.Context()))
		ids, total := f.list("ada", "/cli/eval-run")
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"kept", "new"}) || total != "2" {
			t.Errorf("runs: %v of %s", ids, total)
		}
		var left int
		f.must(f.store.DB.Read(t.Context()).Row(`SELECT count(*) FROM eval_purges`).Scan(&left))
		if left != 0 {
			t.Errorf("%d purges are left", left)
		}
	})
}

// TestTotals are exact for the organization, a project, an agent and an eval, and left out beyond
// 10,000 runs of a session.
func TestTotals(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.insertRuns(page.MaxCounted, "r", "e", "red")
		for path, want := range map[string]string{
			"": "10000", "?evalId=e": "10000", "?sessionId=s&projectId=red": "10000", "?evalId=x": "0",
		} {
			if _, total := f.list("ada", "/cli/eval-run"+path); total != want {
				t.Errorf("%s: %q, want %s", path, total, want)
			}
		}
		f.want(201, "ada", "POST", "/evalrun", start("one", "s", "e", "red"))
		for path, want := range map[string]string{"": "10001", "?projectId=red": "10001", "?evalId=e": "10001", "?sessionId=s": ""} {
			if _, total := f.list("ada", "/cli/eval-run"+path); total != want {
				t.Errorf("%s: %q, want %q", path, total, want)
			}
		}
		rec := f.want(200, "red", "GET", "/cli/eval-run?limit=0", nil)
		if rec.Header().Get("X-Total-Count") != "10001" || rec.Body.String() != "[]\n" {
			t.Errorf("got %v %s", rec.Header(), rec.Body)
		}
		for _, path := range []string{"limit=1001", "limit=-1", "offset=-1", "limit=x", "cursor=x", "cursor=WzFd"} {
			f.want(422, "ada", "GET", "/cli/eval-run?"+path, nil)
			f.want(422, "ada", "GET", "/cli/eval?"+path, nil)
		}
		if page.MaxLimit != 1000 {
			t.Error("the default limit of these lists is no longer the largest one")
		}
	})
}
