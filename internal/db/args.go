package db

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Args names a statement's arguments, in place of all others: @org_id in the text takes the value of
// "org_id". Name them if a statement has more than four.
type Args map[string]any

// numbered is a statement with numbers in place of names, and the names in that order.
type numbered struct {
	text  string
	names []string
}

// number replaces each @name outside quotes by $1 and so on.
func number(text string) (n numbered) {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		if text[i] == '\'' {
			quoted = !quoted
		}
		end := i + 1
		for text[i] == '@' && end < len(text) && isNameChar(text[end]) {
			end++
		}
		if quoted || end == i+1 {
			out.WriteByte(text[i])
			continue
		}
		name := text[i+1 : end]
		if !slices.Contains(n.names, name) {
			n.names = append(n.names, name)
		}
		out.WriteString("$" + strconv.Itoa(slices.Index(n.names, name)+1))
		i = end - 1
	}
	n.text = out.String()
	return n
}

// arguments returns a statement and its arguments by number. It returns errs.Invalid for text that
// cannot be stored, and an error if the names in Args differ from the statement's.
func (d *DB) arguments(text string, args []any) (string, []any, error) {
	d.observer.statement(text)
	if len(args) != 1 {
		return text, args, checkText(args)
	}
	named, ok := args[0].(Args)
	if !ok {
		return text, args, checkText(args)
	}
	known, ok := d.numbered.Load(text)
	if !ok {
		known, _ = d.numbered.LoadOrStore(text, number(text))
	}
	n := known.(numbered)
	values := make([]any, len(n.names))
	for i, name := range n.names {
		value, ok := named[name]
		if !ok {
			return "", nil, fmt.Errorf("db: no argument for @%s", name)
		}
		values[i] = value
	}
	if len(named) != len(values) {
		return "", nil, fmt.Errorf("db: %d arguments for %d names", len(named), len(values))
	}
	return n.text, values, checkText(values)
}

// Null returns nil for the zero value, and otherwise a pointer to the value, for a column that is
// NULL when empty.
func Null[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// ToJSON returns a value as text for a column. It panics for a value that JSON cannot express.
func ToJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// FromJSON returns a variable for Scan that decodes a column's text into to. NULL leaves it as it is.
func FromJSON(to any) sql.Scanner { return fromJSON{to} }

type fromJSON struct{ to any }

// Scan implements sql.Scanner.
func (f fromJSON) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), f.to)
	}
	return fmt.Errorf("%T is not the text of a column", value)
}
