package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/resource"
)

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
			"POST /alert", "/alert",
			`{"name":"a","kind":"delivery_pass_rate","params":{"minutes":5},"target":{"type":"slack","url":"https://a.example"}}`,
			[]fault{
				{at: "name", value: control},
				{at: "params.minutes", value: "1441"},
				{at: "params.webhook_id", value: `"wh_1"`},
				{at: "params.eval_id", value: `"e"`, needs: []string{"kind"}},
				{at: "target.url", value: `"ftp://a.example"`, needs: []string{"target.type"}},
			},
		},
		{"PUT /alert/{id}", "/alert/" + f.alert, `{"name":"a","params":{"minutes":5}}`, []fault{{at: "name", value: control}}},
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

// databasesOnly is a region that has no engine but that of databases.
const databasesOnly = "databases"

// faultFixture is a fixture with one of each thing that requests with a body change.
type faultFixture struct {
	*fixture
	schemas                                           map[string]schema
	member, client, bucket, hook, destination, failed string
	upstream, alert                                   string
}

func newFaultFixture(t *testing.T, d *db.DB) *faultFixture {
	f := &faultFixture{fixture: newFixture(t, d, nil)}
	manager := f.server.Resource.Manager
	manager.Regions = append(manager.Regions, resource.Region{Region: databasesOnly, DB: manager.Regions[0].DB})
	f.member = f.create("/oidc/org/members", `{"email":"a@a.example","role":"viewer"}`, "id")
	f.client = f.create("/oidc/clients", `{"name":"a","description":"b","homepage_url":"https://a.example"}`, "client", "id")
	f.upstream = f.create("/oidc/upstream", `{"name":"a","issuer":"https://a.example","client_id":"c"}`, "id")
	f.alert = f.create("/alert", `{"name":"a","kind":"destination_failing","target":{"type":"slack","url":"https://a.example"}}`, "id")
	f.bucket = f.create("/resource/"+f.orgID+"/local", `{"resources":[{"type":"s3"}]}`, "created", "0", "name")
	f.hook = f.create("/webhook/create", `{"name":"a"}`, "id")
	f.destination = f.create("/webhook/destination-create/"+f.hook, `{"type":"url","config":{"url":"https://a.example"}}`, "id")
	f.failed = "whdv_none"
	return f
}

// create creates a thing and returns the text at a path of the response.
func (f *faultFixture) create(path, body string, keys ...string) string {
	f.t.Helper()
	got := f.send("owner", "POST", path, body)
	var value any
	if err := json.Unmarshal(got.Body.Bytes(), &value); err != nil || got.Code >= 300 {
		f.t.Fatalf("POST %s: %d %s", path, got.Code, got.Body)
	}
	for _, key := range keys {
		value = *member(value, key)
	}
	return value.(string)
}

// TestEveryRouteReportsAllFaultsOfABody walks the routes that take a body. It combines each rule of the table
// with each fault of the schema and with each other rule, and checks that one response reports both, each at its
// place and once.
func TestEveryRouteReportsAllFaultsOfABody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFaultFixture(t, d)
		bodies := f.requestBodies()
		for _, b := range f.bodyFaultsOf() {
			body, takesBody := bodies[b.route]
			if !takesBody {
				t.Errorf("%s takes no body", b.route)
			}
			delete(bodies, b.route)
			f.t = t
			f.checkFaults(b, body)
		}
		for route := range bodies {
			t.Errorf("%s takes a body and is not in the table", route)
		}
	})
}

func (f *faultFixture) checkFaults(b bodyFaults, s schema) {
	ofSchema := f.schemaFaults(s, parse(f.t, b.valid), "")
	f.checkFault(b, `[]`, "body")
	for i, rule := range b.rules {
		f.checkFault(b, with(f.t, b.valid, rule), "body."+rule.at)
		for _, other := range append(ofSchema, b.rules[:i]...) {
			if rule.independent(other) {
				f.checkFault(b, with(f.t, b.valid, rule, other), "body."+rule.at, "body."+other.at)
			}
		}
	}
	for _, other := range ofSchema {
		f.checkFault(b, with(f.t, b.valid, other), "body."+other.at)
	}
	method, _, _ := strings.Cut(b.route, " ")
	if got := f.send("owner", method, b.path, b.valid); got.Code >= 300 && got.Code != 404 {
		f.t.Errorf("%s %s: %d %s, want it to be valid", b.route, b.valid, got.Code, got.Body)
	}
}

// independent reports whether each of two faults is one with and without the other.
func (a fault) independent(b fault) bool {
	near := func(a, b fault) bool {
		return slices.ContainsFunc(append(a.needs, a.at), func(at string) bool { return contains(b.at, at) })
	}
	return !near(a, b) && !near(b, a)
}

// contains reports whether one place is or contains another.
func contains(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (f *faultFixture) checkFault(b bodyFaults, body string, want ...string) {
	method, _, _ := strings.Cut(b.route, " ")
	got := f.send("owner", method, b.path, body)
	locations := locationsOf(got)
	for i, location := range locations { // the place of a fault in a list that is one value of the table
		if j := slices.IndexFunc(want, func(w string) bool { return contains(w, location) }); j >= 0 {
			locations[i] = want[j]
		}
	}
	slices.Sort(locations)
	slices.Sort(want)
	if got.Code != 422 || !slices.Equal(locations, want) {
		f.t.Errorf("%s %s: %d %s\nwant one fault at each of %s", b.route, body, got.Code, got.Body, want)
	}
}

// schema is a JSON schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	AnyOf                []schema
	Items                *schema
	Properties           map[string]schema
	AdditionalProperties any
	Required             []string
}

// requestBodies returns the schemas of the bodies of all routes that take one.
func (f *faultFixture) requestBodies() map[string]schema {
	var doc struct {
		Components struct{ Schemas map[string]schema }
		Paths      map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			}
		}
	}
	if err := json.Unmarshal(f.send("", "GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		f.t.Fatal(err)
	}
	f.schemas = doc.Components.Schemas
	bodies := map[string]schema{}
	for _, r := range f.routes {
		if body := doc.Paths[r.Path][strings.ToLower(r.Method)].RequestBody; body != nil {
			bodies[r.Pattern()] = body.Content["application/json"].Schema
		}
	}
	return bodies
}

// resolve returns the schema that another one refers to.
func (f *faultFixture) resolve(s schema) schema {
	for s.Ref != "" || len(s.AnyOf) > 0 {
		if len(s.AnyOf) > 0 {
			s = s.AnyOf[0]
			continue
		}
		s = f.schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	return s
}

// schemaFaults returns the faults that a schema makes of a valid value and of the values in it: those of another
// type, and those that are missing.
func (f *faultFixture) schemaFaults(s schema, value any, at string) (found []fault) {
	s = f.resolve(s)
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			place := strings.TrimPrefix(at+"."+name, ".")
			if wrong := wrongType(f.resolve(s.Properties[name])); wrong != "" {
				found = append(found, fault{at: place, value: wrong})
			}
			if slices.Contains(s.Required, name) {
				found = append(found, fault{at: place})
			}
			if member, ok := v[name]; ok {
				found = append(found, f.schemaFaults(s.Properties[name], member, place)...)
			}
		}
		if texts, ok := s.AdditionalProperties.(map[string]any); ok && texts["type"] == "string" {
			found = append(found, fault{at: at + ".x-number", value: "7"})
		}
	case []any:
		for i, item := range v {
			place := fmt.Sprintf("%s[%d]", at, i)
			if wrong := wrongType(f.resolve(*s.Items)); wrong != "" {
				found = append(found, fault{at: place, value: wrong})
			}
			found = append(found, f.schemaFaults(*s.Items, item, place)...)
		}
	}
	return found
}

// wrongType returns a value of another type than those of a schema, or "" if it has none.
func wrongType(s schema) string {
	types, isList := s.Type.([]any)
	if isList {
		s.Type = types[0]
	}
	switch s.Type {
	case nil:
		return ""
	case "string", "array", "object":
		return "7"
	}
	return `"text"`
}

func parse(t testing.TB, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// with returns a body with faults.
func with(t testing.TB, body string, faults ...fault) string {
	tree := parse(t, body)
	for _, f := range faults {
		place := &tree
		keys := placeKey.FindAllString(f.at, -1)
		for _, key := range keys[:len(keys)-1] {
			place = member(*place, key)
		}
		last := keys[len(keys)-1]
		switch parent := (*place).(type) {
		case map[string]any:
			delete(parent, last)
			if f.value != "" {
				parent[last] = parse(t, f.value)
			}
		case []any:
			*member(parent, last) = parse(t, f.value)
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// placeKey matches the keys and indices of a place.
var placeKey = regexp.MustCompile(`[^.\[\]]+`)

// member returns the value at a key of an object or an index of an array.
func member(value any, key string) *any {
	if list, ok := value.([]any); ok {
		i, _ := strconv.Atoi(key)
		return &list[i]
	}
	object, _ := value.(map[string]any)
	v := object[key]
	return &v
}
