package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const schemaPrefix = "#/components/schemas/"

// hoistedNames names objects that schemas have as properties, by schema and property. Other objects are
// named after both.
func hoistedNames() map[string]string {
	return map[string]string{
		"BucketConfigPatch.cors":  "CORS",
		"Destination.config":      "DestinationConfig",
		"DestinationPatch.config": "DestinationConfig",
		"NewDestination.config":   "DestinationConfig",

		"OrganizationPatch.require_mfa": "RequireMFA",
	}
}

// nameEnums creates schemas for enums that several fields share. A field with a single value is an
// ordinary string.
func nameEnums(tree node) {
	schemas := object(tree, "components", "schemas")
	walk(tree, func(n node) {
		enum, _ := n["enum"].([]any)
		if len(enum) == 1 {
			delete(n, "enum")
		}
		name, ok := map[string]string{
			"admin member owner viewer": "Role",
			"any passkey":               "Factor",
			"asc desc":                  "Direction",
			"confidential public":       "ClientType",
			"day hour minute":           "Granularity",
			"db kv s3":                  "ResourceType",
			"failed pending success":    "DeliveryStatus",
			"project root user":         "APIKeyType",
		}[values(enum)]
		if !ok {
			return
		}
		// Sorted, because fields may list the same values in different orders.
		schemas[name] = node{"type": "string", "enum": strings.Fields(values(enum))}
		delete(n, "enum")
		delete(n, "type")
		n["allOf"] = []any{node{"$ref": schemaPrefix + name}}
	})
}

func values(enum []any) string {
	var all []string
	for _, value := range enum {
		all = append(all, fmt.Sprint(value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// rename gives schemas their Go names. It returns an error if two get the same.
func rename(tree node, names map[string]string) error {
	schemas := object(tree, "components", "schemas")
	renamed := node{}
	for old, schema := range schemas {
		name := names[old]
		if renamed[name] != nil {
			return fmt.Errorf("two schemas have the Go name %s; one of them is %s, whose type needs a goName", name, old)
		}
		renamed[name] = schema
	}
	object(tree, "components")["schemas"] = renamed
	walk(tree, func(n node) {
		if ref, ok := n["$ref"].(string); ok && strings.HasPrefix(ref, schemaPrefix) {
			n["$ref"] = schemaPrefix + names[strings.TrimPrefix(ref, schemaPrefix)]
		}
	})
	return nil
}

// hoist turns properties that are objects into schemas, since the generator would make anonymous structs
// from them.
func hoist(tree node) {
	schemas := object(tree, "components", "schemas")
	hoisted := node{}
	for parent := range schemas {
		properties := object(schemas, parent, "properties")
		for name, value := range properties {
			property, _ := value.(node)
			if property["properties"] == nil {
				continue
			}
			target, ok := hoistedNames()[parent+"."+name]
			if !ok {
				target = parent + strings.ToUpper(name[:1]) + name[1:]
			}
			properties[name] = reference(target, property)
			hoisted[target] = property
		}
	}
	for name, schema := range hoisted {
		if schemas[name] == nil {
			schemas[name] = schema
		}
	}
}

// reference returns a property that refers to a schema instead of containing it. The property keeps its
// own description and nullability.
func reference(target string, property node) node {
	out := node{"allOf": []any{node{"$ref": schemaPrefix + target}}}
	for _, key := range []string{"nullable", "description"} {
		if value, ok := property[key]; ok {
			out[key] = value
			delete(property, key)
		}
	}
	return out
}

// describeSchemas describes the schemas that lack a description. It names the operations that send or
// return them, or the schemas that have them as fields.
func describeSchemas(tree node) {
	schemas := object(tree, "components", "schemas")
	sent, returned, within := map[string][]string{}, map[string][]string{}, map[string][]string{}
	eachOperation(tree, func(operation node) {
		id := operation["operationId"].(string)
		id = strings.ToUpper(id[:1]) + id[1:]
		addUses(sent, operation["requestBody"], id)
		addUses(returned, operation["responses"], id)
	})
	for name, schema := range schemas {
		addUses(within, schema, name)
	}
	for name := range schemas {
		schema := object(schemas, name)
		switch {
		case schema["description"] != nil:
		case schema["enum"] != nil:
			schema["description"] = "is one of the constants of this type."
		case sent[name] != nil:
			schema["description"] = "is the body of " + list(sent[name]) + "."
		case returned[name] != nil:
			schema["description"] = "is a result of " + list(returned[name]) + "."
		default:
			schema["description"] = "is part of " + list(within[name]) + "."
		}
	}
}

// addUses adds user to every schema that value refers to.
func addUses(uses map[string][]string, value any, user string) {
	walk(value, func(n node) {
		ref, _ := n["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, schemaPrefix); ok && !slices.Contains(uses[name], user) {
			uses[name] = append(uses[name], user)
		}
	})
}

// list returns names in the form "A, B and C".
func list(names []string) string {
	slices.Sort(names)
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

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
