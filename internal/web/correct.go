package web

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// corrector adds to an OpenAPI document the parts that huma leaves out: where null is allowed, and examples.
type corrector struct {
	tree    map[string]any
	schemas map[string]any
	types   huma.Registry
}

func newCorrector(tree map[string]any, types huma.Registry) *corrector {
	return &corrector{tree: tree, schemas: object(object(tree, "components"), "schemas"), types: types}
}

// object returns the object at a key, or nil.
func object(node map[string]any, key string) map[string]any {
	o, _ := node[key].(map[string]any)
	return o
}

func (c *corrector) correct() {
	fixNode(c.tree)
	requests := c.requestSchemas()
	for name := range c.schemas {
		schema := object(c.schemas, name)
		c.allowNull(schema, c.types.TypeFromRef(schemaPrefix+name), requests[name])
	}
	c.eachOperation(c.addExamples)
}

func (c *corrector) eachOperation(do func(operation map[string]any)) {
	paths := object(c.tree, "paths")
	for path := range paths {
		for method := range object(paths, path) {
			do(object(object(paths, path), method))
		}
	}
}

// fixNode adds null to nullable fields' enums, which huma forgets, and removes a keyword that only huma
// knows.
func fixNode(node any) {
	switch n := node.(type) {
	case map[string]any:
		enum, isEnum := n["enum"].([]any)
		if types, ok := n["type"].([]any); ok && isEnum && slices.Contains(types, any("null")) {
			n["enum"] = append(enum, nil)
		}
		if _, isText := n["patternDescription"].(string); isText {
			delete(n, "patternDescription")
		}
		for _, child := range n {
			fixNode(child)
		}
	case []any:
		for _, child := range n {
			fixNode(child)
		}
	}
}

// requestSchemas returns the names of all schemas that requests' bodies refer to.
func (c *corrector) requestSchemas() map[string]bool {
	found := map[string]bool{}
	c.eachOperation(func(operation map[string]any) { c.collect(operation["requestBody"], found) })
	return found
}

func (c *corrector) collect(node any, found map[string]bool) {
	switch n := node.(type) {
	case map[string]any:
		ref, _ := n["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, schemaPrefix); ok && !found[name] {
			found[name] = true
			c.collect(c.schemas[name], found)
		}
		for _, child := range n {
			c.collect(child, found)
		}
	case []any:
		for _, child := range n {
			c.collect(child, found)
		}
	}
}

// allowNull adds null to the types of nullable fields. In a response these are pointers that are always
// present; huma forgets those to structs. In a request they also include every optional field, where null
// means the same as leaving it out, unless its tag says nullable:"false". allowNull also restores
// examples that are null, which huma omits or mistakes for text.
func (c *corrector) allowNull(schema map[string]any, t reflect.Type, request bool) {
	required, _ := schema["required"].([]any)
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := object(object(schema, "properties"), name)
		present := f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty")
		optional := request && !slices.Contains(required, any(name)) && f.Tag.Get("nullable") != "false"
		if present || optional {
			addNull(property)
		}
		if f.Tag.Get("example") == "null" {
			property["examples"] = []any{nil}
		}
	}
}

// addNull adds null to a schema. A schema without a type already allows it.
func addNull(schema map[string]any) {
	if ref, ok := schema["$ref"]; ok {
		delete(schema, "$ref")
		schema["anyOf"] = []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}
	}
	if name, ok := schema["type"].(string); ok {
		schema["type"] = []any{name, "null"}
		if enum, ok := schema["enum"].([]any); ok {
			schema["enum"] = append(enum, nil)
		}
	}
}

// addExamples builds examples for an operation's bodies from their fields' examples.
func (c *corrector) addExamples(operation map[string]any) {
	c.addBody(object(object(operation, "requestBody"), "content"), true)
	responses := object(operation, "responses")
	for status := range responses {
		c.addBody(object(object(responses, status), "content"), false)
	}
}

func (c *corrector) addBody(content map[string]any, request bool) {
	if media := object(content, "application/json"); media != nil {
		media["example"] = c.example(object(media, "schema"), request)
	}
}

// example returns an example for a schema. In a request it has only the required fields, or all fields if
// none is required.
func (c *corrector) example(schema map[string]any, request bool) any {
	ref, _ := schema["$ref"].(string)
	if name, ok := strings.CutPrefix(ref, schemaPrefix); ok {
		return c.example(object(c.schemas, name), request)
	}
	for _, key := range []string{"examples", "enum", "anyOf"} {
		list, ok := schema[key].([]any)
		if option, isSchema := firstOf(list).(map[string]any); isSchema && key == "anyOf" {
			return c.example(option, request)
		}
		if ok {
			return list[0]
		}
	}
	if value, ok := schema["default"]; ok {
		return value
	}
	kind := schema["type"]
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch kind {
	case "object":
		return c.exampleObject(schema, request)
	case "array":
		return []any{c.example(object(schema, "items"), request)}
	case "integer", "number":
		return 1
	case "boolean":
		return false
	case "string":
		if schema["format"] == "date-time" {
			return "2026-11-15T08:30:00.123Z"
		}
		return "text"
	}
	return nil
}

func firstOf(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func (c *corrector) exampleObject(schema map[string]any, request bool) any {
	properties := object(schema, "properties")
	names := slices.Sorted(maps.Keys(properties))
	required, _ := schema["required"].([]any)
	value := map[string]any{}
	for _, name := range names {
		if !request || len(required) == 0 || slices.Contains(required, any(name)) {
			value[name] = c.example(object(properties, name), request)
		}
	}
	return value
}
