package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// maxBuffered caps the rows that a table buffers before it fixes its column widths and prints, so
// that a long list needs little memory.
const maxBuffered = 1000

// Group is a part of a list that tables show below the rest, under its own title.
type Group struct {
	Title string
	Has   func(item map[string]any) bool
}

// List prints a list's items one after the other.
type List struct {
	Apart *Group // shown below the others, or nil

	printer *Printer
	columns []Column
	rows    [][]string
	widths  []int // nil until the first rows are printed
	count   int
	items   [][]byte   // a filter is applied to them at the end
	below   [][]string // rows in Apart, which are few
}

// List returns a list with these columns in table formats, or with the first item's fields if
// columns is nil. Call Close after the last item.
func (p *Printer) List(columns []Column) *List {
	var shown []Column
	for _, c := range columns {
		if !c.Wide || p.Format == Wide {
			shown = append(shown, c)
		}
	}
	return &List{printer: p, columns: shown}
}

// Count returns the number of items.
func (l *List) Count() int { return l.count }

// Add prints an item.
func (l *List) Add(raw json.RawMessage) error {
	l.count++
	switch l.printer.Format {
	case NDJSON:
		return l.printer.Item(raw)
	case YAML:
		return l.printer.writeYAML(json.RawMessage(fmt.Appendf(nil, "[%s]", raw)))
	case JSON:
		if l.printer.Filter != nil {
			l.items = append(l.items, raw)
			return nil
		}
		var b bytes.Buffer
		b.WriteString(map[bool]string{true: "[\n  ", false: ",\n  "}[l.count == 1])
		if err := json.Indent(&b, raw, "  ", "  "); err != nil {
			return fmt.Errorf("the server's response is not JSON: %w", err)
		}
		_, err := l.printer.Out.Write(b.Bytes())
		return err
	}
	item, err := decode(raw)
	if err != nil {
		return err
	}
	if l.columns == nil {
		l.columns = memberColumns(raw, item)
	}
	cells := make([]string, len(l.columns))
	for i, c := range l.columns {
		cells[i] = c.text(item, l.printer.Now())
	}
	if l.Apart != nil && l.Apart.Has(item) {
		l.below = append(l.below, cells)
		return nil
	}
	l.rows = append(l.rows, cells)
	if len(l.rows) < maxBuffered {
		return nil
	}
	return l.flush()
}

// Close prints the rest.
func (l *List) Close() error {
	switch {
	case l.printer.Format == JSON && l.printer.Filter != nil:
		return l.printer.writeFiltered(fmt.Appendf(nil, "[%s]", bytes.Join(l.items, []byte(","))))
	case l.printer.Format == JSON && l.count == 0, l.printer.Format == YAML && l.count == 0:
		_, err := io.WriteString(l.printer.Out, "[]\n")
		return err
	case l.printer.Format == JSON:
		_, err := io.WriteString(l.printer.Out, "\n]\n")
		return err
	case l.printer.Tabular():
		if err := l.flush(); err != nil {
			return err
		}
		if len(l.below) == 0 {
			return nil
		}
		title := l.printer.Paint(bold, l.Apart.Title+":") + "\n"
		if l.widths != nil {
			title = "\n" + title
		}
		if _, err := io.WriteString(l.printer.Out, title); err != nil {
			return err
		}
		l.rows, l.widths = l.below, nil
		return l.flush()
	}
	return nil
}

// flush prints the buffered rows, after the header if they are the first.
func (l *List) flush() error {
	if len(l.rows) == 0 {
		return nil
	}
	if l.widths == nil {
		l.widths = fit(l.columns, l.rows, l.limit())
		titles := make([]string, len(l.columns))
		for i, c := range l.columns {
			titles[i] = c.Title
		}
		if err := l.writeRow(titles, bold); err != nil {
			return err
		}
	}
	for _, row := range l.rows {
		if err := l.writeRow(row, ""); err != nil {
			return err
		}
	}
	l.rows = l.rows[:0]
	return nil
}

func (l *List) limit() int {
	if l.printer.Format == Wide {
		return 0
	}
	return l.printer.Width
}
