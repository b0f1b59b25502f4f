package eval

import (
	"fmt"

	"steward/internal/db"
)

// counts has each project's evals and runs, by kind and key.
var counts = db.NewCounters("eval_counts", []string{"org_id", "kind", "key", "project_id"}, []string{"n"})

// The kinds of counts.
const (
	countEvals     = "eval"
	countRuns      = "run"
	countAgentRuns = "run by agent" // the key is the agent
	countEvalRuns  = "run by eval"  // the key is the eval's id
)

// counter names a project's count, or the organization's if projectID is empty.
type counter struct {
	orgID, kind, key, projectID string
}

func (c counter) add(tx *db.Tx, n int64) error {
	if err := counts.Add(tx, []any{c.orgID, c.kind, c.key, c.projectID}, n); err != nil {
		return fmt.Errorf("count %q: %w", c.kind, err)
	}
	return nil
}

func (c counter) get(q db.Querier) (int64, error) {
	prefix := []any{c.orgID, c.kind, c.key}
	if c.projectID != "" {
		prefix = append(prefix, c.projectID)
	}
	n, err := counts.Sum(q, prefix...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

func addEvals(tx *db.Tx, orgID, projectID string, n int64) error {
	return counter{orgID: orgID, kind: countEvals, projectID: projectID}.add(tx, n)
}

// countedRun names the counts that include a run. The agent is nil until we know it.
type countedRun struct {
	orgID, projectID, evalID string
	agent                    *string
}

// addRuns adds n to the runs counted for a project, an eval and an agent.
func addRuns(tx *db.Tx, r countedRun, n int64) error {
	c := counter{orgID: r.orgID, kind: countRuns, projectID: r.projectID}
	if err := c.add(tx, n); err != nil {
		return err
	}
	c.kind = countEvalRuns
	c.key = r.evalID
	if err := c.add(tx, n); err != nil {
		return err
	}
	if r.agent == nil {
		return nil
	}
	c.kind = countAgentRuns
	c.key = *r.agent
	return c.add(tx, n)
}
