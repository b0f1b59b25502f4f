// Package encode appends values to a buffer as JSON, in the form that all responses of the API have: that of
// encoding/json without HTML escapes.
//
// Rows of long lists implement Appender, so that a page is encoded into one buffer and without
// reflection.
package encode

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Appender is implemented by values that append their own JSON. It must equal the JSON that
// encoding/json would produce.
type Appender interface {
	AppendJSON(to []byte) ([]byte, error)
}

// Value appends the JSON of a value.
func Value(to []byte, value any) ([]byte, error) {
	if a, ok := value.(Appender); ok {
		return a.AppendJSON(to)
	}
	buf := bytes.NewBuffer(to)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// String appends text as a JSON string.
func String(to []byte, text string) []byte {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf { // of which encoding/json escapes some
			to, _ = Value(to, text) // a string can always be encoded
			return to
		}
	}
	to, _ = jsontext.AppendQuote(to, text) // fails for invalid UTF-8 only
	return to
}

// Optional appends text as a JSON string, or null if it is nil.
func Optional(to []byte, text *string) []byte {
	if text == nil {
		return append(to, "null"...)
	}
	return String(to, *text)
}
