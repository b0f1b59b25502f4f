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
	if media == "application/octet-stream" || media == "text/event-stream" || media == "application/x-ndjson" {
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
