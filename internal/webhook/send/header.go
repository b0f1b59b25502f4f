package send

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/encode"
)

// Field is a header with a lower-case name. A list of fields is sorted by name and has each name once.
type Field struct{ Name, Value string }

// Fields returns a received request's headers in the form we store: repeated values joined with a
// comma, all text valid UTF-8. It includes the host, which net/http keeps apart.
func Fields(r *http.Request) []Field {
	fields := make([]Field, 0, len(r.Header)+1)
	for name, values := range r.Header {
		fields = append(fields, Field{strings.ToLower(name), CleanText(strings.Join(values, ", "))})
	}
	fields = append(fields, Field{"host", CleanText(r.Host)})
	sortFields(fields)
	return fields
}

// FieldsOf returns fields from a map with lower-case names.
func FieldsOf(headers map[string]string) []Field {
	fields := make([]Field, 0, len(headers))
	for name, value := range headers {
		fields = append(fields, Field{name, value})
	}
	sortFields(fields)
	return fields
}

// With returns fields with a header set to a value. It may change fields.
func With(fields []Field, name, value string) []Field {
	at, found := slices.BinarySearchFunc(fields, name, func(f Field, name string) int { return cmp.Compare(f.Name, name) })
	if found {
		fields[at].Value = value
		return fields
	}
	return slices.Insert(fields, at, Field{name, value})
}

func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
}

// flatten returns one value for each name, in lower case.
func flatten(h http.Header) map[string]string {
	flat := make(map[string]string, len(h))
	for name, values := range h {
		flat[strings.ToLower(name)] = CleanText(strings.Join(values, ", "))
	}
	return flat
}

// Value returns a header's value, or "" if it is missing.
func Value(fields []Field, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// MarshalFields returns the fields as a JSON object.
func MarshalFields(fields []Field) string {
	to := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			to = append(to, ',')
		}
		to = encode.String(to, f.Name)
		to = append(to, ':')
		to = encode.String(to, f.Value)
	}
	return string(append(to, '}'))
}

// UnmarshalFields reverses MarshalFields.
func UnmarshalFields(text string) ([]Field, error) {
	in := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := readToken(in, '{'); err != nil {
		return nil, err
	}
	fields := make([]Field, 0, 16)
	for in.PeekKind() == '"' {
		name, err := readToken(in, '"')
		if err != nil {
			return nil, err
		}
		value, err := readToken(in, '"')
		if err != nil {
			return nil, err
		}
		fields = append(fields, Field{name, value})
	}
	if _, err := readToken(in, '}'); err != nil {
		return nil, err
	}
	sortFields(fields)
	return fields, nil
}

// readToken returns the next token's text, or an error if the token has another kind.
func readToken(in *jsontext.Decoder, kind jsontext.Kind) (string, error) {
	token, err := in.ReadToken()
	if err != nil {
		return "", fmt.Errorf("decode headers: %w", err)
	}
	if token.Kind() != kind {
		return "", fmt.Errorf("decode headers: %v in place of %v", token.Kind(), kind)
	}
	return token.String(), nil
}

// CleanText returns s as valid UTF-8 without NUL bytes, which PostgreSQL cannot store. Each invalid
// byte sequence and each NUL becomes U+FFFD.
func CleanText(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// reserved are the headers that belong to the connection or that Steward sets itself.
var reserved = map[string]bool{
	"connection": true, "content-length": true, "host": true, "keep-alive": true, "proxy-connection": true, "te": true,
	"trailer": true, "transfer-encoding": true, "upgrade": true,
	"webhook-id": true, "webhook-timestamp": true, "webhook-signature": true,
	"steward-delivery": true, "steward-attempt": true,
}

// Sendable reports whether a destination may set a header: HTTP allows the name and value, and the
// name is not reserved.
func Sendable(name, value string) bool {
	return IsName(name) && strings.IndexFunc(value, control) < 0 && !reserved[strings.ToLower(name)]
}

// IsName reports whether HTTP allows a header with this name.
func IsName(name string) bool { return name != "" && strings.IndexFunc(name, notTokenChar) < 0 }

// notTokenChar reports whether a character cannot be part of a header name (RFC 9110, section 5.6.2).
func notTokenChar(c rune) bool {
	isLetterOrDigit := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	return !isLetterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// control reports whether a character cannot be part of a header value.
func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
