package server

import "steward/internal/web"

// named returns the routes with the ids of their operations in the OpenAPI document, which clients
// are generated from. An id is part of the API: it names a method of package client.
func named(routes []web.Route) []web.Route {
	ids := operationIDs()
	for i, r := range routes {
		routes[i].ID = ids[r.Pattern()]
	}
	return routes
}

// operationIDs returns the ids of operations by the patterns of their routes.
func operationIDs() map[string]string {
	return map[string]string{
		// Account
		"GET /cli/auth/user":       "getCurrentUser",
		"GET /cli/organization":    "listOrganizations",
		"GET /cli/project":         "listProjects",
		"POST /cli/project":        "createProject",
		"DELETE /cli/project/{id}": "deleteProject",
		"GET /audit":               "listAuditEntries",
		"GET /status":              "getStatus",
		"GET /search":              "search",

		// Members
		"GET /oidc/org/members":                      "listMembers",
		"POST /oidc/org/members":                     "inviteMember",
		"PUT /oidc/org/members/{id}":                 "updateMember",
		"POST /oidc/org/members/{id}/invite":         "renewInvitation",
		"POST /oidc/org/members/{id}/reset-password": "resetMemberPassword",
		"DELETE /oidc/org/members/{id}":              "removeMember",

		// OAuth clients
		"GET /oidc/clients":                         "listOAuthClients",
		"POST /oidc/clients":                        "createOAuthClient",
		"GET /oidc/clients/activity":                "listOAuthActivity",
		"GET /oidc/clients/{id}":                    "getOAuthClient",
		"PUT /oidc/clients/{id}":                    "updateOAuthClient",
		"DELETE /oidc/clients/{id}":                 "deleteOAuthClient",
		"POST /oidc/clients/{id}/rotate-secret":     "rotateOAuthClientSecret",
		"GET /oidc/clients/{id}/activity":           "listOAuthClientActivity",
		"GET /oidc/clients/{id}/users":              "listOAuthClientUsers",
		"DELETE /oidc/clients/{id}/users":           "revokeOAuthClientUsers",
		"DELETE /oidc/clients/{id}/users/{user_id}": "revokeOAuthClientUser",
		"GET /oidc/user/consent":                    "listConsents",
		"DELETE /oidc/user/consent/{client_id}":     "revokeConsent",
		"GET /oidc/scopes":                          "getScopeCatalogue",
		"GET /oidc/keys":                            "listSigningKeys",
		"POST /oidc/keys/rotate":                    "rotateSigningKeys",

		// API keys
		"POST /cli/apikey":        "createAPIKey",
		"GET /cli/apikey":         "listAPIKeys",
		"GET /cli/apikey/{id}":    "getAPIKey",
		"DELETE /cli/apikey/{id}": "deleteAPIKey",

		// Evaluations
		"GET /cli/eval":           "listEvals",
		"GET /cli/eval/{id}":      "getEval",
		"PUT /cli/eval/{id}":      "putEval",
		"POST /cli/devmode/eval":  "syncEvals",
		"GET /cli/eval-run":       "listEvalRuns",
		"GET /cli/eval-run/stats": "getEvalRunStats",
		"GET /cli/eval-run/{id}":  "getEvalRun",
		"POST /evalrun":           "startEvalRun",
		"PUT /evalrun":            "completeEvalRun",

		// Object storage
		"GET /storage/objects/{bucket}":    "listObjects",
		"DELETE /storage/objects/{bucket}": "deleteObjects",
		"GET /storage/folders/{bucket}":    "listFolders",
		"GET /storage/presign/{bucket}":    "presignObject",
		"GET /storage/stats/{bucket}":      "getBucketStats",
		"GET /storage/analytics":           "getStorageAnalytics",
		"GET /bucket/config/{bucket}":      "getBucketConfig",
		"PUT /bucket/config/{bucket}":      "updateBucketConfig",
		"DELETE /bucket/config/{bucket}":   "resetBucketConfig",

		// Regions and resources
		"GET /cli/region":                               "listRegions",
		"GET /resource":                                 "listResources",
		"GET /resource/{orgId}/{region}":                "listRegionResources",
		"POST /resource/{orgId}/{region}":               "createResources",
		"DELETE /resource/{orgId}/{region}":             "deleteResources",
		"GET /resource/{orgId}/{region}/{name}/tables":  "listTables",
		"POST /resource/{orgId}/{region}/{name}/query":  "queryDatabase",
		"GET /resource/{orgId}/{region}/{name}/keys":    "listStoreKeys",
		"POST /resource/{orgId}/{region}/{name}/rotate": "rotateResource",

		// Threads and sessions
		"GET /thread":         "listThreads",
		"GET /thread/{id}":    "getThread",
		"PUT /thread/{id}":    "putThread",
		"DELETE /thread/{id}": "deleteThread",
		"GET /session":        "listSessions",
		"GET /session/{id}":   "getSession",
		"POST /session":       "startSession",
		"PUT /session":        "completeSession",

		// Webhooks
		"POST /webhook/create":                                           "createWebhook",
		"GET /webhook/get/{webhookId}":                                   "getWebhook",
		"GET /webhook/list":                                              "listWebhooks",
		"PUT /webhook/update/{webhookId}":                                "updateWebhook",
		"POST /webhook/rotate-url/{webhookId}":                           "rotateWebhookURL",
		"DELETE /webhook/delete/{webhookId}":                             "deleteWebhook",
		"POST /webhook/destination-create/{webhookId}":                   "createDestination",
		"GET /webhook/destination-list/{webhookId}":                      "listDestinations",
		"PUT /webhook/destination-update/{webhookId}/{destinationId}":    "updateDestination",
		"DELETE /webhook/destination-delete/{webhookId}/{destinationId}": "deleteDestination",
		"POST /webhook/destination-test/{webhookId}/{destinationId}":     "testDestination",
		"POST /webhook/destination-recover/{webhookId}/{destinationId}":  "recoverDestination",
		"GET /webhook/receipt-list/{webhookId}":                          "listReceipts",
		"GET /webhook/receipt-get/{webhookId}/{receiptId}":               "getReceipt",
		"GET /webhook/receipt-payload/{webhookId}/{receiptId}":           "getReceiptPayload",
		"GET /webhook/delivery-list/{webhookId}":                         "listDeliveries",
		"POST /webhook/delivery-retry/{webhookId}/{deliveryId}":          "retryDelivery",
		"GET /webhook/analytics/org":                                     "getWebhookAnalytics",
		"GET /webhook/analytics/org/timeseries":                          "getWebhookTimeseries",
		"GET /webhook/tail":                                              "tailWebhooks",
		"GET /webhook/tail/{webhookId}":                                  "tailWebhook",
		"POST /webhook/replay/{webhookId}":                               "createReplay",
		"GET /webhook/replay/{webhookId}":                                "listReplays",
		"GET /webhook/replay/{webhookId}/{replayId}":                     "getReplay",
		"DELETE /webhook/replay/{webhookId}/{replayId}":                  "cancelReplay",
	}
}
