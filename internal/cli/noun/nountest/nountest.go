// Package nountest checks tables of commands against the API.
package nountest

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"steward/internal/cli/noun"
)

// Check checks that each verb's route exists, and that its fields are query parameters or body
// members there. The document is the path to client/openapi.json.
func Check(t *testing.T, document string, nouns ...noun.Noun) {
	t.Helper()
	d := read(t, document)
	for _, n := range nouns {
		for _, v := range n.Verbs {
			if v.Run == nil && v.Items == nil {
				t.Run(n.Name+" "+v.Name, func(t *testing.T) { d.check(t, v) })
			}
		}
		Check(t, document, n.Nouns...)
	}
}

// openapi is the part of an OpenAPI document that we use.
type openapi struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Parameters  []struct{ Name, In string }
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Properties           map[string]schema
	AdditionalProperties json.RawMessage
	Items                *schema
	AllOf, AnyOf, OneOf  []schema
}

func read(t *testing.T, document string) *openapi {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	d := &openapi{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// find returns a route's operation, whatever its placeholders are called.
func (d *openapi) find(route string) (operation, bool) {
	method, path, _ := strings.Cut(route, " ")
	for other, operations := range d.Paths {
		if placeholder.ReplaceAllString(other, "{}") == placeholder.ReplaceAllString(path, "{}") {
			op, ok := operations[strings.ToLower(method)]
			return op, ok
		}
	}
	return operation{}, false
}

func (d *openapi) check(t *testing.T, v noun.Verb) {
	op, ok := d.find(v.Route)
	if !ok {
		t.Fatalf("there is no route %s", v.Route)
	}
	body := map[string]any{}
	maps.Copy(body, v.Fixed)
	for _, f := range append(v.Args, v.Fields...) {
		place(body, strings.Split(f.Path, "."))
	}
	if strings.HasPrefix(v.Route, "GET ") {
		for name := range body {
			if !op.hasParameter(name) {
				t.Errorf("%s has no parameter %s", v.Route, name)
			}
		}
		return
	}
	var sent any = body
	if v.Wrap != nil {
		sent = v.Wrap(body)
	}
	if len(body) > 0 {
		d.covers(t, op.RequestBody.Content["application/json"].Schema, generic(t, sent), "body")
	}
}

// place sets a member to null, in objects that it adds.
func place(to map[string]any, path []string) {
	if len(path) == 1 {
		to[path[0]] = nil
		return
	}
	below, ok := to[path[0]].(map[string]any)
	if !ok {
		below = map[string]any{}
		to[path[0]] = below
	}
	place(below, path[1:])
}

// generic returns a value as JSON has it.
func generic(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (o operation) hasParameter(name string) bool {
	for _, p := range o.Parameters {
		if p.Name == name && p.In == "query" {
			return true
		}
	}
	return false
}

// covers checks that a value's members are in a schema.
func (d *openapi) covers(t *testing.T, s schema, v any, at string) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			below, ok := d.property(s, name)
			if !ok {
				t.Errorf("%s has no member %s", at, name)
				continue
			}
			d.covers(t, below, value, at+"."+name)
		}
	case []any:
		for _, value := range v {
			if s.Items != nil {
				d.covers(t, *s.Items, value, at+"[]")
			}
		}
	}
}

func (d *openapi) property(s schema, name string) (schema, bool) {
	if s.Ref != "" {
		return d.property(d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], name)
	}
	if below, ok := s.Properties[name]; ok {
		return below, true
	}
	for _, part := range append(append(s.AllOf, s.AnyOf...), s.OneOf...) {
		if below, ok := d.property(part, name); ok {
			return below, true
		}
	}
	if len(s.AdditionalProperties) > 0 {
		return schema{}, string(s.AdditionalProperties) != "false"
	}
	return schema{}, s.Type == "object" && s.Properties == nil // any object
}
