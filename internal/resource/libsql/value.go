package libsql

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"steward/internal/encode"
)

// value is a value of SQLite as Hrana writes it.
type value struct {
	kind    sqlite.ColumnType // TypeNull if zero
	integer int64
	float   float64
	text    string
	blob    []byte
}

// argument is a value in a request, which is parsed when it is bound.
type argument struct {
	Type   word `json:"type"`
	Value  raw  `json:"value"`
	Base64 raw  `json:"base64"`
}

// bind parses an argument and binds it to a parameter.
func (a argument) bind(to *sqlite.Stmt, param int) error {
	v, err := a.value()
	if err != nil {
		return err
	}
	v.bind(to, param)
	return nil
}

// value parses an argument.
func (a argument) value() (v value, err error) {
	switch a.Type {
	case "null":
		return value{}, nil
	case "integer":
		v.kind = sqlite.TypeInteger
		v.integer, err = strconv.ParseInt(strings.Trim(string(a.Value), `"`), 10, 64)
	case "float":
		v.kind = sqlite.TypeFloat
		v.float, err = parseFloat(string(a.Value))
	case "text":
		v.kind = sqlite.TypeText
		err = json.Unmarshal(a.Value, &v.text)
	case "blob":
		v.kind = sqlite.TypeBlob
		v.blob, err = parseBlob(a.Base64)
	default:
		return v, failf("ARGS_INVALID", "expected a value of type null, integer, float, text or blob")
	}
	if err != nil {
		return v, failf("ARGS_INVALID", "expected a value of type %s", a.Type)
	}
	return v, nil
}

// parseBlob parses bytes in base64, with or without padding.
func parseBlob(text raw) ([]byte, error) {
	if len(text) == 0 { // the field is absent
		return nil, nil
	}
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return nil, err
	}
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
}

// parseFloat parses a number. One that is too large is infinite.
func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		return f, nil
	}
	return f, err
}

// bind binds the value to a parameter.
func (v value) bind(stmt *sqlite.Stmt, param int) {
	switch v.kind {
	case sqlite.TypeInteger:
		stmt.BindInt64(param, v.integer)
	case sqlite.TypeFloat:
		stmt.BindFloat(param, v.float)
	case sqlite.TypeText:
		stmt.BindText(param, v.text)
	case sqlite.TypeBlob:
		stmt.BindBytes(param, v.blob)
	default:
		stmt.BindNull(param)
	}
}

// appendColumn appends the value of a column of the current row. Blobs have no padding, as libSQL's
// server writes them and some clients expect them.
func appendColumn(to []byte, stmt *sqlite.Stmt, i int) []byte {
	switch stmt.ColumnType(i) {
	case sqlite.TypeInteger:
		to = append(to, `{"type":"integer","value":"`...)
		to = strconv.AppendInt(to, stmt.ColumnInt64(i), 10)
		return append(to, `"}`...)
	case sqlite.TypeFloat:
		to = append(to, `{"type":"float","value":`...)
		return append(appendFloat(to, stmt.ColumnFloat(i)), '}')
	case sqlite.TypeText:
		to = append(to, `{"type":"text","value":`...)
		return append(encode.String(to, stmt.ColumnText(i)), '}')
	case sqlite.TypeBlob:
		blob := make([]byte, stmt.ColumnLen(i))
		stmt.ColumnBytes(i, blob)
		to = append(to, `{"type":"blob","base64":"`...)
		return append(base64.RawStdEncoding.AppendEncode(to, blob), `"}`...)
	}
	return append(to, `{"type":"null"}`...)
}

// appendFloat appends a number. Infinity is a number that is too large for clients to parse otherwise.
func appendFloat(to []byte, f float64) []byte {
	if math.IsInf(f, 0) {
		if f < 0 {
			to = append(to, '-')
		}
		return append(to, "1e999"...)
	}
	return strconv.AppendFloat(to, f, 'g', -1, 64)
}

// appendColumns appends the columns of a result as an array.
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
