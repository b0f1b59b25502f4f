//go:build bench

package bench

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestRunLists measures pages of GET /cli/eval-run with each filter and each pair of filters. Half of
// the runs are of one project, one agent and one eval; the others are spread over ten projects, 50
// agents and 500 evals. A session has ten runs.
func TestRunLists(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		in.fill(rows, func(tx *db.Tx, from, to int) error { return fillRuns(tx, in.orgID, from, to, false) })
		sessions := rows / 10
		pages := []list{
			{"no filter", "limit=100", 0, 100},
			{"middle, by cursor", "limit=100&cursor=" + in.cursorAt("/cli/eval-run", rows/2), 0, 100},
			{"organization", "limit=100&orgId=" + in.orgID, 0, 100},
			{"project of half", "limit=100&projectId=p1", 0, 100},
			{"project of 1 in 20", "limit=100&projectId=p3", 0, 100},
			{"agent of half", "limit=100&agentId=a1", 0, 100},
			{"agent of 1 in 100", "limit=100&agentId=a3", 0, min(100, rows/100)},
			{"eval of half", "limit=100&evalId=e1", 0, 100},
			{"eval of 1 in 1000", "limit=100&evalId=e3", 0, min(100, rows/1000)},
			{"session", "limit=100&sessionId=s{n}", sessions, 10},
			{"project, agent", "limit=100&projectId=p1&agentId=a1", 0, 100},
			{"project, eval", "limit=100&projectId=p1&evalId=e1", 0, 100},
			{"project, session", "limit=100&projectId=p1&sessionId=s{n}", sessions, -1},
			{"agent, eval", "limit=100&agentId=a1&evalId=e1", 0, 100},
			{"agent, session", "limit=100&agentId=a1&sessionId=s{n}", sessions, -1},
			{"eval, session", "limit=100&evalId=e1&sessionId=s{n}", sessions, -1},
			{"project and agent that never meet", "limit=100&projectId=p3&agentId=a1", 0, 0},
			{"project and eval that never meet", "limit=100&projectId=p3&evalId=e1", 0, 0},
			{"agent and eval that never meet", "limit=100&agentId=a3&evalId=e1", 0, 0},
			{"all four", "limit=100&projectId=p1&agentId=a1&evalId=e1&sessionId=s{n}", sessions, -1},
			{"no filter and no limit: 1000 rows", "", 0, 1000},
			{"project of half, no limit", "projectId=p1", 0, 1000},
			{"agent of half, no limit", "agentId=a1", 0, 1000},
			{"eval of half, no limit", "evalId=e1", 0, 1000},
		}
		in.lists(ref, "/cli/eval-run", pages)
		in.lists(ref, "/cli/eval", []list{
			{"no filter", "limit=100", 0, 100},
			{"project", "limit=100&projectId=p3", 0, 50},
			{"agent", "limit=100&agentId=a3", 0, 10},
			{"project, agent", "limit=100&projectId=p3&agentId=a3", 0, 10},
		})
	})
}

const runResult = `{"success":true,"score":0.75,"reason":"the answer names its source and follows from it"}`

const (
	numbers = `WITH RECURSIVE seq (i) AS (
		SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i + 1 < CAST($3 AS BIGINT)) `
	insertRuns = `INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, eval_identifier, eval_name,
		agent_identifier, devmode, pending, success, created_at, updated_at, written_at, version, size, result) ` + numbers +
		`SELECT CAST($1 AS TEXT), 'run_' || CAST(100000000 + i AS TEXT),
		CASE i % 2 WHEN 0 THEN 'p1' ELSE 'p' || CAST(i % 20 AS TEXT) END,
		's' || CAST(i / 10 AS TEXT),
		CASE i % 2 WHEN 0 THEN 'e1' ELSE 'e' || CAST(i % 1000 AS TEXT) END, 'is it polite', 'Politeness',
		CASE i % 2 WHEN 0 THEN 'a1' ELSE 'a' || CAST(i % 100 AS TEXT) END,
		CAST($5 AS BOOLEAN), CAST($6 AS BOOLEAN), NOT CAST($6 AS BOOLEAN),
		CAST($4 AS BIGINT) + i * 100, CAST($4 AS BIGINT) + i * 100, CAST($4 AS BIGINT), 1,
		CASE WHEN CAST($6 AS BOOLEAN) THEN 0 ELSE CAST($7 AS BIGINT) END,
		CASE WHEN CAST($6 AS BOOLEAN) THEN NULL ELSE CAST($8 AS TEXT) END FROM seq`
	insertEvals = `INSERT INTO evals
		(org_id, id, project_id, agent_identifier, name, devmode, created_at, updated_at, version) ` + numbers +
		`SELECT CAST($1 AS TEXT), 'e' || CAST(i AS TEXT), 'p' || CAST(i % 20 AS TEXT), 'a' || CAST(i % 100 AS TEXT),
		'Politeness', CAST($5 AS BOOLEAN), CAST($4 AS BIGINT) + i, CAST($4 AS BIGINT) + i, 1 FROM seq`
	countEvals = `INSERT INTO eval_counts (org_id, kind, key, project_id, n)
		SELECT org_id, 'eval', '', project_id, count(*) FROM evals WHERE org_id = $1 GROUP BY org_id, project_id`
	countRuns = `INSERT INTO eval_counts (org_id, kind, key, project_id, n)
		SELECT org_id, 'run', '', project_id, count(*) FROM eval_runs WHERE org_id = $1 AND id >= $2 AND id < $3
			GROUP BY org_id, project_id
		UNION ALL SELECT org_id, 'run by agent', agent_identifier, project_id, count(*) FROM eval_runs
			WHERE org_id = $1 AND id >= $2 AND id < $3 GROUP BY org_id, project_id, agent_identifier
		UNION ALL SELECT org_id, 'run by eval', eval_id, project_id, count(*) FROM eval_runs
			WHERE org_id = $1 AND id >= $2 AND id < $3 GROUP BY org_id, project_id, eval_id
		ON CONFLICT (org_id, kind, key, project_id) DO UPDATE SET n = eval_counts.n + excluded.n`
)

// fillRuns inserts runs of yesterday, and the evals with the first of them.
func fillRuns(tx *db.Tx, orgID string, from, to int, pending bool) error {
	yesterday := time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour).UnixMicro()
	if from == 0 {
		if _, err := tx.Exec(insertEvals, orgID, 0, 1000, yesterday, false); err != nil {
			return err
		}
		if _, err := tx.Exec(countEvals, orgID); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(insertRuns, orgID, from, to, yesterday, false, pending, len(runResult), runResult); err != nil {
		return err
	}
	_, err := tx.Exec(countRuns, orgID, fmt.Sprintf("run_%d", 100000000+from), fmt.Sprintf("run_%d", 100000000+to))
	return err
}

// TestRuns measures starts and completions of runs.
func TestRuns(t *testing.T) {
	const started = 200_000 // more than can be completed here
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, dialect db.Dialect) {
		in, d := install(t, database), dbtest.Open(t, dialect)
		in.projectKey("p1") // makes the project
		in.fill(started, func(tx *db.Tx, from, to int) error { return fillRuns(tx, in.orgID, from, to, true) })
		bareTables(t, d)
		var last atomic.Int64
		compareWrites(t, "start of a run", ref, d, startedRow, func() result {
			return load(t, in.server, clients, time.Second, func(_, _ int) []byte {
				n := last.Add(1)
				return request("POST", "/evalrun", in.Key, newRun(in.orgID, n))
			})
		})
		last.Store(100_000_000)
		compareWrites(t, "completion of a run", ref, d, completedRow, func() result {
			return load(t, in.server, clients, time.Second, func(_, _ int) []byte {
				return request("PUT", "/evalrun", in.Key, completedRun(fmt.Sprintf("run_%d", last.Add(1))))
			})
		})
	})
}

// newRun returns the request body that starts a run.
func newRun(orgID string, n int64) []byte {
	return fmt.Appendf(nil, `{"id":"new_%d","sessionId":"s%d","evalId":"e1","evalIdentifier":"is it polite",`+
		`"orgId":"%s","projectId":"p1","deploymentId":"deploy_1","devmode":false,"timestamp":%d}`,
		n, n/10, orgID, time.Now().UnixMilli())
}

// completedRun returns the request body that completes a run.
func completedRun(id string) []byte {
	return fmt.Appendf(nil, `{"id":"%s","result":%s,"timestamp":%d}`, id, runResult, time.Now().UnixMilli())
}

// startedRow writes what a start needs: a row and a count.
func startedRow(tx *db.Tx, writer, i int) error {
	var at int64
	err := tx.Row(`INSERT INTO bench_threads (id, updated_at, body) VALUES ($1, $2, $3) RETURNING updated_at`,
		fmt.Sprintf("run_%d_%d", writer, rows.Add(1)), i, bareRun).Scan(&at)
	if err != nil {
		return err
	}
	return count(tx, writer)
}

// bareRun is as long as the row of a run without its id.
var bareRun = strings.Repeat("x", 200)

// completedRow writes what a completion needs: one row is changed and read.
func completedRow(tx *db.Tx, writer, i int) error {
	var body string
	return tx.Row(`UPDATE bench_threads SET updated_at = updated_at + 1, body = $2 WHERE id = $1 RETURNING body`,
		fmt.Sprintf("thread_%d_%d", writer, i%10), bareRun+runResult).Scan(&body)
}
