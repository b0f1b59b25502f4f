package installation

// SessionRequest returns the request that starts a session.
func SessionRequest(s *Steward, id, thread, project string) map[string]any {
	return map[string]any{
		"id": id, "threadId": thread, "orgId": s.OrgID, "projectId": project, "routeId": "r",
		"environment": "production", "devmode": false, "url": "/x?y=1", "method": "POST", "trigger": "api",
		"metadata": map[string]any{"k": 1}, "timestamp": "2026-01-02T03:04:05+01:00",
	}
}
