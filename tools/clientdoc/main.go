// Command clientdoc writes the OpenAPI document that package client is generated from.
//
// It takes the document of the route table, without a running server, and has huma convert it to
// OpenAPI 3.0, which generators read. What the generated code does not depend on is left out:
// errors, which package client decodes itself, headers that it sends itself, streams, and examples.
// Schemas get the names of their Go types (web.API.GoNames), and fields the Go types that
// distinguish null, absent and empty where that matters (types.go).
package main

import (
	"encoding/json"
	"fmt"
	"os"

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

// node is an object of the document.
type node = map[string]any

// document returns the document as indented JSON.
func document() ([]byte, error) {
	routes := (&server.Server{}).Routes() // the handlers are not called
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

// downgrade converts a document to OpenAPI 3.0. huma does this for its own document only, to which
// a whole one can be given as extensions.
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

// adapt changes a document of OpenAPI 3.0 into what package client is generated from.
func adapt(tree node, goNames map[string]string) error {
	walk(tree, trim)
	walk(tree, simplifyNull)
	removeStreams(tree)
	eachOperation(tree, trimOperation)
	removeEmptyBodies(tree)
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

// walk calls do for every object, those inside first.
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
