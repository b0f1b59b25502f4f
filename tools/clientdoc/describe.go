package main

import (
	"slices"
	"strings"
)

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
