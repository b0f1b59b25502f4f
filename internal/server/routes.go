// Package server owns the route table, authenticates requests, and provides the handler that serves
// everything.
//
// Routes lists all routes in the management API with the permission that each requires.
// Authenticator turns a request's bearer token into an auth.Caller and checks that permission.
// Handler mounts the table at the root and under /sdk, next to the handlers for protocols.
package server

import (
	"slices"

	"steward/internal/auth"
	"steward/internal/eval"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook/replay"
)

// Routes returns the management API's route table. Both faces serve all of it, and the OpenAPI
// document lists it.
func (s *Server) Routes() []web.Route {
	account := s.Account
	key := s.Key
	oauth := s.OIDC
	hook := s.Webhook
	return slices.Concat(
		web.Group("Account",
			web.On("GET /cli/auth/user", "getCurrentUser", auth.Self, 200, "Get the current user", s.Org.WhoAmI),
			web.On("GET /cli/organization", "listOrganizations",
				auth.ReadOrgs, 200, "List the organizations of the current user", account.Orgs),
			web.On("PUT /cli/organization/{id}", "updateOrganization",
				auth.WriteOrg, 200, "Update the organization", account.ChangeOrg).
				Small().RecentSignIn(),
			web.On("POST /cli/organization", "createOrganization",
				auth.CreateOrgs, 201, "Create an organization, whose owner is the current user", s.Org.Create).WithErrors(409),
			web.On("DELETE /cli/organization/{id}", "deleteOrganization", auth.DeleteOrgs, 200,
				"Delete the organization; what it holds is removed after 7 days", s.Org.Delete).
				WithErrors(409).RecentSignIn(),
			web.On("POST /cli/organization/{id}/restore", "restoreOrganization",
				auth.RestoreOrgs, 200, "Restore a deleted organization", s.Org.Restore).Small(),
			web.On("GET /cli/project", "listProjects", auth.ReadProjects, 200, "List projects", account.Projects),
			web.On("POST /cli/project", "createProject",
				auth.WriteProjects, 201, "Create a project", account.CreateProject),
			web.On("DELETE /cli/project/{id}", "deleteProject",
				auth.WriteProjects, 204, "Delete a project and everything in it", account.DeleteProject),
		),
		web.Group("Audit",
			web.On("GET /audit", "listAuditEntries",
				auth.ReadAudit, 200, "List audit log entries, newest first", s.Audit.List),
		),
		web.Group("Other",
			web.On("GET /search", "search",
				auth.Search, 200, "Find things by id or words of their name", s.Search.Search),
			web.On("GET /status", "getStatus",
				auth.ReadStatus, 200, "Get the status of processes, engines and webhooks", s.Status.Status),
		),
		web.Group("Members",
			web.On("GET /oidc/org/members", "listMembers", auth.ListMembers, 200, "List members", account.Members),
			web.On("POST /oidc/org/members", "inviteMember",
				auth.WriteMembers, 201, "Invite a member", account.Invite).
				WithErrors(409).RecentSignIn(),
			web.On("PUT /oidc/org/members/{id}", "updateMember",
				auth.WriteMembers, 200, "Update a member", account.Change).
				WithErrors(409).Small().RecentSignIn(),
			web.On("POST /oidc/org/members/{id}/invite", "renewInvitation",
				auth.WriteMembers, 200, "Renew the invitation of a pending member", account.Reinvite).
				WithErrors(409).Small().RecentSignIn(),
			web.On("POST /oidc/org/members/{id}/reset-password", "resetMemberPassword",
				auth.WriteMembers, 200, "Create a link to reset a member's password", account.ResetPassword).
				WithErrors(409).Small().RecentSignIn(),
			web.On("DELETE /oidc/org/members/{id}/factors", "clearMemberFactors",
				auth.ClearFactors, 204, "Remove the second factors of a member", account.ClearFactors).
				WithErrors(409).RecentSignIn(),
			web.On("DELETE /oidc/org/members/{id}", "removeMember",
				auth.WriteMembers, 204, "Remove a member or revoke an invitation", account.Remove).
				WithErrors(409).RecentSignIn(),
		),
		web.Group("OAuth",
			web.On("GET /oidc/clients", "listOAuthClients",
				auth.ReadClients, 200, "List OAuth clients, newest first", oauth.List),
			web.On("POST /oidc/clients", "createOAuthClient",
				auth.WriteClients, 200, "Create an OAuth client", oauth.Create).WithErrors(409).RecentSignIn(),
			web.On("GET /oidc/clients/activity", "listOAuthActivity",
				auth.ReadClients, 200, "Get the daily users of all OAuth clients", oauth.AllActivity),
			web.On("GET /oidc/clients/{id}", "getOAuthClient", auth.ReadClients, 200, "Get an OAuth client", oauth.Get),
			web.On("PUT /oidc/clients/{id}", "updateOAuthClient",
				auth.WriteClients, 200, "Update an OAuth client", oauth.Update).
				WithRules(web.RulesOf(oauth.CheckUpdate)).WithErrors(409).Small().RecentSignIn(),
			web.On("DELETE /oidc/clients/{id}", "deleteOAuthClient",
				auth.WriteClients, 200, "Delete an OAuth client with its tokens and consents", oauth.Delete).
				RecentSignIn(),
			web.On("POST /oidc/clients/{id}/rotate-secret", "rotateOAuthClientSecret",
				auth.WriteClients, 200, "Rotate the secret of an OAuth client", oauth.RotateSecret).
				Small().RecentSignIn(),
			web.On("GET /oidc/clients/{id}/activity", "listOAuthClientActivity",
				auth.ReadClients, 200, "Get the daily activity of an OAuth client", oauth.Activity),
			web.On("GET /oidc/clients/{id}/users", "listOAuthClientUsers",
				auth.WriteClients, 200, "List the users of an OAuth client", oauth.Users),
			web.On("DELETE /oidc/clients/{id}/users", "revokeOAuthClientUsers",
				auth.WriteClients, 200, "Revoke all consents to an OAuth client", oauth.RevokeAll),
			web.On("DELETE /oidc/clients/{id}/users/{user_id}", "revokeOAuthClientUser",
				auth.WriteClients, 200, "Revoke a consent to an OAuth client", oauth.RevokeUser),
			web.On("GET /oidc/user/consent", "listConsents",
				auth.ReadConsents, 200, "List the consents of the current user", oauth.Own),
			web.On("DELETE /oidc/user/consent/{client_id}", "revokeConsent",
				auth.WriteConsents, 200, "Revoke a consent of the current user", oauth.RevokeOwn),
			web.On("GET /oidc/scopes", "getScopeCatalogue",
				auth.ReadClients, 200, "Get the scope catalogue", oauth.Catalogue),
			web.On("GET /oidc/keys", "listSigningKeys",
				auth.ReadSigning, 200, "List the signing keys", oauth.SigningKeys),
			web.On("POST /oidc/keys/rotate", "rotateSigningKeys",
				auth.RotateKeys, 200, "Rotate the signing keys", oauth.RotateKeys).
				Small().RecentSignIn(),
			web.On("GET /oidc/upstream", "listUpstreams",
				auth.ReadUpstreams, 200, "List the sign-in providers of the organization", s.Upstream.List),
			web.On("POST /oidc/upstream", "createUpstream",
				auth.WriteUpstreams, 201, "Add a sign-in provider", s.Upstream.Create).
				WithErrors(409).RecentSignIn(),
			web.On("GET /oidc/upstream/{id}", "getUpstream",
				auth.ReadUpstreams, 200, "Get a sign-in provider", s.Upstream.Get),
			web.On("PUT /oidc/upstream/{id}", "updateUpstream",
				auth.WriteUpstreams, 200, "Update a sign-in provider", s.Upstream.Update).
				Small().RecentSignIn(),
			web.On("DELETE /oidc/upstream/{id}", "deleteUpstream",
				auth.WriteUpstreams, 204, "Delete a sign-in provider", s.Upstream.Delete).RecentSignIn(),
			web.On("GET /oidc/registration-token", "listRegistrationTokens",
				auth.ReadRegistrations, 200, "List the tokens with which OAuth clients register themselves", s.Tokens.List),
			web.On("POST /oidc/registration-token", "createRegistrationToken",
				auth.WriteRegistrations, 201, "Create a registration token", s.Tokens.Create).
				WithErrors(409).RecentSignIn(),
			web.On("DELETE /oidc/registration-token/{id}", "deleteRegistrationToken",
				auth.WriteRegistrations, 204, "Delete a registration token", s.Tokens.Delete).
				RecentSignIn(),
		),
		web.Group("API keys",
			web.On("POST /cli/apikey", "createAPIKey", auth.WriteKeys, 201, "Create an API key", key.Create).RecentSignIn(),
			web.On("GET /cli/apikey", "listAPIKeys", auth.ReadKeys, 200, "List API keys", key.List),
			web.On("GET /cli/apikey/{id}", "getAPIKey", auth.ReadKeys, 200, "Get an API key", key.Get),
			web.On("DELETE /cli/apikey/{id}", "deleteAPIKey", auth.WriteKeys, 204, "Delete an API key", key.Delete).
				RecentSignIn(),
		),
		web.Group("Evaluations",
			web.On("GET /cli/eval", "listEvals", auth.ReadEvals, 200, "List evaluations, newest first", s.Eval.List),
			web.On("GET /cli/eval/{id}", "getEval", auth.ReadEvals, 200, "Get an evaluation", s.Eval.Get),
			web.On("PUT /cli/eval/{id}", "putEval",
				auth.WriteEvals, 200, "Create or replace an evaluation", s.Eval.Put),
			web.On("POST /cli/devmode/eval", "syncEvals",
				auth.WriteEvals, 200, "Synchronize the evaluations of a development server", s.Eval.Sync),
			web.On("GET /cli/eval-run", "listEvalRuns",
				auth.ReadEvals, 200, "List evaluation runs, newest first", s.Eval.Runs),
			web.On("GET /cli/eval-run/stats", "getEvalRunStats",
				auth.ReadEvals, 200, "Get the results of evaluation runs over time", s.Eval.Stats),
			web.On("GET /cli/eval-run/{id}", "getEvalRun", auth.ReadEvals, 200, "Get an evaluation run", s.Eval.Run),
			web.On("POST /evalrun", "startEvalRun",
				auth.WriteEvals, 201, "Start an evaluation run", s.Eval.Start).WithErrors(409),
			web.On("PUT /evalrun", "completeEvalRun",
				auth.WriteEvals, 200, "Complete an evaluation run", s.Eval.Complete).
				WithMaxBody(eval.MaxBody).WithErrors(404, 409),
		),
		web.Group("Object storage",
			web.On("GET /storage/objects/{bucket}", "listObjects",
				auth.ReadObjects, 200, "List objects in byte order of their keys", s.Object.Objects),
			web.On("DELETE /storage/objects/{bucket}", "deleteObjects",
				auth.WriteObjects, 200, "Delete an object, or all with a prefix", s.Object.DeleteObjects),
			web.On("GET /storage/folders/{bucket}", "listFolders",
				auth.ReadObjects, 200, "List the folders and objects directly below a prefix", s.Object.Folders),
			web.On("GET /storage/presign/{bucket}", "presignObject",
				auth.ReadObjects, 200, "Create a presigned URL", s.Object.PresignURL),
			web.On("GET /storage/stats/{bucket}", "getBucketStats",
				auth.ReadObjects, 200, "Get the usage of a bucket", s.Object.Stats),
			web.On("GET /storage/analytics", "getStorageAnalytics",
				auth.ReadObjects, 200, "Get usage and cost of all buckets over time", s.Object.Analytics),
			web.On("GET /bucket/config/{bucket}", "getBucketConfig",
				auth.ReadObjects, 200, "Get the configuration of a bucket", s.Object.Config),
			web.On("PUT /bucket/config/{bucket}", "updateBucketConfig",
				auth.WriteObjects, 200, "Update the configuration of a bucket", s.Object.UpdateConfig).Small(),
			web.On("DELETE /bucket/config/{bucket}", "resetBucketConfig",
				auth.WriteObjects, 200, "Reset the configuration of a bucket", s.Object.ResetConfig),
		),
		web.Group("Resources",
			web.On("GET /cli/region", "listRegions", auth.ReadRegions, 200, "List regions", s.Resource.Regions),
			web.On("GET /resource", "listResources",
				auth.ReadResources, 200, "List resources of all regions", s.Resource.All),
			web.On("GET /resource/{orgId}/{region}", "listRegionResources",
				auth.ReadResources, 200, "List the resources of a region", s.Resource.List),
			web.On("POST /resource/{orgId}/{region}", "createResources",
				auth.WriteResources, 201, "Create resources, all or none", s.Resource.Create).
				WithRules(web.RulesOf(s.Resource.CheckCreate)).WithErrors(409).RecentSignIn(),
			web.On("DELETE /resource/{orgId}/{region}", "deleteResources",
				auth.WriteResources, 204, "Delete resources with all that they hold, all or none", s.Resource.Delete).
				WithErrors(409).RecentSignIn(),
			web.On("GET /resource/{orgId}/{region}/{name}/tables", "listTables",
				auth.ReadResources, 200, "List the tables and views of a database", s.Resource.Tables),
			web.On("POST /resource/{orgId}/{region}/{name}/query", "queryDatabase",
				auth.WriteResources, 200, "Run a statement on a database", s.Resource.Query).Small(),
			web.On("GET /resource/{orgId}/{region}/{name}/keys", "listStoreKeys",
				auth.ReadResources, 200, "List the keys of a key-value store", s.Resource.Keys),
			web.On("GET /resource/{orgId}/{region}/{name}/value", "getStoreValue",
				auth.WriteResources, 200, "Get a page of the value of a key", s.Resource.Value),
			web.On("PUT /resource/{orgId}/{region}/{name}/value", "setStoreValue",
				auth.WriteResources, 200, "Set a value or an item of it, and when its key expires", s.Resource.SetValue).
				WithErrors(409),
			web.On("DELETE /resource/{orgId}/{region}/{name}/value", "deleteStoreValue",
				auth.WriteResources, 204, "Delete a key, or an item of its value", s.Resource.DeleteValue),
			web.On("POST /resource/{orgId}/{region}/{name}/rotate", "rotateResource",
				auth.WriteResources, 200, "Rotate the credentials of a resource", s.Resource.Rotate).
				WithErrors(409).Small().RecentSignIn(),
		),
		web.Group("Threads",
			web.On("GET /thread", "listThreads", auth.ReadThreads, 200, "List threads, newest first", s.Thread.List),
			web.On("GET /thread/{id}", "getThread", auth.ReadThreads, 200, "Get a thread", s.Thread.Get),
			web.On("PUT /thread/{id}", "putThread",
				auth.WriteThreads, 200, "Create or replace a thread", s.Thread.Put).
				WithRules(web.RulesOf(s.Thread.CheckPut)).WithMaxBody(thread.MaxBody).WithErrors(409),
			web.On("DELETE /thread/{id}", "deleteThread", auth.WriteThreads, 204, "Delete a thread", s.Thread.Delete),
			web.On("GET /session", "listSessions",
				auth.ReadThreads, 200, "List sessions, newest first", s.Thread.Sessions),
			web.On("GET /session/{id}", "getSession", auth.ReadThreads, 200, "Get a session", s.Thread.Session),
			web.On("POST /session", "startSession",
				auth.WriteThreads, 201, "Start a session", s.Thread.Start).WithMaxBody(thread.MaxBody).WithErrors(404),
			web.On("PUT /session", "completeSession",
				auth.WriteThreads, 200, "Complete a session", s.Thread.Complete).
				WithMaxBody(thread.MaxBody).WithErrors(404),
		),
		web.Group("Webhooks",
			web.On("POST /webhook/create", "createWebhook", auth.WriteWebhooks, 201, "Create a webhook", hook.Create).
				RecentSignIn(),
			web.On("GET /webhook/get/{webhookId}", "getWebhook", auth.ReadWebhooks, 200, "Get a webhook", hook.Get),
			web.On("GET /webhook/list", "listWebhooks",
				auth.ReadWebhooks, 200, "List webhooks, newest first", hook.List),
			web.On("PUT /webhook/update/{webhookId}", "updateWebhook",
				auth.WriteWebhooks, 200, "Update a webhook", hook.Update).Small(),
			web.On("GET /webhook/url/{webhookId}", "getWebhookURL",
				auth.WriteWebhooks, 200, "Get the ingest URL of a webhook", hook.URL).RecentSignIn(),
			web.On("POST /webhook/rotate-url/{webhookId}", "rotateWebhookURL",
				auth.WriteWebhooks, 200, "Rotate the ingest URL of a webhook", hook.Rotate).
				Small().RecentSignIn(),
			web.On("DELETE /webhook/delete/{webhookId}", "deleteWebhook",
				auth.WriteWebhooks, 204, "Delete a webhook and everything in it", hook.Delete),
			web.On("POST /webhook/destination-create/{webhookId}", "createDestination",
				auth.WriteWebhooks, 201, "Create a destination", hook.CreateDestination).
				WithErrors(409).RecentSignIn(),
			web.On("GET /webhook/destination-list/{webhookId}", "listDestinations",
				auth.ReadWebhooks, 200, "List destinations", hook.Destinations),
			web.On("PUT /webhook/destination-update/{webhookId}/{destinationId}", "updateDestination",
				auth.WriteWebhooks, 200, "Update a destination", hook.UpdateDestination).Small().RecentSignIn(),
			web.On("POST /webhook/destination-rotate-secret/{webhookId}/{destinationId}", "rotateDestinationSecret",
				auth.WriteWebhooks, 200, "Rotate the signing secret of a destination", hook.RotateDestinationSecret).
				WithErrors(409).Small().RecentSignIn(),
			web.On("DELETE /webhook/destination-delete/{webhookId}/{destinationId}", "deleteDestination",
				auth.WriteWebhooks, 204, "Delete a destination", hook.DeleteDestination),
			web.On("POST /webhook/destination-test/{webhookId}/{destinationId}", "testDestination",
				auth.WriteWebhooks, 200, "Send a test event to a destination", hook.TestDestination).Small(),
			web.On("POST /webhook/destination-recover/{webhookId}/{destinationId}", "recoverDestination",
				auth.WriteWebhooks, 200, "Make all waiting retries of a destination due now", hook.RecoverDestination).
				WithErrors(409).Small(),
			web.On("GET /webhook/receipt-list/{webhookId}", "listReceipts",
				auth.ReadWebhooks, 200, "List receipts, newest first", hook.Receipts),
			web.On("GET /webhook/receipt-get/{webhookId}/{receiptId}", "getReceipt",
				auth.ReadWebhooks, 200, "Get a receipt", hook.Receipt),
			web.On("GET /webhook/receipt-payload/{webhookId}/{receiptId}", "getReceiptPayload",
				auth.ReadWebhooks, 200, "Get the raw body of a receipt", hook.Payload),
			web.On("GET /webhook/receipt-neighbors/{webhookId}/{receiptId}", "getReceiptNeighbors",
				auth.ReadWebhooks, 200, "Get the ids of the receipts before and after a receipt", hook.Neighbors),
			web.On("GET /webhook/receipt-export/{webhookId}", "exportReceipts",
				auth.ReadWebhooks, 200, "Export receipts with their whole payloads, newest first", hook.Export),
			web.On("POST /webhook/filter-test/{webhookId}", "testFilter",
				auth.WriteWebhooks, 200, "Test a filter on the last receipts", hook.TestFilter).Small(),
			web.On("GET /webhook/rejected-list/{webhookId}", "listRejected",
				auth.ReadWebhooks, 200, "List requests that could not be verified, newest first", hook.Rejected),
			web.On("GET /webhook/delivery-list/{webhookId}", "listDeliveries",
				auth.ReadWebhooks, 200, "List deliveries, newest first", hook.Deliveries),
			web.On("POST /webhook/delivery-retry/{webhookId}/{deliveryId}", "retryDelivery",
				auth.WriteWebhooks, 200, "Retry a failed delivery", hook.Retry).WithErrors(409),
			web.On("POST /webhook/replay/{webhookId}", "createReplay",
				auth.WriteWebhooks, 201, "Deliver receipts of a stretch of time again", s.Replay.Create).
				WithErrors(409).WithAlternative(200, replay.Count{}),
			web.On("GET /webhook/replay/{webhookId}", "listReplays",
				auth.ReadWebhooks, 200, "List replays, newest first", s.Replay.List),
			web.On("GET /webhook/replay/{webhookId}/{replayId}", "getReplay",
				auth.ReadWebhooks, 200, "Get a replay", s.Replay.Get),
			web.On("DELETE /webhook/replay/{webhookId}/{replayId}", "cancelReplay",
				auth.WriteWebhooks, 204, "Cancel a replay", s.Replay.Cancel).WithErrors(409),
			web.On("GET /webhook/tail", "tailWebhooks",
				auth.ReadWebhooks, 200, "Follow the receipts and deliveries of all webhooks", s.Tail.All),
			web.On("GET /webhook/tail/{webhookId}", "tailWebhook",
				auth.ReadWebhooks, 200, "Follow the receipts and deliveries of a webhook", s.Tail.One),
			web.On("GET /webhook/analytics/org", "getWebhookAnalytics",
				auth.ReadWebhooks, 200, "Get webhook totals", hook.Analytics),
			web.On("GET /webhook/analytics/org/timeseries", "getWebhookTimeseries",
				auth.ReadWebhooks, 200, "Get webhook totals over time", hook.Timeseries),
		),
	)
}
