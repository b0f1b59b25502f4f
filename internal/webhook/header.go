package webhook

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"steward/internal/encode"
)

// field is a header. Received ones are kept by their names in lower case, and in the order of these.
type field struct{ name, value string }

func (f field) compare(o field) int { return cmp.Compare(f.name, o.name) }

func sameName(a, b field) bool { return a.name == b.name }

// flatten gives headers, with some more, as they are shown: one text for each name, always UTF-8.
func flatten(h http.Header, more ...field) []field {
	flat := append(make([]field, 0, len(h)+len(more)), more...)
	for name, values := range h {
		value := values[0]
		if len(values) > 1 {
			value = strings.Join(values, ", ")
		}
		flat = append(flat, field{strings.ToLower(name), clean(value)})
	}
	slices.SortStableFunc(flat, field.compare)
	return slices.CompactFunc(flat, sameName)
}

// fieldsOf gives headers that are a map already.
func fieldsOf(headers map[string]string) []field {
	fields := make([]field, 0, len(headers))
	for name, value := range headers {
		fields = append(fields, field{name, value})
	}
	slices.SortFunc(fields, field.compare)
	return fields
}

// valueOf gives the value of a header, or nothing.
func valueOf(fields []field, name string) string {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// headerText is what is stored of headers: JSON.
func headerText(fields []field) string { return string(appendHeaders(make([]byte, 0, 256), fields)) }

func appendHeaders(to []byte, fields []field) []byte {
	to = append(to, '{')
	for i, f := range fields {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(encode.String(to, f.name), ':')
		to = encode.String(to, f.value)
	}
	return append(to, '}')
}

// storedHeaders reads what headerText has written. Without an escape in it the quotes alone tell what is what.
func storedHeaders(text string) (fields []field) {
	if strings.IndexByte(text, '\\') >= 0 {
		var all map[string]string
		_ = json.Unmarshal([]byte(text), &all) // it was made here
		return fieldsOf(all)
	}
	fields = make([]field, 0, strings.Count(text, `":"`))
	for {
		var f field
		var found bool
		if _, text, found = strings.Cut(text, `"`); !found {
			return fields
		}
		f.name, text, _ = strings.Cut(text, `":"`)
		f.value, text, _ = strings.Cut(text, `"`)
		fields = append(fields, f)
	}
}

// lowerToken gives the characters that a name may have, in lower case, and 0 for others.
var lowerToken = func() (table [256]byte) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
		table[c] = c
		if c >= 'a' && c <= 'z' {
			table[c-'a'+'A'] = c
		}
	}
	return table
}()
