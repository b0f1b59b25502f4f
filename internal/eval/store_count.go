package eval

import (
	"fmt"

	"steward/internal/db"
)

// counts has the number of evals and runs of each project, by kind and key.
var counts = db.NewCounters("eval_counts", []string{"org_id", "kind", "key", "project_id"}, []string{"n"})

// The kinds of counts.
const (
	countEvals     = "eval"
	countRuns      = "run"
	countAgentRuns = "run by agent" // the key is the agent
	countEvalRuns  = "run by eval"  // the key is the eval's id
)

// addEvals adds n to the evals of a project.
func addEvals(tx *db.Tx, orgID, projectID string, n int64) error {
	if err := counts.Add(tx, []any{orgID, countEvals, "", projectID}, n); err != nil {
		return fmt.Errorf("count evals: %w", err)
	}
	return nil
}

// addRuns adds n to the runs of a project, an eval and an agent, which is nil if it is not known.
func addRuns(tx *db.Tx, orgID, projectID, evalID string, agent *string, n int64) error {
	if err := counts.Add(tx, []any{orgID, countRuns, "", projectID}, n); err != nil {
		return fmt.Errorf("count runs: %w", err)
	}
	if err := counts.Add(tx, []any{orgID, countEvalRuns, evalID, projectID}, n); err != nil {
		return fmt.Errorf("count runs of an eval: %w", err)
	}
	return addAgentRuns(tx, orgID, projectID, agent, n)
}

// addAgentRuns adds n to the runs of an agent alone, which is nil if it is not known.
func addAgentRuns(tx *db.Tx, orgID, projectID string, agent *string, n int64) error {
	if agent == nil {
		return nil
	}
	if err := counts.Add(tx, []any{orgID, countAgentRuns, *agent, projectID}, n); err != nil {
		return fmt.Errorf("count runs of an agent: %w", err)
	}
	return nil
}

// countOf returns a count of a project, or of the organization if projectID is empty.
func countOf(q db.Querier, orgID, kind, key, projectID string) (int64, error) {
	prefix := []any{orgID, kind, key}
	if projectID != "" {
		prefix = append(prefix, projectID)
	}
	n, err := counts.Sum(q, prefix...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}
