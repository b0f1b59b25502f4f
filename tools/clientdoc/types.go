package main

import (
	"slices"
	"strings"

	"steward/internal/period"
)

// setTypes chooses the Go type for each field where the generator's own choice would lose something:
//
//   - In a patch, null clears a field and absence keeps it: Field[T]. A patch cannot clear a
//     destination's configuration.
//   - In other requests null means the same as absence, so the field is a pointer that is left out if
//     nil. A list or map is left out only if nil: an empty list of scopes is not the default.
//   - In responses we keep a value of any type as JSON, and an absent boolean is false.
//   - Query parameters are values; the zero value is left out.
//   - A date without time is a string. A field that allows both a time and a date is a time.
func setTypes(tree node) {
	schemas := object(tree, "components", "schemas")
	requests := requestSchemas(tree)
	walk(tree, func(n node) {
		if n["format"] == "date" || n["format"] == "email" {
			delete(n, "format")
		}
		if n["format"] == period.BoundFormat {
			n["format"] = "date-time"
			delete(n, "pattern")
		}
	})
	for name := range schemas {
		schema := object(schemas, name)
		setAdditional(schema, name)
		setOrder(schema)
		for field := range object(schema, "properties") {
			property := object(schema, "properties", field)
			required, _ := schema["required"].([]any)
			switch {
			case strings.HasSuffix(name, "Patch") && name+"."+field != "DestinationPatch.config":
				setPatchType(property)
			case requests[name] && !slices.Contains(required, any(field)):
				setRequestType(property)
			case !requests[name] && property["type"] == "boolean" && property["nullable"] != true:
				property["x-go-type-skip-optional-pointer"] = true
			case !requests[name]:
				keepJSON(property)
			}
			setAny(property)
		}
	}
	eachOperation(tree, func(operation node) {
		for _, p := range operation["parameters"].([]any) {
			schema := object(p.(node), "schema")
			schema["x-go-type-skip-optional-pointer"] = true
			if schema["allOf"] != nil { // the generator would still use a pointer
				schema["x-go-type"] = goType(schema)
				schema["type"] = "string"
				delete(schema, "allOf")
			}
		}
	})
}

// requestSchemas returns the names of the schemas that request bodies contain.
func requestSchemas(tree node) map[string]bool {
	found := map[string]bool{}
	var collect func(value any)
	collect = func(value any) {
		walk(value, func(n node) {
			ref, _ := n["$ref"].(string)
			name, ok := strings.CutPrefix(ref, schemaPrefix)
			if ok && !found[name] {
				found[name] = true
				collect(object(tree, "components", "schemas", name))
			}
		})
	}
	eachOperation(tree, func(operation node) { collect(operation["requestBody"]) })
	return found
}

// setAdditional removes the permission for unknown fields, which all objects have. The server keeps
// unknown fields in a destination's configuration, so the client does too.
func setAdditional(schema node, name string) {
	if schema["properties"] != nil && name != "DestinationConfig" {
		delete(schema, "additionalProperties")
	}
	setAny(schema)
}

func setPatchType(property node) {
	if property["nullable"] != true {
		setRequestType(property)
		return
	}
	property["x-go-type"] = "Field[" + goType(property) + "]"
	if property["allOf"] != nil {
		delete(property, "allOf") // would take precedence over x-go-type
		property["type"] = "object"
	}
	property["x-go-type-skip-optional-pointer"] = true
	omitZero(property)
}

func setRequestType(property node) {
	delete(property, "nullable")
	if property["type"] == "array" || property["additionalProperties"] != nil {
		omitZero(property)
	}
}

// omitZero leaves a field out if it has its type's zero value. For lists and maps that is only nil.
func omitZero(property node) {
	delete(property, "nullable")
	property["x-omitempty"] = false
	property["x-omitzero"] = true
}

// goType returns a property's Go type in a patch.
func goType(property node) string {
	if of, ok := property["allOf"].([]any); ok {
		return strings.TrimPrefix(of[0].(node)["$ref"].(string), schemaPrefix)
	}
	switch property["type"] {
	case "integer":
		return "int64"
	case "number":
		return "float64"
	case "boolean":
		return "bool"
	case "array":
		return "[]" + goType(object(property, "items"))
	case "object":
		return "map[string]" + goType(object(property, "additionalProperties"))
	case "string":
		return "string"
	}
	return "any"
}

// keepJSON keeps values of any type as JSON, also in lists.
func keepJSON(property node) {
	for property["type"] == "array" {
		property = object(property, "items")
	}
	if isAny(property) {
		property["x-go-type"] = "json.RawMessage"
		property["x-go-type-skip-optional-pointer"] = true
	}
}

// setAny gives values of any type, also in lists and maps, the type any. The generator would call it
// interface{}.
func setAny(schema node) {
	if schema["additionalProperties"] == true {
		schema["additionalProperties"] = node{"x-go-type": "any"}
	}
	if items := object(schema, "items"); items != nil {
		setAny(items)
	}
	if isAny(schema) && schema["x-go-type"] == nil {
		schema["x-go-type"] = "any"
		schema["x-go-type-skip-optional-pointer"] = true
	}
}

// isAny reports whether a property may have values of any type.
func isAny(property node) bool {
	return property["type"] == nil && property["allOf"] == nil && property["$ref"] == nil
}

// setOrder keeps the order of fields: required ones as their list has them, then the optional ones.
func setOrder(schema node) {
	required, _ := schema["required"].([]any)
	for field := range object(schema, "properties") {
		at := slices.Index(required, any(field))
		if at < 0 {
			at = len(required)
		}
		object(schema, "properties", field)["x-order"] = at + 1
	}
}
