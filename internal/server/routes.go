// Package server owns the route table, the authentication of requests, and the handler that serves
// everything.
//
// Routes lists all routes of the management API with the permission that each requires.
// Authenticator turns the bearer token of a request into an auth.Caller and checks that permission.
// Handler mounts the table at the root and under /sdk, next to the handlers of protocols.
package server

import (
	"steward/internal/auth"
	"steward/internal/eval"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook/replay"
)

// Routes returns the route table of the management API. All routes are served on both faces and are
// in the OpenAPI document.
func (s *Server) Routes() []web.Route {
	account := s.Account
	key := s.Key
	oauth := s.OIDC
	hook := s.Webhook
	return named([]web.Route{
		// Account
		web.On("GET /cli/auth/user", auth.Self, 200, "Get the current user", account.WhoAmI),
		web.On("GET /cli/organization", auth.ReadOrgs, 200, "List the organizations of the current user", account.Orgs),
		web.On("GET /cli/project", auth.ReadProjects, 200, "List projects", account.Projects),
		web.On("POST /cli/project", auth.WriteProjects, 201, "Create a project", account.CreateProject),
		web.On("DELETE /cli/project/{id}", auth.WriteProjects, 204, "Delete a project and everything in it", account.DeleteProject),
		web.On("GET /audit", auth.ReadAudit, 200, "List audit log entries, newest first", s.Audit.List),
		web.On("GET /search", auth.Search, 200, "Find things by id or words of their name", s.Search.Search),
		web.On("GET /status", auth.ReadStatus, 200, "Get the status of processes, engines and webhooks", s.Status.Status),

		// Members
		web.On("GET /oidc/org/members", auth.ListMembers, 200, "List members", account.Members),
		web.On("POST /oidc/org/members", auth.WriteMembers, 201, "Invite a member", account.Invite).WithErrors(409),
		web.On("PUT /oidc/org/members/{id}", auth.WriteMembers, 200, "Update a member", account.Change).WithErrors(409).Small(),
		web.On("POST /oidc/org/members/{id}/invite", auth.WriteMembers, 200, "Renew the invitation of a pending member", account.Reinvite).WithErrors(409).Small(),
		web.On("POST /oidc/org/members/{id}/reset-password", auth.WriteMembers, 200, "Create a link to reset a member's password", account.ResetPassword).WithErrors(409).Small(),
		web.On("DELETE /oidc/org/members/{id}", auth.WriteMembers, 204, "Remove a member or revoke an invitation", account.Remove).WithErrors(409),

		// OAuth clients
		web.On("GET /oidc/clients", auth.ReadClients, 200, "List OAuth clients, newest first", oauth.List),
		web.On("POST /oidc/clients", auth.WriteClients, 200, "Create an OAuth client", oauth.Create),
		web.On("GET /oidc/clients/activity", auth.ReadClients, 200, "Get the daily users of all OAuth clients", oauth.AllActivity),
		web.On("GET /oidc/clients/{id}", auth.ReadClients, 200, "Get an OAuth client", oauth.Get),
		web.On("PUT /oidc/clients/{id}", auth.WriteClients, 200, "Update an OAuth client", oauth.Update).WithRules(web.RulesOf(oauth.CheckUpdate)).Small(),
		web.On("DELETE /oidc/clients/{id}", auth.WriteClients, 200, "Delete an OAuth client with its tokens and consents", oauth.Delete),
		web.On("POST /oidc/clients/{id}/rotate-secret", auth.WriteClients, 200, "Rotate the secret of an OAuth client", oauth.RotateSecret).Small(),
		web.On("GET /oidc/clients/{id}/activity", auth.ReadClients, 200, "Get the daily activity of an OAuth client", oauth.Activity),
		web.On("GET /oidc/clients/{id}/users", auth.WriteClients, 200, "List the users of an OAuth client", oauth.Users),
		web.On("DELETE /oidc/clients/{id}/users", auth.WriteClients, 200, "Revoke all consents to an OAuth client", oauth.RevokeAll),
		web.On("DELETE /oidc/clients/{id}/users/{user_id}", auth.WriteClients, 200, "Revoke a consent to an OAuth client", oauth.RevokeUser),
		web.On("GET /oidc/user/consent", auth.ReadConsents, 200, "List the consents of the current user", oauth.Own),
		web.On("DELETE /oidc/user/consent/{client_id}", auth.WriteConsents, 200, "Revoke a consent of the current user", oauth.RevokeOwn),
		web.On("GET /oidc/scopes", auth.ReadClients, 200, "Get the scope catalogue", oauth.Catalogue),
		web.On("GET /oidc/keys", auth.ReadSigning, 200, "List the signing keys", oauth.SigningKeys),
		web.On("POST /oidc/keys/rotate", auth.RotateKeys, 200, "Rotate the signing keys", oauth.RotateKeys).Small(),

		// API keys
		web.On("POST /cli/apikey", auth.WriteKeys, 201, "Create an API key", key.Create),
		web.On("GET /cli/apikey", auth.ReadKeys, 200, "List API keys", key.List),
		web.On("GET /cli/apikey/{id}", auth.ReadKeys, 200, "Get an API key", key.Get),
		web.On("DELETE /cli/apikey/{id}", auth.WriteKeys, 204, "Delete an API key", key.Delete),

		// Evaluations
		web.On("GET /cli/eval", auth.ReadEvals, 200, "List evaluations, newest first", s.Eval.List),
		web.On("GET /cli/eval/{id}", auth.ReadEvals, 200, "Get an evaluation", s.Eval.Get),
		web.On("PUT /cli/eval/{id}", auth.WriteEvals, 200, "Create or replace an evaluation", s.Eval.Put),
		web.On("POST /cli/devmode/eval", auth.WriteEvals, 200, "Synchronize the evaluations of a development server", s.Eval.Sync),
		web.On("GET /cli/eval-run", auth.ReadEvals, 200, "List evaluation runs, newest first", s.Eval.Runs),
		web.On("GET /cli/eval-run/stats", auth.ReadEvals, 200, "Get the results of evaluation runs over time", s.Eval.Stats),
		web.On("GET /cli/eval-run/{id}", auth.ReadEvals, 200, "Get an evaluation run", s.Eval.Run),
		web.On("POST /evalrun", auth.WriteEvals, 201, "Start an evaluation run", s.Eval.Start).WithErrors(409),
		web.On("PUT /evalrun", auth.WriteEvals, 200, "Complete an evaluation run", s.Eval.Complete).WithMaxBody(eval.MaxBody).WithErrors(404, 409),

		// Object storage
		web.On("GET /storage/objects/{bucket}", auth.ReadObjects, 200, "List objects in byte order of their keys", s.Object.Objects),
		web.On("DELETE /storage/objects/{bucket}", auth.WriteObjects, 200, "Delete an object, or all with a prefix", s.Object.DeleteObjects),
		web.On("GET /storage/folders/{bucket}", auth.ReadObjects, 200, "List the folders and objects directly below a prefix", s.Object.Folders),
		web.On("GET /storage/presign/{bucket}", auth.ReadObjects, 200, "Create a presigned URL", s.Object.PresignURL),
		web.On("GET /storage/stats/{bucket}", auth.ReadObjects, 200, "Get the usage of a bucket", s.Object.Stats),
		web.On("GET /storage/analytics", auth.ReadObjects, 200, "Get usage and cost of all buckets over time", s.Object.Analytics),
		web.On("GET /bucket/config/{bucket}", auth.ReadObjects, 200, "Get the configuration of a bucket", s.Object.Config),
		web.On("PUT /bucket/config/{bucket}", auth.WriteObjects, 200, "Update the configuration of a bucket", s.Object.UpdateConfig).Small(),
		web.On("DELETE /bucket/config/{bucket}", auth.WriteObjects, 200, "Reset the configuration of a bucket", s.Object.ResetConfig),

		// Regions and resources
		web.On("GET /cli/region", auth.ReadRegions, 200, "List regions", s.Resource.Regions),
		web.On("GET /resource", auth.ReadResources, 200, "List resources of all regions", s.Resource.All),
		web.On("GET /resource/{orgId}/{region}", auth.ReadResources, 200, "List the resources of a region", s.Resource.List),
		web.On("POST /resource/{orgId}/{region}", auth.WriteResources, 201, "Create resources, all or none", s.Resource.Create).WithRules(web.RulesOf(s.Resource.CheckCreate)).WithErrors(409),
		web.On("DELETE /resource/{orgId}/{region}", auth.WriteResources, 204, "Delete resources with all that they hold, all or none", s.Resource.Delete).WithErrors(409),
		web.On("GET /resource/{orgId}/{region}/{name}/tables", auth.ReadResources, 200, "List the tables and views of a database", s.Resource.Tables),
		web.On("POST /resource/{orgId}/{region}/{name}/query", auth.WriteResources, 200, "Run a statement on a database", s.Resource.Query).Small(),
		web.On("GET /resource/{orgId}/{region}/{name}/keys", auth.ReadResources, 200, "List the keys of a key-value store", s.Resource.Keys),
		web.On("POST /resource/{orgId}/{region}/{name}/rotate", auth.WriteResources, 200, "Rotate the credentials of a resource", s.Resource.Rotate).WithErrors(409).Small(),

		// Threads and sessions
		web.On("GET /thread", auth.ReadThreads, 200, "List threads, newest first", s.Thread.List),
		web.On("GET /thread/{id}", auth.ReadThreads, 200, "Get a thread", s.Thread.Get),
		web.On("PUT /thread/{id}", auth.WriteThreads, 200, "Create or replace a thread", s.Thread.Put).WithRules(web.RulesOf(s.Thread.CheckPut)).WithMaxBody(thread.MaxBody).WithErrors(409),
		web.On("DELETE /thread/{id}", auth.WriteThreads, 204, "Delete a thread", s.Thread.Delete),
		web.On("GET /session", auth.ReadThreads, 200, "List sessions, newest first", s.Thread.Sessions),
		web.On("GET /session/{id}", auth.ReadThreads, 200, "Get a session", s.Thread.Session),
		web.On("POST /session", auth.WriteThreads, 201, "Start a session", s.Thread.Start).WithMaxBody(thread.MaxBody).WithErrors(404),
		web.On("PUT /session", auth.WriteThreads, 200, "Complete a session", s.Thread.Complete).WithMaxBody(thread.MaxBody).WithErrors(404),

		// Webhooks
		web.On("POST /webhook/create", auth.WriteWebhooks, 201, "Create a webhook", hook.Create),
		web.On("GET /webhook/get/{webhookId}", auth.ReadWebhooks, 200, "Get a webhook", hook.Get),
		web.On("GET /webhook/list", auth.ReadWebhooks, 200, "List webhooks, newest first", hook.List),
		web.On("PUT /webhook/update/{webhookId}", auth.WriteWebhooks, 200, "Update a webhook", hook.Update).Small(),
		web.On("POST /webhook/rotate-url/{webhookId}", auth.WriteWebhooks, 200, "Rotate the ingest URL of a webhook", hook.Rotate).Small(),
		web.On("DELETE /webhook/delete/{webhookId}", auth.WriteWebhooks, 204, "Delete a webhook and everything in it", hook.Delete),
		web.On("POST /webhook/destination-create/{webhookId}", auth.WriteWebhooks, 201, "Create a destination", hook.CreateDestination).WithErrors(409),
		web.On("GET /webhook/destination-list/{webhookId}", auth.ReadWebhooks, 200, "List destinations", hook.Destinations),
		web.On("PUT /webhook/destination-update/{webhookId}/{destinationId}", auth.WriteWebhooks, 200, "Update a destination", hook.UpdateDestination).Small(),
		web.On("DELETE /webhook/destination-delete/{webhookId}/{destinationId}", auth.WriteWebhooks, 204, "Delete a destination", hook.DeleteDestination),
		web.On("POST /webhook/destination-test/{webhookId}/{destinationId}", auth.WriteWebhooks, 200, "Send a test event to a destination", hook.TestDestination).Small(),
		web.On("POST /webhook/destination-recover/{webhookId}/{destinationId}", auth.WriteWebhooks, 200, "Make all waiting retries of a destination due now", hook.RecoverDestination).WithErrors(409).Small(),
		web.On("GET /webhook/receipt-list/{webhookId}", auth.ReadWebhooks, 200, "List receipts, newest first", hook.Receipts),
		web.On("GET /webhook/receipt-get/{webhookId}/{receiptId}", auth.ReadWebhooks, 200, "Get a receipt", hook.Receipt),
		web.On("GET /webhook/receipt-payload/{webhookId}/{receiptId}", auth.ReadWebhooks, 200, "Get the raw body of a receipt", hook.Payload),
		web.On("GET /webhook/delivery-list/{webhookId}", auth.ReadWebhooks, 200, "List deliveries, newest first", hook.Deliveries),
		web.On("POST /webhook/delivery-retry/{webhookId}/{deliveryId}", auth.WriteWebhooks, 200, "Retry a failed delivery", hook.Retry).WithErrors(409),
		web.On("POST /webhook/replay/{webhookId}", auth.WriteWebhooks, 201, "Deliver receipts of a stretch of time again", s.Replay.Create).WithErrors(409).WithAlternative(200, replay.Count{}),
		web.On("GET /webhook/replay/{webhookId}", auth.ReadWebhooks, 200, "List replays, newest first", s.Replay.List),
		web.On("GET /webhook/replay/{webhookId}/{replayId}", auth.ReadWebhooks, 200, "Get a replay", s.Replay.Get),
		web.On("DELETE /webhook/replay/{webhookId}/{replayId}", auth.WriteWebhooks, 204, "Cancel a replay", s.Replay.Cancel).WithErrors(409),
		web.On("GET /webhook/tail", auth.ReadWebhooks, 200, "Follow the receipts and deliveries of all webhooks", s.Tail.All),
		web.On("GET /webhook/tail/{webhookId}", auth.ReadWebhooks, 200, "Follow the receipts and deliveries of a webhook", s.Tail.One),
		web.On("GET /webhook/analytics/org", auth.ReadWebhooks, 200, "Get webhook totals", hook.Analytics),
		web.On("GET /webhook/analytics/org/timeseries", auth.ReadWebhooks, 200, "Get webhook totals over time", hook.Timeseries),
	})
}
