package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unionNames names the Go types for values that match one of several schemas, by the names of these schemas.
func unionNames() map[string]string {
	return map[string]string{
		"DBCreated KVCreated S3Created": "CreatedResource",
	}
}

// mergeUnions turns each union of schemas into a single schema: a struct with all their fields, where a
// field may be absent unless all have it. It returns an error for a union without a name.
func mergeUnions(tree node) error {
	schemas := object(tree, "components", "schemas")
	merged := node{}
	var unnamed error
	walk(tree, func(n node) {
		choices, _ := n["anyOf"].([]any)
		if choices == nil {
			return
		}
		var names []string
		for _, choice := range choices {
			ref, _ := choice.(node)["$ref"].(string)
			names = append(names, strings.TrimPrefix(ref, schemaPrefix))
		}
		slices.Sort(names)
		name, ok := unionNames()[strings.Join(names, " ")]
		if !ok {
			unnamed = fmt.Errorf("a value is of one of the types %v; add a name for them to unionNames", names)
			return
		}
		merged[name] = merge(schemas, names)
		delete(n, "anyOf")
		n["$ref"] = schemaPrefix + name
	})
	maps.Copy(schemas, merged)
	return unnamed
}

// merge returns one schema with the fields of all the named ones.
func merge(schemas node, names []string) node {
	properties := node{}
	seen := map[string]int{} // how many require a field
	var order []any
	for _, name := range names {
		required, _ := object(schemas, name)["required"].([]any)
		for field := range object(schemas, name, "properties") {
			property := maps.Clone(object(schemas, name, "properties", field))
			properties[field] = withValues(property, object(properties, field))
		}
		for _, field := range required {
			if seen[field.(string)]++; seen[field.(string)] == len(names) {
				order = append(order, field)
			}
		}
	}
	for field := range properties {
		if seen[field] < len(names) {
			delete(object(properties, field), "nullable")
		}
	}
	return node{"type": "object", "properties": properties, "required": order}
}

// withValues adds another enum's values to a property that has an enum.
func withValues(property, other node) node {
	enum, isEnum := property["enum"].([]any)
	others, _ := other["enum"].([]any)
	if isEnum {
		property["enum"] = slices.Concat(enum, others)
	}
	return property
}
