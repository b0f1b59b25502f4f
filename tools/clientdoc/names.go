package main

import (
	"fmt"
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
