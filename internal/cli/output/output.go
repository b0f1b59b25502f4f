// Package output prints what the API returns: as a table that fits the terminal, as JSON, YAML or one JSON
// document per line, or what a jq expression selects of the JSON.
//
// JSON keeps the bytes of the API but for white space. Tables show some fields, times relative to now,
// and no control characters, because names and payloads come from others.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Format is how results are printed.
type Format string

// The formats.
const (
	Table  Format = "table"
	Wide   Format = "wide" // a table with all columns, not cut to the terminal
	JSON   Format = "json"
	YAML   Format = "yaml"
	NDJSON Format = "ndjson" // one line of JSON for each item
)

// Formats are the names of the formats that can be asked for.
var Formats = []string{string(Table), string(Wide), string(JSON), string(YAML), string(NDJSON)}

// Printer prints results.
type Printer struct {
	Out    io.Writer
	Format Format
	Filter *Filter // of what JSON and NDJSON print, or nil
	Width  int     // of the terminal in columns; 0 means unlimited
	Color  bool    // whether escape sequences may be printed
	Now    func() time.Time
}

// Tabular reports whether results are printed for people.
func (p *Printer) Tabular() bool { return p.Format == Table || p.Format == Wide }

// Item prints one result. In a table format that is all its fields, one on each line, or a row for each
// object of an array.
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
		return p.writeLine(raw)
	case YAML:
		return p.writeYAML(raw)
	}
	return p.writeFields(raw)
}

// Text prints a line for people. It prints nothing in other formats than tables.
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

func (p *Printer) writeLine(raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("the server's response is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := p.Out.Write(b.Bytes())
	return err
}
