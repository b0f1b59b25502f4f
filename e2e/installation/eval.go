package installation

// EvalRun is an eval's run, with the eval's agent.
type EvalRun struct{ ID, SessionID, EvalID, ProjectID, AgentIdentifier string }

// Body returns the request that starts the run.
func (r EvalRun) Body(orgID string, at int) map[string]any {
	return map[string]any{
		"id": r.ID, "sessionId": r.SessionID, "evalId": r.EvalID, "evalIdentifier": "stable",
		"orgId": orgID, "projectId": r.ProjectID, "devmode": false, "timestamp": 1763200000000 + at,
	}
}
