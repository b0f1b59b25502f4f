package output

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// writeYAML prints JSON as YAML, with the fields in order.
func (p *Printer) writeYAML(raw json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	node, err := yamlNode(decoder)
	if err != nil {
		return fmt.Errorf("the server's response is not JSON: %w", err)
	}
	encoder := yaml.NewEncoder(p.Out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return err
	}
	return encoder.Close()
}

func yamlNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return yamlMembers(decoder, yaml.MappingNode)
	case json.Delim('['):
		return yamlMembers(decoder, yaml.SequenceNode)
	}
	if n, ok := token.(json.Number); ok {
		tag := "!!int"
		if bytes.ContainsAny([]byte(n), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: n.String()}, nil
	}
	node := new(yaml.Node)
	return node, node.Encode(token)
}

// yamlMembers reads an object's keys and values, or an array's values, and its end.
func yamlMembers(decoder *json.Decoder, kind yaml.Kind) (*yaml.Node, error) {
	node := &yaml.Node{Kind: kind}
	for decoder.More() {
		member, err := yamlNode(decoder)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, member)
	}
	_, err := decoder.Token()
	return node, err
}
