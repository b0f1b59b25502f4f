package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Kind is how the value of a column is shown.
type Kind int

// The kinds of columns.
const (
	Text   Kind = iota
	Time        // relative to now
	Bytes       // with a unit
	Status      // in a colour
)

// Column is a column of a table.
type Column struct {
	Title string
	Path  string // of the field, with dots: project.name
	Kind  Kind
	Keep  bool                          // never cut, for ids that are copied
	Wide  bool                          // only in the format wide
	Value func(item map[string]any) any // instead of Path, if set
}

// ID returns the column of an id.
func ID(title, path string) Column { return Column{Title: title, Path: path, Keep: true} }

// text returns the cell of an item.
func (c Column) text(item map[string]any, now time.Time) string {
	value := Field(item, c.Path)
	if c.Value != nil {
		value = c.Value(item)
	}
	switch c.Kind {
	case Time:
		return ago(value, now)
	case Bytes:
		return size(value)
	}
	return plain(value)
}

// decode decodes an item; numbers keep their digits.
func decode(raw json.RawMessage) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var item map[string]any
	if err := decoder.Decode(&item); err != nil {
		return nil, fmt.Errorf("the server's response is not a JSON object: %w", err)
	}
	return item, nil
}

// Field returns the value at a path with dots, or nil.
func Field(item map[string]any, path string) any {
	var value any = item
	for name := range strings.SplitSeq(path, ".") {
		members, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = members[name]
	}
	return value
}

// plain returns a value on one line.
func plain(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return Clean(v)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case []any:
		return list(v)
	case map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return Clean(string(text))
	}
	return Clean(fmt.Sprint(value))
}

func list(values []any) string {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = plain(v)
	}
	return strings.Join(cells, ", ")
}

// Clean returns a text on one line and without control characters, which could change the terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}

func ago(value any, now time.Time) string {
	s, _ := value.(string)
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return plain(value)
	}
	return Ago(at, now)
}

// Ago returns a time relative to now.
func Ago(at, now time.Time) string { return humanize.RelTime(at, now, "ago", "from now") }

func size(value any) string {
	n, ok := value.(json.Number)
	if !ok {
		return plain(value)
	}
	bytes, err := n.Int64()
	if err != nil || bytes < 0 {
		return n.String()
	}
	return humanize.IBytes(uint64(bytes))
}

// writeFields prints the fields of an object in the order of the API.
func (p *Printer) writeFields(raw json.RawMessage) error {
	item, err := decode(raw)
	if err != nil {
		return p.writeIndented(raw) // not an object
	}
	names := keys(raw)
	width := 0
	for _, name := range names {
		width = max(width, text.StringWidth(name))
	}
	var b strings.Builder
	for _, name := range names {
		value := plain(item[name])
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			value += " (" + Ago(at, p.Now()) + ")"
		}
		line := p.Paint(bold, Clean(name)) + strings.Repeat(" ", width-text.StringWidth(name)) + gap + value
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err = io.WriteString(p.Out, b.String())
	return err
}

// keys returns the keys of an object in their order.
func keys(raw json.RawMessage) (names []string) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return names
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
