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
