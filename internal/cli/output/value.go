package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/rivo/uniseg"
)

// Kind tells how to show a column's value.
type Kind int

// The kinds of columns.
const (
	Text   Kind = iota
	Ident       // an id, which keeps its end when it is cut
	Time        // relative to now
	Bytes       // with a unit
	Millis      // a duration, with a unit
	Count       // with separators
	Status      // in a colour
	SQL         // as databases write it: NULL, true, false
)

// Cut tells when to cut a column in a terminal that is too narrow.
type Cut int

// The columns that are cut, from the first to the last.
const (
	CutFirst Cut = iota - 1 // ids next to a name
	CutText                 // texts and figures
	CutLast                 // names
	CutNever                // texts that users copy
)

// Column is a column in a table.
type Column struct {
	Title string
	Path  string // the field's, with dots: project.name
	Kind  Kind
	Cut   Cut
	Wide  bool                          // only in the format wide
	Value func(item map[string]any) any // instead of Path, if set
}

// Name returns the column for the name by which users refer to an item.
func Name(title, path string) Column { return Column{Title: title, Path: path, Cut: CutLast} }

// ID returns the column for an id next to a name.
func ID(title, path string) Column {
	return Column{Title: title, Path: path, Kind: Ident, Cut: CutFirst}
}

// Handle returns the column for an id by which users refer to an item that has no name.
func Handle(title, path string) Column {
	return Column{Title: title, Path: path, Kind: Ident, Cut: CutLast}
}

func (c Column) text(item map[string]any, now time.Time) string {
	value := Field(item, c.Path)
	if c.Value != nil {
		value = c.Value(item)
	}
	switch c.Kind {
	case Time:
		return ago(value, now)
	case Bytes, Millis, Count:
		return figure(value, c.Kind)
	case SQL:
		return sqlText(value)
	}
	return plain(value)
}

// memberColumns returns a column for each member of an item, ids last.
func memberColumns(raw json.RawMessage, item map[string]any) []Column {
	columns := []Column{}
	for _, name := range keys(raw) {
		c := Column{Title: strings.ToUpper(strings.ReplaceAll(name, "_", " ")), Value: func(item map[string]any) any { return item[name] }}
		switch {
		case name == "name":
			c.Cut = CutLast
		case name == "id", strings.HasSuffix(name, "_id"):
			c.Kind, c.Cut = Ident, CutFirst
		case isTime(item[name]):
			c.Kind = Time
		}
		columns = append(columns, c)
	}
	slices.SortStableFunc(columns, func(a, b Column) int { return min(0, int(b.Cut)) - min(0, int(a.Cut)) })
	return columns
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
		return jsonText(v)
	}
	return Clean(fmt.Sprint(value))
}

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return Clean(string(text))
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

func isTime(value any) bool {
	s, _ := value.(string)
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

// figure returns a number with its unit.
func figure(value any, kind Kind) string {
	n, ok := value.(json.Number)
	if !ok {
		return plain(value)
	}
	integer, err := n.Int64()
	if err != nil || integer < 0 || kind == Millis && integer > math.MaxInt64/int64(time.Millisecond) {
		return n.String()
	}
	switch kind {
	case Bytes:
		return ByteSize(integer)
	case Millis:
		return Duration(time.Duration(integer) * time.Millisecond)
	}
	return humanize.Comma(integer)
}

// sqlText returns a database's value.
func sqlText(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return jsonText(v)
	}
	return plain(value)
}

// writeFields prints an object's fields in the API's order, and an array's objects as a table.
func (p *Printer) writeFields(raw json.RawMessage) error {
	item, err := decode(raw)
	if err != nil {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return p.writeIndented(raw)
		}
		list := p.List(nil)
		for _, item := range items {
			if err := list.Add(item); err != nil {
				return p.writeIndented(raw) // not all are objects
			}
		}
		return list.Close()
	}
	names := keys(raw)
	width := 0
	for _, name := range names {
		width = max(width, uniseg.StringWidth(name))
	}
	var b strings.Builder
	for _, name := range names {
		line := p.Paint(bold, Clean(name)) + strings.Repeat(" ", width-uniseg.StringWidth(name)) + gap + p.explained(name, item[name])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err = io.WriteString(p.Out, b.String())
	return err
}

// explained returns a field's exact value, with its meaning for people.
func (p *Printer) explained(name string, value any) string {
	exact, meaning := plain(value), ""
	switch {
	case isTime(value):
		meaning = ago(value, p.Now())
	case name == "size", strings.HasSuffix(name, "_size"):
		meaning = figure(value, Bytes)
	case strings.HasSuffix(name, "_seconds"):
		if n, ok := value.(json.Number); ok {
			meaning = figure(n+"000", Millis)
		}
	}
	if meaning == "" || meaning == exact || meaning == exact+" B" {
		return exact
	}
	return exact + " (" + meaning + ")"
}

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

// The console has the same units (console/src/lib/format.ts), so that both show the same figures.

// ByteSize returns a size in decimal units, in which storage costs are counted.
func ByteSize(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	units := []string{"kB", "MB", "GB", "TB", "PB"}
	size := float64(n) / 1000
	i := 0
	for size >= 999.5 && i < len(units)-1 {
		size /= 1000
		i++
	}
	if size < 10 {
		return oneDigit(size) + " " + units[i]
	}
	return whole(size) + " " + units[i]
}

// Duration returns a duration in its largest unit.
func Duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 1000:
		return whole(ms) + " ms"
	case ms < 10_000:
		return oneDigit(ms/1000) + " s"
	case ms < 60_000:
		return whole(ms/1000) + " s"
	case ms < 3_600_000:
		return whole(ms/60_000) + " min"
	case ms < 172_800_000:
		return whole(ms/3_600_000) + " h"
	}
	return whole(ms/86_400_000) + " days"
}

// Ago returns a time relative to now.
func Ago(at, now time.Time) string {
	distance := at.Sub(now).Abs()
	if distance < 5*time.Second {
		return "now"
	}
	text := Duration(distance)
	if distance < 59_500*time.Millisecond {
		text = whole(distance.Seconds()) + " s"
	}
	if at.Before(now) {
		return text + " ago"
	}
	return "in " + text
}

// Plural returns a number of things, such as "1 row" or "1,257 deliveries".
func Plural(n int64, thing string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), thing, "")
}

func whole(n float64) string { return strconv.FormatFloat(math.Floor(n+0.5), 'f', 0, 64) }

// oneDigit returns a number with one digit after the point. It rounds ties up, as JavaScript does;
// only quarters can be ties.
func oneDigit(n float64) string {
	if quarters := n * 4; quarters == math.Trunc(quarters) {
		n += 0.01
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}
