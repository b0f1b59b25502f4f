package main

import (
	"slices"
	"strings"
)

// simplifyNull rewrites two things that differ in OpenAPI 3.0: a reference that may be null, and null
// among an enum's values.
func simplifyNull(n node) {
	choices, _ := n["anyOf"].([]any)
	if len(choices) == 2 && choices[1].(node)["type"] == "null" {
		delete(n, "anyOf")
		n["allOf"] = choices[:1]
		n["nullable"] = true
	}
	if enum, ok := n["enum"].([]any); ok {
		n["enum"] = slices.DeleteFunc(enum, func(v any) bool { return v == nil })
	}
}

// trimOperation removes the parts of an operation that the client handles itself: errors, and request
// headers.
func trimOperation(operation node) {
	responses := object(operation, "responses")
	for status := range responses {
		if !strings.HasPrefix(status, "2") {
			delete(responses, status)
		}
		headers := object(responses, status, "headers")
		for name := range headers {
			if name != "Link" {
				delete(headers, name)
			}
		}
	}
	parameters, _ := operation["parameters"].([]any)
	operation["parameters"] = slices.DeleteFunc(parameters, func(p any) bool { return p.(node)["in"] == "header" })
	delete(operation, "security")
}

// trim removes keys that the generated code does not depend on.
func trim(n node) {
	for key := range n {
		if strings.HasPrefix(key, "x-") || key == "example" {
			delete(n, key)
		}
	}
}

// prune removes the components that nothing refers to any more.
func prune(tree node) {
	components := object(tree, "components")
	delete(components, "securitySchemes")
	delete(components, "responses")
	delete(tree, "security")
	for {
		used := map[string]bool{}
		walk(tree, func(n node) {
			if ref, ok := n["$ref"].(string); ok {
				used[ref] = true
			}
		})
		if !removeUnused(components, used) {
			return
		}
	}
}

func removeUnused(components node, used map[string]bool) (removed bool) {
	for kind := range components {
		for name := range object(components, kind) {
			if !used["#/components/"+kind+"/"+name] {
				delete(object(components, kind), name)
				removed = true
			}
		}
	}
	return removed
}

// removeStreams removes the operations that respond with an event stream, because package client reads
// those itself.
func removeStreams(tree node) {
	for _, item := range object(tree, "paths") {
		for method := range item.(node) {
			if object(item.(node), method, "responses", "200", "content", "text/event-stream") != nil {
				delete(item.(node), method)
			}
		}
	}
}
