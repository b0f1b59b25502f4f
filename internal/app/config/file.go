package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"steward/internal/errs"
)

// yamlFile reads a file node by node: decoding into structs reports neither the line nor more than
// one fault.
type yamlFile struct {
	name   string
	faults *errs.Faults
}

// source returns an entry's name in messages.
func (f yamlFile) source(key string, n *yaml.Node) string {
	return fmt.Sprintf("%s (%s, line %d)", key, f.name, n.Line)
}

func (f yamlFile) fault(key string, n *yaml.Node, format string, args ...any) {
	f.faults.Add(f.source(key, n), format, args...)
}

// parse returns the document's top node. An empty file is an empty mapping.
func (f yamlFile) parse(content []byte) *yaml.Node {
	empty := &yaml.Node{Kind: yaml.MappingNode}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, rest yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return empty
	}
	if err != nil {
		f.faults.Add(f.name, "must be YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return empty
	}
	if !errors.Is(decoder.Decode(&rest), io.EOF) {
		f.faults.Add(f.name, "must be a single YAML document")
	}
	if top := doc.Content[0]; top.Tag != "!!null" {
		return top
	}
	return empty
}

// entries calls each for every entry in a mapping. The path precedes its keys in messages; it is ""
// at the top.
func (f yamlFile) entries(n *yaml.Node, path string, each func(key string, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		f.fault(cmp.Or(strings.TrimSuffix(path, "."), "the file"), n, "must have the form `key: value`")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			f.fault(path+key.Value, key, "must not be given twice")
			continue
		}
		seen[key.Value] = true
		each(key.Value, resolve(n.Content[i+1]))
	}
}

// scalar returns a single value as text, to be parsed like a flag. It notes a fault and returns
// false if there is none.
func (f yamlFile) scalar(key string, n *yaml.Node, orList bool) (text string, ok bool) {
	n = resolve(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", true
	case n.Kind == yaml.ScalarNode:
		return n.Value, true
	case n.Kind == yaml.SequenceNode && orList:
		var items []string // joined as in the list's flag
		for _, item := range n.Content {
			text, ok := f.scalar(key, item, false)
			if !ok {
				return "", false
			}
			items = append(items, text)
		}
		return strings.Join(items, ","), true
	}
	f.fault(key, n, "must be a single value")
	return "", false
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
