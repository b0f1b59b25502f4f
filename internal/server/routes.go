// Package server owns the table of every route, and who may use it: authentication, permissions, limits.
package server

import (
	"steward/internal/auth"
	"steward/internal/web"
)

// Routes is the whole management API, one line each. Everything in it is served on both faces, documented, and walked by tests.
func (s *Server) Routes() []web.Route {
	account, key, log, region := s.Account, s.Key, s.Audit, s.Resource
	return []web.Route{
		// Who calls
		web.On("GET /cli/auth/user", auth.Self, 200, "Tell who the caller is", account.WhoAmI),
		web.On("GET /cli/organization", auth.Self, 200, "List the caller's organizations", account.Orgs),
		web.On("GET /cli/project", auth.ReadProjects, 200, "List projects", account.Projects),
		web.On("POST /cli/project", auth.WriteProjects, 201, "Create a project", account.CreateProject),
		web.On("DELETE /cli/project/{id}", auth.WriteProjects, 204, "Delete a project and what belongs to it", account.DeleteProject),
		web.On("GET /audit", auth.ReadAudit, 200, "List who did what, newest first", log.List),

		// Members
		web.On("GET /oidc/org/members", auth.ListMembers, 200, "List members", account.Members),
		web.On("POST /oidc/org/members", auth.WriteMembers, 201, "Invite a member", account.Invite),
		web.On("PUT /oidc/org/members/{id}", auth.WriteMembers, 200, "Change a member", account.Change),
		web.On("DELETE /oidc/org/members/{id}", auth.WriteMembers, 204, "Remove a member", account.Remove),

		// API keys
		web.On("POST /cli/apikey", auth.WriteKeys, 201, "Create an API key", key.Create),
		web.On("GET /cli/apikey", auth.ReadKeys, 200, "List API keys", key.List),
		web.On("GET /cli/apikey/{id}", auth.ReadKeys, 200, "Get an API key", key.Get),
		web.On("DELETE /cli/apikey/{id}", auth.WriteKeys, 204, "Delete an API key", key.Delete),

		// Regions
		web.On("GET /cli/region", auth.ReadResources, 200, "List regions", region.Regions),
	}
}
