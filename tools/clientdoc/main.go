// Command clientdoc writes the OpenAPI document that we generate package client from.
//
// It takes the route table's document, without a running server, and lets huma convert it to OpenAPI 3.0,
// which generators read. It drops the parts that the generated code does not depend on: errors, which
// package client decodes itself, headers that it sends itself, streams, and examples. Schemas get the
// names of their Go types (web.API.GoNames). Fields get Go types that distinguish null, absent and empty
// where that matters (types.go).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/server"
	"steward/internal/web"
)

func main() {
	text, err := document()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clientdoc:", err)
		os.Exit(1)
	}
	if _, err := os.Stdout.Write(text); err != nil {
		fmt.Fprintln(os.Stderr, "clientdoc:", err)
		os.Exit(1)
	}
}

// node is an object in the document.
type node = map[string]any

// document returns the document as indented JSON.
func document() ([]byte, error) {
	routes := (&server.Server{}).Routes() // nobody calls the handlers
	api := web.NewAPI(routes, nil, nil)
	text, err := api.Document()
	if err != nil {
		return nil, err
	}
	tree, err := downgrade(text)
	if err != nil {
		return nil, err
	}
	if err := adapt(tree, api.GoNames()); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(tree, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(out, '\n'), nil
}

// downgrade converts a document to OpenAPI 3.0. huma converts only its own documents, so we pass ours off
// as one, with everything in its extensions.
func downgrade(text []byte) (node, error) {
	var whole huma.OpenAPI
	if err := json.Unmarshal(text, &whole.Extensions); err != nil {
		return nil, fmt.Errorf("decode document: %w", err)
	}
	text, err := whole.Downgrade()
	if err != nil {
		return nil, fmt.Errorf("downgrade document: %w", err)
	}
	var tree node
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("decode downgraded document: %w", err)
	}
	return tree, nil
}

// adapt prepares an OpenAPI 3.0 document for the generator.
func adapt(tree node, goNames map[string]string) error {
	walk(tree, trim)
	walk(tree, simplifyNull)
	removeStreams(tree)
	eachOperation(tree, trimOperation)
	eachOperation(tree, func(operation node) {
		schema := object(operation, "requestBody", "content", "application/json", "schema")
		ref, _ := schema["$ref"].(string)
		target := object(tree, "components", "schemas", strings.TrimPrefix(ref, schemaPrefix))
		if schema != nil && target["properties"] == nil {
			delete(operation, "requestBody")
		}
	})
	if err := rename(tree, goNames); err != nil {
		return err
	}
	if err := mergeUnions(tree); err != nil {
		return err
	}
	hoist(tree)
	prune(tree)
	nameEnums(tree)
	setTypes(tree)
	describeSchemas(tree)
	return nil
}

// walk calls do for every object, inner ones first.
func walk(value any, do func(node)) {
	switch v := value.(type) {
	case node:
		for _, child := range v {
			walk(child, do)
		}
		do(v)
	case []any:
		for _, child := range v {
			walk(child, do)
		}
	}
}

func eachOperation(tree node, do func(operation node)) {
	for _, item := range object(tree, "paths") {
		for _, operation := range item.(node) {
			do(operation.(node))
		}
	}
}

// object returns the object at a path of keys, or nil.
func object(n node, keys ...string) node {
	for _, key := range keys {
		n, _ = n[key].(node)
	}
	return n
}
