package libsql

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	driver "zombiezen.com/go/sqlite"

	"steward/internal/encode"
	"steward/internal/sqlite"
)

// argument is a value in a request. We parse it when we bind it.
type argument struct {
	Type   word `json:"type"`
	Value  raw  `json:"value"`
	Base64 raw  `json:"base64"`
}

// bind parses an argument and binds it to a parameter.
func (a argument) bind(to *driver.Stmt, param int) error {
	v, err := a.value()
	if err != nil {
		return err
	}
	return sqlite.Bind(to, param, v)
}

// value parses an argument.
func (a argument) value() (v any, err error) {
	switch a.Type {
	case "null":
		return nil, nil
	case "integer":
		v, err = strconv.ParseInt(strings.Trim(string(a.Value), `"`), 10, 64)
	case "float":
		v, err = parseFloat(string(a.Value))
	case "text":
		v, err = parseText(a.Value)
	case "blob":
		v, err = parseBlob(a.Base64)
	default:
		return nil, failf("ARGS_INVALID", "expected a value of type null, integer, float, text or blob")
	}
	if err != nil {
		return nil, failf("ARGS_INVALID", "expected a value of type %s", a.Type)
	}
	return v, nil
}

func parseText(text raw) (s string, err error) {
	err = json.Unmarshal(text, &s)
	return s, err
}

// parseBlob decodes base64 with or without padding.
func parseBlob(text raw) ([]byte, error) {
	if len(text) == 0 { // no such field
		return []byte{}, nil
	}
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return nil, err
	}
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
}

// parseFloat parses a number. Numbers that are too large become infinite.
func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		return f, nil
	}
	return f, err
}

// appendColumn appends a column's value in the current row. Base64 has no padding: libSQL's server writes
// none, and some clients rely on that.
func appendColumn(to []byte, stmt *driver.Stmt, i int) []byte {
	switch stmt.ColumnType(i) {
	case driver.TypeInteger:
		to = append(to, `{"type":"integer","value":"`...)
		to = strconv.AppendInt(to, stmt.ColumnInt64(i), 10)
		return append(to, `"}`...)
	case driver.TypeFloat:
		to = append(to, `{"type":"float","value":`...)
		return append(appendFloat(to, stmt.ColumnFloat(i)), '}')
	case driver.TypeText:
		to = append(to, `{"type":"text","value":`...)
		return append(encode.String(to, stmt.ColumnText(i)), '}')
	case driver.TypeBlob:
		blob := make([]byte, stmt.ColumnLen(i))
		stmt.ColumnBytes(i, blob)
		to = append(to, `{"type":"blob","base64":"`...)
		return append(base64.RawStdEncoding.AppendEncode(to, blob), `"}`...)
	}
	return append(to, `{"type":"null"}`...)
}

// appendFloat appends a number. JSON has no infinity, so we write a number that is too large, and clients
// parse it as infinite.
func appendFloat(to []byte, f float64) []byte {
	if math.IsInf(f, 0) {
		if f < 0 {
			to = append(to, '-')
		}
		return append(to, "1e999"...)
	}
	return strconv.AppendFloat(to, f, 'g', -1, 64)
}

// appendColumns appends a result's columns as an array.
func appendColumns(to []byte, columns []column) []byte {
	to = append(to, '[')
	for i, c := range columns {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"name":`...)
		to = encode.String(to, c.name)
		to = append(to, `,"decltype":`...)
		to = append(encode.Optional(to, optional(c.decltype)), '}')
	}
	return append(to, ']')
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
