package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Field is a field in an update. Its zero value leaves the stored field unchanged; Set changes it, and
// Clear removes its value.
type Field[T any] struct {
	sent  bool
	value *T
}

// Set returns a field that changes to value.
func Set[T any](value T) Field[T] { return Field[T]{sent: true, value: &value} }

// Clear returns a field that removes the value, as null.
func Clear[T any]() Field[T] { return Field[T]{sent: true} }

// IsZero reports whether the stored field stays unchanged. encoding/json then omits it.
func (f Field[T]) IsZero() bool { return !f.sent }

// MarshalJSON implements json.Marshaler.
func (f Field[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Field[T]) UnmarshalJSON(text []byte) error {
	f.sent = true
	f.value = nil
	return json.Unmarshal(text, &f.value)
}

// path fills parameters into a path.
func path(pattern string, params ...string) string {
	var out strings.Builder
	for _, param := range params {
		before, rest, _ := strings.Cut(pattern, "{")
		_, pattern, _ = strings.Cut(rest, "}")
		out.WriteString(before + url.PathEscape(param))
	}
	return out.String() + pattern
}

// query is a request's query.
type query url.Values

// add adds a parameter, unless it has its type's zero value.
func (q query) add(name string, value any) {
	if reflect.ValueOf(value).IsZero() {
		return
	}
	if t, ok := value.(time.Time); ok {
		value = t.UTC().Format(time.RFC3339Nano)
	}
	q[name] = []string{fmt.Sprint(value)}
}

// marshalWith encodes a struct and further fields as one object.
func marshalWith(fields any, others map[string]any) ([]byte, error) {
	text, err := json.Marshal(fields)
	if err != nil || len(others) == 0 {
		return text, err
	}
	all := map[string]any{}
	maps.Copy(all, others)
	var known map[string]json.RawMessage
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, err
	}
	for name, value := range known {
		all[name] = value
	}
	return json.Marshal(all)
}

// unmarshalWith decodes an object into a struct. Fields that the struct does not have go into a map.
func unmarshalWith(text []byte, fields any, others *map[string]any, known ...string) error {
	if err := json.Unmarshal(text, fields); err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, name := range known {
		delete(all, name)
	}
	if len(all) == 0 {
		all = nil
	}
	*others = all
	return nil
}
