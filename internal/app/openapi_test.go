package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/web"
)

// document is the OpenAPI document that a server serves, with its schemas.
type document struct {
	t        *testing.T
	tree     map[string]any
	compiler *jsonschema.Compiler
}

func (f *fixture) document(t *testing.T) *document {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(f.send("", "GET", "/openapi.json", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{t: t, tree: tree.(map[string]any), compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("doc.json", tree); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns the value at a path of keys, following references.
func (d *document) at(node any, keys ...string) any {
	for _, key := range keys {
		node = d.resolve(node)
		object, _ := node.(map[string]any)
		node = object[key]
	}
	return d.resolve(node)
}

func (d *document) resolve(node any) any {
	object, _ := node.(map[string]any)
	ref, ok := object["$ref"].(string)
	if !ok {
		return node
	}
	return d.at(d.tree, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

func (d *document) operation(r web.Route) any {
	return d.at(d.tree, "paths", r.Path, strings.ToLower(r.Method))
}

// validate returns an error if a value does not match the schema at a path of keys.
func (d *document) validate(value any, keys ...string) error {
	d.t.Helper()
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)
	}
	schema, err := d.compiler.Compile("doc.json#/" + strings.Join(keys, "/"))
	if err != nil {
		d.t.Fatal(err)
	}
	return schema.Validate(value)
}

// TestDocumentedExamplesMatchTheirSchemas also checks that no example has a made-up text.
func TestDocumentedExamplesMatchTheirSchemas(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	d := f.document(t)
	for name := range d.at(d.tree, "components", "schemas").(map[string]any) {
		properties, _ := d.at(d.tree, "components", "schemas", name, "properties").(map[string]any)
		for property, schema := range properties {
			examples, _ := schema.(map[string]any)["examples"].([]any)
			for _, example := range examples {
				if err := d.validate(example, "components", "schemas", name, "properties", property); err != nil {
					t.Errorf("the example of %s.%s: %v", name, property, err)
				}
			}
		}
	}
	for _, r := range f.routes {
		method := strings.ToLower(r.Method)
		body := []string{"requestBody", "content", "application/json"}
		response := []string{"responses", fmt.Sprint(r.Status), "content", "application/json"}
		for _, keys := range [][]string{body, response} {
			media := d.at(d.operation(r), keys...)
			if media == nil {
				continue
			}
			example := media.(map[string]any)["example"]
			at := slices.Concat([]string{"paths", r.Path, method}, keys, []string{"schema"})
			if err := d.validate(example, at...); err != nil || example == nil {
				t.Errorf("%s: the example of %s: %v", r.Pattern(), keys[0], err)
			}
			if text, err := json.Marshal(example); err != nil || bytes.Contains(text, []byte(`"text"`)) {
				t.Errorf("%s: a field has no example: %s", r.Pattern(), text)
			}
		}
	}
}

// TestRefusalsAreDocumented sends every route what it refuses whatever it does, and also looks for 409
// where another request may have been faster.
func TestRefusalsAreDocumented(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	d := f.document(t)
	documented := func(r web.Route, status int) {
		t.Helper()
		if d.at(d.operation(r), "responses", fmt.Sprint(status)) == nil {
			t.Errorf("%s: %d is not documented", r.Pattern(), status)
		}
	}
	parameter := regexp.MustCompile(`\{\w+\}`)
	for _, r := range f.routes {
		if strings.Contains(r.Path, "{") {
			for _, bad := range []string{"%ff", "%00"} {
				if got := f.send("owner", r.Method, parameter.ReplaceAllString(r.Path, bad), ""); got.Code != 400 {
					t.Errorf("%s with %s: %d %s", r.Pattern(), bad, got.Code, got.Body)
				}
			}
			documented(r, 400)
		}
		if r.Method == "GET" {
			continue
		}
		req := httptest.NewRequest(r.Method, parameter.ReplaceAllString(r.Path, "x"), strings.NewReader("x"))
		req.Header.Set("Authorization", "Bearer "+f.keys["owner"])
		req.Header.Set("Content-Type", "text/plain")
		rec := httptest.NewRecorder()
		f.handler.ServeHTTP(rec, req)
		if rec.Code != 415 {
			t.Errorf("%s with a text: %d %s", r.Pattern(), rec.Code, rec.Body)
		}
		documented(r, 415)
		if r.Path == "/oidc/clients" || r.Pattern() == "PUT /oidc/clients/{id}" {
			documented(r, 409)
		}
	}
}

// TestNullInRequestsIsDocumented sends null for every property of every body, and compares the
// outcome with the schema. Null that is allowed may be refused only as absence is.
func TestNullInRequestsIsDocumented(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	d := f.document(t)
	sent := 0
	for _, r := range f.routes {
		media, ok := d.at(d.operation(r), "requestBody", "content", "application/json").(map[string]any)
		if !ok {
			continue
		}
		example, _ := media["example"].(map[string]any)
		sent += f.sendNulls(d, r, example, media["schema"], "body", func(v any) any { return v })
	}
	if sent < 100 {
		t.Errorf("only %d properties were sent as null", sent)
	}
}

// sendNulls sends the properties of an object that wrap puts into a body.
func (f *fixture) sendNulls(d *document, r web.Route, example map[string]any, schema any, at string, wrap func(any) any) (sent int) {
	properties, _ := d.at(schema, "properties").(map[string]any)
	for name, property := range properties {
		body := maps.Clone(example)
		delete(body, name)
		absent := f.isRefused(r, wrap(body), at+"."+name)
		body[name] = nil
		null := f.isRefused(r, wrap(body), at+"."+name)
		if allowed := d.allowsNull(property); allowed && null && !absent || !allowed && !null {
			f.t.Errorf("%s: null at %s.%s is refused: %v, documented: %v", r.Pattern(), at, name, null, allowed)
		}
		sent++
		inner := func(v any) any {
			body := maps.Clone(example)
			body[name] = v
			return wrap(body)
		}
		inObject, ok := example[name].(map[string]any)
		if examples, optional := d.at(property, "examples").([]any); !ok && optional {
			inObject, _ = examples[0].(map[string]any)
		}
		sent += f.sendNulls(d, r, inObject, property, at+"."+name, inner)
		if items := d.at(property, "items"); items != nil {
			one, _ := d.at(property, "items", "properties").(map[string]any)
			if len(one) > 0 {
				listed, ok := example[name].([]any)
				if !ok { // it is optional
					listed = d.at(property, "examples").([]any)[0].([]any)
				}
				first := listed[0].(map[string]any)
				list := func(v any) any { return inner([]any{v}) }
				sent += f.sendNulls(d, r, first, items, at+"."+name+"[0]", list)
			}
		}
	}
	return sent
}

// isRefused reports whether a body has a fault at a location.
func (f *fixture) isRefused(r web.Route, body any, location string) bool {
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	got := f.send("owner", r.Method, examplePath(r.Path), string(text))
	if got.Code >= 500 {
		f.t.Errorf("%s %s: %d %s", r.Pattern(), text, got.Code, got.Body)
	}
	return slices.Contains(locationsOf(got), location)
}

func (d *document) allowsNull(schema any) bool {
	s, _ := d.resolve(schema).(map[string]any)
	if types, ok := s["type"].([]any); ok {
		return slices.Contains(types, any("null"))
	}
	options, _ := s["anyOf"].([]any)
	return s["type"] == nil && (options == nil || slices.ContainsFunc(options, d.isNull))
}

func (d *document) isNull(schema any) bool { return d.at(schema, "type") == "null" }

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

// TestResponsesMatchTheDocument sends a request to every route and compares status, headers and body
// with the document.
func TestResponsesMatchTheDocument(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, database *db.DB) {
		f := newFixture(t, database, nil)
		d := f.document(t)
		visited := map[string]bool{}
		f.walk(database, "", func(request, path, body string) *httptest.ResponseRecorder {
			method, _, _ := strings.Cut(request, " ")
			got := f.send("owner", method, path, body)
			if r, ok := routeOf(f.routes, method, path); ok {
				visited[r.Pattern()] = true
				d.check(r, got)
			}
			return got
		})
		for _, r := range f.routes {
			if !visited[r.Pattern()] {
				t.Errorf("%s is not in the walk", r.Pattern())
			}
		}
	})
}

// walk takes the steps on the face with a prefix. $joined is a member who has joined, and $failed the delivery, which
// has failed meanwhile.
func (f *fixture) walk(d *db.DB, prefix string, send func(request, path, body string) *httptest.ResponseRecorder) {
	f.t.Helper()
	saved := map[string]string{"$joined": id.New(id.User)}
	f.exec(d, `INSERT INTO users (id, email, version, created_at, updated_at) VALUES ($1, 'joined@example.com', 1, 1, 1)`, saved["$joined"])
	f.exec(d, `INSERT INTO members (org_id, user_id, role, version, created_at, updated_at) VALUES ($1, $2, 'member', 1, 1, 1)`,
		f.orgID, saved["$joined"])
	for _, step := range steps {
		if strings.Contains(step.request, "$failed") {
			f.exec(d, `UPDATE webhook_deliveries SET status = 'failed', failed = true`)
			saved["$failed"] = saved["$delivery"]
		}
		_, path, _ := strings.Cut(replaced(step.request, saved), " ")
		got := send(step.request, strings.TrimPrefix(path, "http://steward.test"), replaced(step.body, saved))
		if name, at, ok := strings.Cut(step.save, " "); ok {
			if prefix != "" {
				at = "data." + at
			}
			saved[name] = valueAt(f.t, got, at)
		}
	}
}

func (f *fixture) exec(d *db.DB, sql string, args ...any) {
	f.t.Helper()
	if _, err := d.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func replaced(text string, saved map[string]string) string {
	for name, value := range saved {
		text = strings.ReplaceAll(text, name, value)
	}
	return text
}

// routeOf returns the route that serves a path: the one with the fewest parameters.
func routeOf(routes []web.Route, method, path string) (found web.Route, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for _, r := range routes {
		pattern := strings.Split(r.Path, "/")
		matches := r.Method == method && slices.EqualFunc(pattern, parts, func(p, part string) bool {
			return p == part || strings.HasPrefix(p, "{")
		})
		if matches && (!ok || strings.Count(r.Path, "{") < strings.Count(found.Path, "{")) {
			found, ok = r, true
		}
	}
	return found, ok
}

// valueAt returns the text at a path such as 0.id of a response.
func valueAt(t testing.TB, rec *httptest.ResponseRecorder, path string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(rec.Body.Bytes(), &value); err != nil {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	for key := range strings.SplitSeq(path, ".") {
		if list, ok := value.([]any); ok && len(list) > 0 {
			value = list[0]
			continue
		}
		object, _ := value.(map[string]any)
		value = object[key]
	}
	text, ok := value.(string)
	if !ok {
		t.Fatalf("nothing at %s: %d %s", path, rec.Code, rec.Body)
	}
	return text
}

// check compares a response with the document.
func (d *document) check(r web.Route, got *httptest.ResponseRecorder) {
	d.t.Helper()
	status := fmt.Sprint(got.Code)
	response, ok := d.at(d.operation(r), "responses", status).(map[string]any)
	if !ok || r.Method == "GET" && got.Code != 200 {
		d.t.Errorf("%s: status %d is not documented or not expected: %s", r.Pattern(), got.Code, got.Body)
		return
	}
	headers, _ := response["headers"].(map[string]any)
	for name := range got.Header() {
		if documented := headers[name] != nil || name == "Etag" && headers["ETag"] != nil; !documented && !strings.HasPrefix(name, "Content-") {
			d.t.Errorf("%s: %d: the header %s is not documented", r.Pattern(), got.Code, name)
		}
	}
	media, _, _ := strings.Cut(got.Header().Get("Content-Type"), ";")
	if d.at(response, "content", media) == nil {
		if got.Body.Len() > 0 {
			d.t.Errorf("%s: %d: a body of %s is not documented", r.Pattern(), got.Code, media)
		}
		return
	}
	if media == "application/octet-stream" || media == "text/event-stream" {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Body.Bytes()))
	if err != nil {
		d.t.Fatal(err)
	}
	keys := []string{"paths", r.Path, strings.ToLower(r.Method), "responses", status, "content", media, "schema"}
	if got.Code >= 400 {
		keys = []string{"components", "schemas", "WebProblem"}
	}
	if err := d.validate(value, keys...); err != nil {
		d.t.Errorf("%s: %d %s: %v", r.Pattern(), got.Code, got.Body, err)
	}
}
