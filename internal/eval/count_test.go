package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// count is a row of eval_counts.
type count struct {
	orgID, kind, key, projectID string
	n                           int64
}

// checkCounts compares the counts with the rows.
func (f *fixture) checkCounts() {
	f.Helper()
	collect := func(text string) []count {
		rows, err := db.Collect(f.store.DB.Read(context.Background()), func(row db.Row) (c count, err error) {
			return c, row.Scan(&c.orgID, &c.kind, &c.key, &c.projectID, &c.n)
		}, text+` ORDER BY 1, 2, 3, 4`)
		f.must(err)
		return rows
	}
	stored := collect(`SELECT org_id, kind, key, project_id, n FROM eval_counts`)
	actual := collect(`SELECT org_id, 'eval' AS kind, '' AS key, project_id, count(*) FROM evals GROUP BY org_id, project_id
		UNION ALL SELECT org_id, 'run', '', project_id, count(*) FROM eval_runs GROUP BY org_id, project_id
		UNION ALL SELECT org_id, 'run by eval', eval_id, project_id, count(*) FROM eval_runs GROUP BY org_id, project_id, eval_id
		UNION ALL SELECT org_id, 'run by agent', agent_identifier, project_id, count(*) FROM eval_runs
			WHERE agent_identifier IS NOT NULL GROUP BY org_id, project_id, agent_identifier`)
	if !slices.Equal(stored, actual) {
		f.Fatalf("counted %v\nthere are %v", stored, actual)
	}
}

// TestCountsEqualRows compares counts and rows after random changes: evals arrive late, move and
// are deleted, projects are deleted and created again, and there are more runs than one transaction
// labels or removes.
func TestCountsEqualRows(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		n := 0
		dbtest.Check(t, f.store.DB.Dialect(), func(rt *rapid.T) {
			f.TB = rt
			pick := func(name string, from []string) string { return rapid.SampledFrom(from).Draw(rt, name) }
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				n++
				f.now = f.now.Add(time.Millisecond)
				switch pick("do", []string{"run", "run", "repeat", "put", "put", "delete eval", "delete project", "sweep", "many"}) {
				case "run":
					f.want(201, "ada", "POST", "/evalrun", start(fmt.Sprint("r", n), "s", pick("eval", evalIDs), pick("project", projects)))
				case "repeat":
					f.send("ada", "POST", "/evalrun", start(fmt.Sprint("r", n-1), "s", evalIDs[0], projects[0]))
				case "put":
					f.want(200, "ada", "PUT", "/cli/eval/"+pick("eval", evalIDs),
						define(pick("name", []string{"n", "m"}), pick("agent", agents), pick("project", projects)))
				case "delete eval":
					f.want(200, "ada", "POST", "/cli/devmode/eval", object{"delete": []string{pick("eval", evalIDs)}})
				case "delete project":
					err := f.accounts.DeleteProject(rt.Context(), "org_a", pick("project", projects), page.IfMatch{})
					if err != nil && errs.KindOf(err) != errs.NotFound {
						rt.Fatal(err)
					}
				case "sweep":
					f.now = f.now.Add(grace)
					f.must(f.store.Sweep(rt.Context()))
				case "many":
					if rapid.IntRange(0, 9).Draw(rt, "rarely") == 0 {
						f.insertRuns(labelBatch+1, fmt.Sprintf("m%d_", n), pick("eval", evalIDs), pick("project", projects))
					}
				}
			}
			f.checkCounts()
		})
	})
}

// TestCountsEqualRowsOfTwoProcesses has two processes write, label and purge the same runs at once.
// The clock of the other one is ahead, so that there is something to sweep.
func TestCountsEqualRowsOfTwoProcesses(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		other := &Store{DB: f.store.DB, Audit: f.store.Audit, Accounts: f.store.Accounts}
		other.Now = func() time.Time { return f.now.Add(2 * grace) }
		var all sync.WaitGroup
		try := func(i int, step func() error) {
			if err := step(); err != nil && !errors.Is(err, errOtherProject) {
				t.Errorf("step %d: %v", i, err)
			}
		}
		ada := &auth.Caller{UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner}
		for worker, store := range []*Store{f.store, other, f.store, other} {
			all.Go(func() {
				for i := range 40 {
					r := Run{
						ID: fmt.Sprintf("r%d_%d", worker, i), SessionID: "s", EvalID: "e", OrgID: "org_a", ProjectID: projects[i%2],
						Pending: true, CreatedAt: store.now(), UpdatedAt: store.now(),
					}
					try(i, func() error { _, err := store.Start(t.Context(), ada, r); return err })
					e := Eval{ID: "e", Name: "n", AgentIdentifier: agents[(i+worker)%3], ProjectID: projects[i%2]}
					switch {
					case i%8 == 3:
						try(i, func() error { _, err := store.Put(t.Context(), ada, e, page.IfMatch{}); return err })
					case i%8 == 5 && worker == 0:
						try(i, func() error {
							return store.DB.Write(t.Context(), func(tx *db.Tx) error { return store.DeleteOfProject(tx, "org_a", "green") })
						})
					case i%8 == 7:
						try(i, func() error { return other.Sweep(t.Context()) })
					}
				}
			})
		}
		all.Wait()
		f.checkCounts()
	})
}
