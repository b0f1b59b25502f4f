package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
)

// checkCounts holds the counts against the rows.
func (h *house) checkCounts() {
	h.Helper()
	q := h.store.DB.Read(context.Background())
	collect := func(text string) map[counted]int64 {
		rows, err := db.Collect(q, scanTaken, text)
		h.must(err)
		all := map[counted]int64{}
		for _, row := range rows {
			all[row.counted] = row.n
		}
		return all
	}
	kept := collect(`SELECT org_id, what, key, project_id, CAST(SUM(n) AS BIGINT) FROM eval_counts GROUP BY org_id, what, key, project_id`)
	rows := collect(`SELECT org_id, 'eval', '', project_id, count(*) FROM evals GROUP BY org_id, project_id
		UNION ALL SELECT org_id, 'run', '', project_id, count(*) FROM eval_runs GROUP BY org_id, project_id
		UNION ALL SELECT org_id, 'run of eval', eval_id, project_id, count(*) FROM eval_runs GROUP BY org_id, project_id, eval_id
		UNION ALL SELECT org_id, 'run of agent', agent_identifier, project_id, count(*) FROM eval_runs
			WHERE agent_identifier IS NOT NULL GROUP BY org_id, project_id, agent_identifier`)
	if !maps.Equal(kept, rows) {
		h.Fatalf("counted %v\nthere are %v", kept, rows)
	}
}

// TestCounts compares counts and rows after random sequences, in which evals come late, move and go, projects are deleted and come back,
// and there are more runs than one transaction labels or removes.
func TestCounts(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			h.TB = rt
			pick := func(name string, from []string) string { return rapid.SampledFrom(from).Draw(rt, name) }
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				n++
				h.now = h.now.Add(time.Millisecond)
				switch pick("do", []string{"run", "run", "repeat", "put", "put", "forget", "delete", "sweep", "many"}) {
				case "run":
					h.want(201, "ada", "POST", "/evalrun", start(fmt.Sprint("r", n), "s", pick("eval", evalIDs), pick("project", projects)))
				case "repeat":
					h.send("ada", "POST", "/evalrun", start(fmt.Sprint("r", n-1), "s", evalIDs[0], projects[0]))
				case "put":
					h.want(200, "ada", "PUT", "/cli/eval/"+pick("eval", evalIDs),
						define(pick("name", []string{"n", "m"}), pick("agent", agents), pick("project", projects)))
				case "forget":
					h.want(200, "ada", "POST", "/cli/devmode/eval", object{"delete": []string{pick("eval", evalIDs)}})
				case "delete":
					err := h.accounts.DeleteProject(rt.Context(), "org_a", pick("project", projects), page.IfMatch{})
					if err != nil && errs.KindOf(err) != errs.NotFound {
						rt.Fatal(err)
					}
				case "sweep":
					h.now = h.now.Add(grace)
					h.must(h.store.Sweep(rt.Context()))
				case "many":
					if rapid.IntRange(0, 9).Draw(rt, "rarely") == 0 {
						h.many(labelBatch+1, fmt.Sprintf("m%d_", n), pick("eval", evalIDs), pick("project", projects))
					}
				}
			}
			h.checkCounts()
		})
	})
}

// TestCountsTogether has two processes write, label and purge the same runs at once. The other one's clock is ahead, so that there is
// something to sweep.
func TestCountsTogether(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		other := &Store{DB: h.store.DB, Audit: h.store.Audit, Project: h.store.Project}
		other.Now = func() time.Time { return h.now.Add(2 * grace) }
		var all sync.WaitGroup
		try := func(i int, step func() error) {
			if err := step(); err != nil && !errors.Is(err, errForeign) {
				t.Errorf("step %d: %v", i, err)
			}
		}
		ada := &auth.Caller{UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner}
		for worker, store := range []*Store{h.store, other, h.store, other} {
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
		h.checkCounts()
	})
}
