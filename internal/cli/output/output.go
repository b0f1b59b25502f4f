// Package output prints the API's responses: as a table that fits the terminal, as JSON, YAML or one
// JSON document per line, or as the parts that a jq expression selects.
//
// JSON keeps the API's bytes except for white space. Tables show some fields, times relative to now,
// and no control characters, because names and payloads come from others.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/itchyny/gojq"
	"go.yaml.in/yaml/v3"
)

// Format tells how to print results.
type Format string

// The formats.
const (
	Table  Format = "table"
	Wide   Format = "wide" // a table with all columns, not cut to the terminal
	JSON   Format = "json"
	YAML   Format = "yaml"
	NDJSON Format = "ndjson" // one line of JSON for each item
)

// Formats has the names of the formats that users can ask for.
var Formats = []string{string(Table), string(Wide), string(JSON), string(YAML), string(NDJSON)}

// Printer prints results.
type Printer struct {
	Out    io.Writer
	Format Format
	Filter *Filter // for JSON and NDJSON, or nil
	Width  int     // the terminal's columns; 0 means unlimited
	Color  bool    // true if escape sequences may be printed
	Now    func() time.Time
}

// Tabular reports whether results are printed for people.
func (p *Printer) Tabular() bool { return p.Format == Table || p.Format == Wide }

// Item prints one result. In a table format it prints all fields, one on each line, or a row for
// each object in an array.
func (p *Printer) Item(raw json.RawMessage) error {
	switch p.Format {
	case JSON, NDJSON:
		if p.Filter != nil {
			return p.writeFiltered(raw)
		}
	}
	switch p.Format {
	case JSON:
		return p.writeIndented(raw)
	case NDJSON:
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return fmt.Errorf("the server's response is not JSON: %w", err)
		}
		b.WriteByte('\n')
		_, err := p.Out.Write(b.Bytes())
		return err
	case YAML:
		return p.writeYAML(raw)
	}
	return p.writeFields(raw)
}

// Text prints a line for people. It prints nothing in formats other than tables.
func (p *Printer) Text(format string, args ...any) error {
	if !p.Tabular() {
		return nil
	}
	_, err := fmt.Fprintf(p.Out, format+"\n", args...)
	return err
}

func (p *Printer) writeIndented(raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("the server's response is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := p.Out.Write(b.Bytes())
	return err
}

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

// Filter is a jq expression that is applied to JSON before it is printed.
type Filter struct{ code *gojq.Code }

// ParseFilter parses a jq expression.
func ParseFilter(expression string) (*Filter, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return &Filter{code}, nil
}

// writeFiltered prints the filter's results for a document, one on each line.
func (p *Printer) writeFiltered(raw json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("the server's response is not JSON: %w", err)
	}
	results := p.Filter.code.Run(document)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("--jq: %w", err)
		}
		line, isText := result.(string)
		switch {
		case !isText:
			text, err := gojq.Marshal(result)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			line = string(text)
		case p.Width > 0:
			line = withoutControls(line)
		}
		if _, err := io.WriteString(p.Out, line+"\n"); err != nil {
			return err
		}
	}
}

// withoutControls returns a text without control characters other than line breaks and tabs.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, s)
}
