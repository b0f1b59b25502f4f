package app

// A new route needs a step here. If its body has rules that its schema does not tell, they go below.

// steps is a request to each route, in an order in which each has something to show. Words that
// begin with $ are replaced by what an earlier request saved: `save` names the variable and the
// path of its value in the response.
var steps = []struct{ request, body, save string }{
	{"GET /cli/auth/user", "", "$user id"},
	{"GET /cli/organization", "", ""},
	{"POST /cli/project", `{"name":"walk"}`, "$project id"},
	{"GET /cli/organization", "", "$org 0.id"},
	{"PUT /cli/organization/$org", `{"name":"walk","require_mfa":{"factor":"any","from":"owner"}}`, ""},
	{"PUT /cli/organization/$org", `{"require_mfa":null}`, ""},
	{"POST /cli/organization", `{"name":"walk"}`, ""},
	{"DELETE /cli/organization/$org", "", ""},
	{"POST /cli/organization/$org/restore", "", ""},
	{"GET /cli/project", "", ""},
	{"POST /oidc/org/members", `{"email":"walk@example.com","role":"viewer"}`, "$member id"},
	{"PUT /oidc/org/members/$member", `{"first_name":"Ada","photo_url":null}`, ""},
	{"GET /oidc/org/members", "", ""},
	{"POST /oidc/org/members/$member/invite", "", ""},
	{"POST /oidc/org/members/$member/reset-password", "", ""},
	{"POST /oidc/org/members/$joined/reset-password", "", ""},
	{"POST /oidc/clients", `{"name":"walk","description":"","homepage_url":"https://a.example","icon":null}`, "$client client.id"},
	{"GET /oidc/clients", "", ""},
	{"GET /oidc/clients/$client", "", ""},
	{"PUT /oidc/clients/$client", `{"access_token_lifetime_seconds":3600.0,"project_id":"$project","backchannel_logout_uri":"https://a.example/out","frontchannel_logout_uri":"https://a.example/bye"}`, ""},
	{"POST /oidc/clients/$client/rotate-secret", "", ""},
	{"PUT /oidc/clients/$client", `{"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}}`, ""},
	{"GET /oidc/clients/activity", "", ""},
	{"GET /oidc/clients/$client/activity", "", ""},
	{"GET /oidc/clients/$client/users", "", ""},
	{"DELETE /oidc/clients/$client/users", "", ""},
	{"DELETE /oidc/clients/$client/users/nobody", "", ""},
	{"GET /oidc/user/consent", "", ""},
	{"DELETE /oidc/user/consent/$client", "", ""},
	{"GET /oidc/scopes", "", ""},
	{"POST /oidc/keys/rotate", "", ""},
	{"GET /oidc/keys", "", ""},
	{"POST /oidc/upstream", `{"name":"walk","issuer":"https://a.example","client_id":"c","client_secret":"s","groups_claim":"g","group_roles":[{"group":"a","role":"admin"}]}`, "$upstream id"},
	{"GET /oidc/upstream", "", ""},
	{"GET /oidc/upstream/$upstream", "", ""},
	{"PUT /oidc/upstream/$upstream", `{"default_role":"viewer","client_secret":null}`, ""},
	{"DELETE /oidc/upstream/$upstream", "", ""},
	{"POST /oidc/registration-token", `{"name":"walk","expires_in":3600,"uses":5}`, "$registration id"},
	{"GET /oidc/registration-token", "", ""},
	{"DELETE /oidc/registration-token/$registration", "", ""},
	{"DELETE /oidc/clients/$client", "", ""},
	{"POST /cli/apikey", `{"name":"walk","projectId":"$project"}`, "$key id"},
	{"POST /cli/apikey", `{"name":"expires","expiresAt":"2099-01-01T00:00:00Z"}`, ""},
	{"GET /cli/apikey", "", ""},
	{"GET /cli/apikey/$key", "", ""},
	{"DELETE /cli/apikey/$key", "", ""},
	{"PUT /thread/walk", `{"project_id":"$project","user_data":"{}","metadata":{"a":1}}`, ""},
	{"PUT /thread/bare", `{"project_id":"$project"}`, ""},
	{"GET /thread/walk", "", ""},
	{"GET /thread/bare", "", ""},
	{"DELETE /thread/bare", "", ""},
	{"PUT /thread/bare", `{"project_id":"$project"}`, ""},
	{"GET /thread", "", ""},
	{"GET /thread?deleted=true", "", ""},
	{"POST /session", `{"id":"walk","orgId":"$org","projectId":"$project","routeId":"r","environment":"e","devmode":false,` +
		`"url":"u","method":"GET","trigger":"api"}`, ""},
	{"GET /session/walk", "", ""},
	{"PUT /session", `{"id":"walk","threadId":"walk","statusCode":200,"agentIds":["a"],"userData":"{}","metadata":{}}`, ""},
	{"PUT /session", `{"id":"late","threadId":null,"statusCode":500,"error":"no"}`, ""},
	{"GET /session", "", ""},
	{"GET /session/late", "", ""},
	{"PUT /cli/eval/walk", `{"name":"walk","agentIdentifier":"a","projectId":"$project","description":"d","version":"1"}`, ""},
	{"GET /cli/eval/walk", "", ""},
	{"POST /cli/devmode/eval", `{"create":[{"id":"dev","name":"dev","agentIdentifier":"a","projectId":"$project"}],"delete":["x"]}`, ""},
	{"GET /cli/eval", "", ""},
	{"POST /evalrun", `{"id":"walk","sessionId":"walk","evalId":"walk","orgId":"$org","projectId":"$project"}`, ""},
	{"POST /evalrun", `{"id":"open","sessionId":"walk","evalId":"unknown","orgId":"$org","projectId":"$project"}`, ""},
	{"POST /evalrun", `{"id":"open","sessionId":"other","evalId":"unknown","orgId":"$org","projectId":"$project"}`, ""},
	{"PUT /evalrun", `{"id":"walk","result":{"success":false}}`, ""},
	{"PUT /evalrun", `{"id":"nothing"}`, ""},
	{"GET /cli/eval-run", "", ""},
	{"GET /cli/eval-run/stats?evalId=walk&granularity=day", "", ""},
	{"GET /cli/eval-run/walk", "", ""},
	{"GET /cli/eval-run/open", "", ""},
	{"GET /cli/region", "", ""},
	{"POST /resource/$org/local", `{"resources":[{"type":"s3","name":"walk-bucket","description":"d"},{"type":"s3","name":null},` +
		`{"type":"db","name":"walk","description":"d"},{"type":"kv","name":"walk"},{"type":"kv"}]}`, ""},
	{"GET /resource/$org/local", "", ""},
	{"GET /resource", "", ""},
	{"GET /resource?type=s3", "", ""},
	{"POST /resource/$org/local/walk/query", `{"query":"CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b TEXT NOT NULL)"}`, ""},
	{"POST /resource/$org/local/walk/query", `{"query":"INSERT INTO t VALUES (?, ?)","args":[1,"a"]}`, ""},
	{"POST /resource/$org/local/walk/query", `{"query":"SELECT a, b, a * 0.5, NULL, x'00' FROM t"}`, ""},
	{"POST /resource/$org/local/walk/query", `{"query":"SELECT nothing"}`, ""},
	{"GET /resource/$org/local/walk/tables", "", ""},
	{"GET /resource/$org/local/walk/keys?prefix=a&limit=10", "", ""},
	{"PUT /resource/$org/local/walk/value?key=a", `{"type":"string","item":{"value":"a"},"ttl_ms":60000}`, ""},
	{"PUT /resource/$org/local/walk/value?key=a", `{"type":"hash","item":{"field":"a","value":"b"}}`, ""},
	{"PUT /resource/$org/local/walk/value?key=a", `{"ttl_ms":0}`, ""},
	{"PUT /resource/$org/local/walk/value?key=b", `{"type":"zset","item":{"member":{"base64":"/w=="},"score":"1.5"}}`, ""},
	{"PUT /resource/$org/local/walk/value?key=c", `{"type":"stream","item":{"id":"1-1","fields":[{"field":"a","value":"b"}]}}`, ""},
	{"PUT /resource/$org/local/walk/value?key=c", `{"type":"stream","item":{}}`, ""},
	{"GET /resource/$org/local/walk/value?key=a", "", ""},
	{"GET /resource/$org/local/walk/value?key=b&limit=1", "", ""},
	{"GET /resource/$org/local/walk/value?key=c&cursor=0-1", "", ""},
	{"GET /resource/$org/local/walk/keys?type=zset&values=true", "", ""},
	{"DELETE /resource/$org/local/walk/value?key=b&item=_w&encoding=base64", "", ""},
	{"DELETE /resource/$org/local/walk/value?key=a", "", ""},
	{"POST /resource/$org/local/walk/rotate", "", ""},
	{"POST /resource/$org/local/walk/rotate?type=db", "", ""},
	{"POST /resource/$org/local/walk/rotate?type=kv", "", ""},
	{"POST /resource/$org/local/walk-bucket/rotate", "", ""},
	{"GET /bucket/config/walk-bucket", "", ""},
	{"PUT /bucket/config/walk-bucket", `{"storage_tier":"ARCHIVE","ttl":60,"public":true,"cache_control":"no-store",` +
		`"cors":{"allowed_origins":["https://a.example"],"allowed_methods":["GET"]},"additional_headers":{"X-A":"b"}}`, ""},
	{"GET /storage/objects/walk-bucket", "", ""},
	{"GET /storage/folders/walk-bucket", "", ""},
	{"GET /storage/presign/walk-bucket?key=a/b", "", ""},
	{"GET /storage/stats/walk-bucket", "", ""},
	{"GET /storage/analytics", "", ""},
	{"DELETE /storage/objects/walk-bucket?prefix=a", "", ""},
	{"DELETE /bucket/config/walk-bucket", "", ""},
	{"DELETE /resource/$org/local", `{"resources":[{"type":"s3","name":"walk-bucket","if_empty":true},` +
		`{"type":"db","name":"walk"},{"type":"kv","name":"walk"}]}`, ""},
	{"POST /webhook/create", `{"name":"walk","retention_seconds":3600}`, "$hook id"},
	{"POST /webhook/create", `{"name":"walk","description":null}`, "$url url"},
	{"GET /webhook/url/$hook", "", ""},
	{"GET /webhook/list", "", "$other 0.id"},
	{"GET /webhook/list?internal=false", "", "$other 0.id"},
	{"GET /webhook/get/$hook", "", ""},
	{"PUT /webhook/update/$hook", `{"description":"d","retention_seconds":null}`, ""},
	{"PUT /webhook/update/$hook", `{"verification":{"type":"stripe","secrets":["whsec_a"],"tolerance_seconds":60}}`, ""},
	{"PUT /webhook/update/$hook", `{"dedupe":{"by":"path","path":"$.id","window_seconds":60}}`, ""},
	{"POST /webhook/rotate-url/$hook", "", ""},
	{"POST /webhook/destination-create/$other", `{"type":"http","config":{"url":"http://127.0.0.1:9/","extra":[1],"headers":null}}`, "$destination id"},
	{"GET /webhook/destination-list/$other", "", ""},
	{"PUT /webhook/destination-update/$other/$destination", `{"config":{"url":"http://127.0.0.1:9/"}}`, ""},
	{"POST /webhook/destination-test/$other/$destination", "", ""},
	{"PUT /webhook/destination-update/$other/$destination", `{"config":{"url":"http://127.0.0.1:9/","paused":false,` +
		`"rate":{"limit":10,"per":"second"},"retry":{"type":"list","delays_seconds":[1,2]}}}`, ""},
	{"POST /webhook/destination-rotate-secret/$other/$destination", "", ""},
	{"POST /webhook/destination-recover/$other/$destination", `{"rate":10}`, ""},
	{"POST $url", `{"a":1}`, ""},
	{"GET /webhook/receipt-list/$other", "", "$receipt 0.id"},
	{"POST /webhook/filter-test/$other", `{"filter":{"body":{"a":1}}}`, ""},
	{"GET /webhook/rejected-list/$other", "", ""},
	{"GET /webhook/receipt-get/$other/$receipt", "", ""},
	{"GET /webhook/receipt-payload/$other/$receipt", "", ""},
	{"GET /webhook/receipt-neighbors/$other/$receipt", "", ""},
	{"GET /webhook/receipt-list/$other?q=a&state=pending&destinationId=$destination&limit=1", "", ""},
	{"GET /webhook/receipt-export/$other?q=a", "", ""},
	{"GET /webhook/delivery-list/$other", "", "$delivery 0.id"},
	{"GET /webhook/delivery-list/$other?status=failing", "", ""},
	{"POST /webhook/delivery-retry/$other/$delivery", "", ""},
	{"POST /webhook/delivery-retry/$other/$failed", "", ""},
	{"POST /webhook/replay/$other", `{"since":"2026-01-01T00:00:00Z","dry_run":true}`, ""},
	{"POST /webhook/replay/$other", `{"since":"2026-01-01T00:00:00Z","status":"pending","to":"$destination","rate":5}`, "$replay id"},
	{"POST /webhook/replay/$other", `{"receiptIds":["$receipt"],"dry_run":true}`, ""},
	{"POST /webhook/replay/$other", `{"receiptIds":["$receipt"]}`, ""},
	{"GET /webhook/replay/$other", "", ""},
	{"GET /webhook/replay/$other/$replay", "", ""},
	{"DELETE /webhook/replay/$other/$replay", "", ""},
	{"GET /webhook/replay/$other/$replay", "", ""},
	{"GET /webhook/tail?since=2026-01-01T00:00:00Z&follow=false", "", ""},
	{"GET /webhook/tail/$other?follow=false", "", ""},
	{"GET /webhook/analytics/org", "", ""},
	{"GET /webhook/analytics/org/timeseries", "", ""},
	{"GET /webhook/analytics/org/timeseries?webhookId=$other", "", ""},
	{"DELETE /webhook/destination-delete/$other/$destination", "", ""},
	{"DELETE /webhook/delete/$other", "", ""},
	{"GET /audit", "", ""},
	{"GET /status", "", ""},
	{"GET /search?q=walk", "", ""},
	{"DELETE /oidc/org/members/$member/factors", "", ""},
	{"DELETE /oidc/org/members/$member", "", ""},
	{"DELETE /cli/project/$project", "", ""},
}

// bodyFaults are the faults that bodies of a route can have beyond its schema.
type bodyFaults struct {
	route string
	// path is that of the requests, with the ids of what the fixture has.
	path string
	// valid is a body without a fault, to which each fault is added.
	valid string
	// rules are none if the schema of the route says everything.
	rules []fault
}

// fault is a value that makes a body invalid, and the place of it.
type fault struct {
	at string
	// value is JSON, or "" to leave the value out.
	value string
	// needs are the places of other values without which nothing is known about this one.
	needs []string
}

// bodyFaultsOf returns the table of all routes that take a body.
func (f *faultFixture) bodyFaultsOf() []bodyFaults {
	control := `"a\u0007"`
	malformed := `"a b"`
	return []bodyFaults{
		{"POST /cli/project", "/cli/project", `{"name":"a"}`, []fault{{at: "name", value: control}}},
		{"POST /cli/organization", "/cli/organization", `{"name":"a"}`, []fault{{at: "name", value: control}}},
		{
			"PUT /cli/organization/{id}", "/cli/organization/" + f.orgID, `{"name":"A","require_mfa":{"factor":"any","from":"owner"}}`,
			[]fault{{at: "name", value: control}},
		},
		{
			"POST /oidc/org/members", "/oidc/org/members", `{"email":"b@a.example","role":"viewer","first_name":"A","last_name":"B"}`,
			[]fault{{at: "email", value: `"a@b@c.example"`}, {at: "first_name", value: control}, {at: "last_name", value: control}},
		},
		{
			"PUT /oidc/org/members/{id}", "/oidc/org/members/" + f.member, `{"first_name":"A","last_name":"B","role":"viewer"}`,
			[]fault{{at: "first_name", value: control}, {at: "last_name", value: control}},
		},
		{
			"POST /oidc/clients", "/oidc/clients",
			`{"name":"a","description":"b","homepage_url":"https://a.example","client_type":"public","project_id":"p",
				"redirect_uris":["https://a.example/","https://a.example/","com.example.app:/callback"],
				"post_logout_redirect_uris":["https://a.example/"],"grant_types":["authorization_code"],
				"scopes":["openid","openid","profile"],"allowed_user_ids":["usr_1","usr_1","usr_2"]}`,
			append(clientFaults(), []fault{
				{at: "redirect_uris[2]", value: `"http://a.example/"`},
				{at: "scopes[2]", value: `"nothing"`},
				{at: "allowed_user_ids[2]", value: `"inv_1"`},
				{at: "client_type", value: `"secret"`},
				{at: "grant_types[0]", value: `"client_credentials"`, needs: []string{"client_type"}},
				{at: "audience", value: `"https://a.example/"`, needs: []string{"client_type"}},
			}...),
		},
		{
			"PUT /oidc/clients/{id}", "/oidc/clients/" + f.client,
			`{"name":"a","redirect_uris":["https://a.example/"],"post_logout_redirect_uris":["https://a.example/"]}`,
			append(clientFaults(), []fault{
				{at: "redirect_uris[0]", value: `"com.example.app:/callback"`, needs: []string{"client_type"}},
				{at: "scopes", value: `["openid","openid","nothing"]`},
			}...),
		},
		{
			"POST /oidc/upstream", "/oidc/upstream",
			`{"name":"a","issuer":"https://a.example","client_id":"c","scopes":["openid"],"default_role":"member"}`,
			upstreamFaults(),
		},
		{
			"PUT /oidc/upstream/{id}", "/oidc/upstream/" + f.upstream, `{"name":"a","scopes":["openid"]}`, upstreamFaults(),
		},
		{
			"POST /oidc/registration-token", "/oidc/registration-token", `{"name":"a","expires_in":60,"uses":1}`,
			[]fault{{at: "name", value: `"a\u0007"`}, {at: "expires_in", value: "59"}, {at: "uses", value: "0"}},
		},
		{
			"POST /cli/apikey", "/cli/apikey", `{"name":"a","scopes":["webhook:read","webhook:read","thread:read"],"projectId":"p"}`,
			[]fault{{at: "expiresAt", value: `"2020-01-01T00:00:00Z"`}, {at: "scopes[2]", value: `"nothing"`}, {at: "projectId", value: `".."`}},
		},
		{
			"PUT /cli/eval/{id}", "/cli/eval/e", `{"name":"a","agentIdentifier":"a","projectId":"p","deploymentId":"d"}`,
			[]fault{{at: "name", value: `" "`}, {at: "agentIdentifier", value: `""`}, {at: "projectId", value: malformed}, {at: "deploymentId", value: malformed}},
		},
		{
			"POST /cli/devmode/eval", "/cli/devmode/eval",
			`{"deploymentId":"d","create":[{"id":"e","name":"a","agentIdentifier":"a","projectId":"p"}],"delete":["x"]}`,
			[]fault{
				{at: "create[0].id", value: malformed},
				{at: "create[0].name", value: `""`},
				{at: "delete[0]", value: malformed},
				{at: "deploymentId", value: malformed},
			},
		},
		{
			"POST /evalrun", "/evalrun", `{"id":"r","sessionId":"s","evalId":"e","orgId":"` + f.orgID + `","projectId":"p"}`,
			[]fault{
				{at: "id", value: malformed},
				{at: "sessionId", value: malformed},
				{at: "evalId", value: malformed},
				{at: "projectId", value: malformed},
				{at: "timestamp", value: `"soon"`},
			},
		},
		{
			"PUT /evalrun", "/evalrun", `{"id":"r","result":{"success":true}}`,
			[]fault{{at: "id", value: malformed}, {at: "timestamp", value: `-1`}},
		},
		{
			"PUT /bucket/config/{bucket}", "/bucket/config/" + f.bucket,
			`{"cors":{"allowed_origins":["https://a.example","https://b.example"],"allowed_methods":["GET"]},"additional_headers":{"x-a":"b"}}`,
			[]fault{
				{at: "ttl", value: `-1`},
				{at: "cors.allowed_origins[0]", value: malformed},
				{at: "cors.allowed_methods[0]", value: `"LOOK"`},
				{at: "cors.expose_headers", value: `["x-a","x b"]`},
				{at: "cors.max_age_seconds", value: `-1`},
				{at: "cache_control", value: control},
				{at: "additional_headers.set-cookie", value: `"a"`},
			},
		},
		{
			"POST /resource/{orgId}/{region}", "/resource/" + f.orgID + "/" + databasesOnly,
			`{"resources":[{"type":"db","name":"one","description":"a"},{"type":"db","name":"two"}]}`,
			[]fault{
				{at: "resources[0].type", value: `"kv"`},
				{at: "resources[0].name", value: `"A"`},
				{at: "resources[1].name", value: `"one"`, needs: []string{"resources[0].type", "resources[0].name", "resources[1].type"}},
			},
		},
		{
			"POST /resource/{orgId}/{region}/{name}/query", "/resource/" + f.orgID + "/" + databasesOnly + "/one/query",
			`{"query":"SELECT ?1, ?2","args":[1,"a"]}`,
			[]fault{{at: "args[0]", value: `{"secret":1}`}, {at: "args[1]", value: `[]`}},
		},
		{
			"PUT /resource/{orgId}/{region}/{name}/value", "/resource/" + f.orgID + "/local/one/value?key=k",
			`{"type":"zset","item":{"member":"a","score":"1"},"ttl_ms":1000}`,
			[]fault{{at: "item.score", value: `"x"`, needs: []string{"type"}}},
		},
		{
			"DELETE /resource/{orgId}/{region}", "/resource/" + f.orgID + "/" + databasesOnly,
			`{"resources":[{"type":"db","name":"one"},{"type":"db","name":"two"}]}`,
			[]fault{{at: "resources[1].name", value: `"one"`, needs: []string{"resources[0].type", "resources[0].name", "resources[1].type"}}},
		},
		{
			"PUT /thread/{id}", "/thread/new", `{"project_id":"p","user_data":"{}","metadata":{"a":1}}`,
			[]fault{{at: "project_id"}, {at: "project_id", value: malformed}, {at: "user_data", value: `"{"`}},
		},
		{
			"POST /session", "/session", `{"id":"s","threadId":"t","orgId":"` + f.orgID + `","projectId":"p","routeId":"r","environment":"e",
				"devmode":false,"url":"/","method":"GET","trigger":"api"}`,
			[]fault{{at: "id", value: malformed}, {at: "projectId", value: malformed}, {at: "threadId", value: malformed}, {at: "timestamp", value: `{}`}},
		},
		{
			"PUT /session", "/session", `{"id":"s","threadId":"t","statusCode":200,"agentIds":["a"]}`,
			[]fault{{at: "id", value: malformed}, {at: "threadId", value: malformed}, {at: "timestamp", value: `"soon"`}},
		},
		{
			"POST /webhook/create", "/webhook/create", `{"name":"a","description":"b","dedupe":{"by":"path","path":"$.id"}}`,
			[]fault{{at: "name", value: `" "`}, {at: "retention_seconds", value: `1e9`}, {at: "dedupe.path", value: `"a..b"`}},
		},
		{
			"POST /webhook/filter-test/{webhookId}", "/webhook/filter-test/" + f.hook, `{"filter":{"body":{"a":1}}}`,
			[]fault{{at: "filter.Body", value: `1`}, {at: "filter.body.a", value: `[1]`}},
		},
		{
			"PUT /webhook/update/{webhookId}", "/webhook/update/" + f.hook, `{"name":"a","description":"b"}`,
			[]fault{{at: "name", value: `" "`}, {at: "retention_seconds", value: `1e9`}},
		},
		{
			"POST /webhook/destination-create/{webhookId}", "/webhook/destination-create/" + f.hook,
			`{"type":"url","config":{"url":"https://a.example","headers":{"x-a":"b"}}}`,
			[]fault{{at: "config.url", value: `"ftp://a.example"`}, {at: "config.headers.a b", value: `"c"`}},
		},
		{
			"PUT /webhook/destination-update/{webhookId}/{destinationId}", "/webhook/destination-update/" + f.hook + "/" + f.destination,
			`{"config":{"url":"https://a.example","headers":{"x-a":"b"}}}`,
			[]fault{{at: "config.url", value: `"ftp://a.example"`}, {at: "config.headers.a b", value: `"c"`}},
		},
		{
			"POST /webhook/destination-recover/{webhookId}/{destinationId}", "/webhook/destination-recover/" + f.hook + "/" + f.destination,
			`{"rate":1}`, nil,
		},
		{"POST /webhook/delivery-retry/{webhookId}/{deliveryId}", "/webhook/delivery-retry/" + f.hook + "/" + f.failed, `{}`, nil},
		{
			"POST /webhook/replay/{webhookId}", "/webhook/replay/" + f.hook, `{"since":"2026-01-15","until":"2026-01-16","dry_run":true}`,
			[]fault{{at: "since", value: `"2999-01-01"`}, {at: "until", value: `"2026-02-30"`}},
		},
	}
}

// clientFaults are those of creating and of updating an OAuth client.
func clientFaults() []fault {
	return []fault{
		{at: "name", value: `"a\u0007"`},
		{at: "homepage_url", value: `"ftp://a.example"`},
		{at: "icon", value: `"http://a.example"`},
		{at: "project_id", value: `"a b"`},
		{at: "post_logout_redirect_uris[0]", value: `"http://a.example/"`},
		{at: "backchannel_logout_uri", value: `"http://a.example/"`},
		{at: "frontchannel_logout_uri", value: `"https://a.example/#out"`},
		{at: "token_endpoint_auth_method", value: `"tls_client_auth"`},
		{at: "jwks", value: `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`},
		{at: "jwks_uri", value: `"http://a.example/jwks"`},
		{at: "response_types", value: `["token"]`},
		{at: "access_token_lifetime_seconds", value: "1"},
	}
}

// upstreamFaults returns rules that creating and updating an upstream have in common.
func upstreamFaults() []fault {
	return []fault{
		{at: "name", value: `"a\u0007"`},
		{at: "issuer", value: `"http://a.example"`},
		{at: "client_id", value: `"a b"`},
		{at: "scopes", value: `["profile"]`},
		{at: "domains", value: `["a"]`},
		{at: "default_role", value: `"owner"`},
	}
}
