package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"steward/internal/errs"
)

// parameter is a field in a handler's input that comes from the request's path, query or headers.
type parameter struct {
	index    []int
	in, name string
	fallback string // for requests without it
	required bool
	schema   *huma.Schema
}

// optional is implemented by fields that tell a parameter that is absent from one that is not, such as
// page.Opt. Parameter returns the value to set.
type optional interface{ Parameter() reflect.Value }

// parametersOf returns the fields of a handler's input that have one of the tags path, query and header. It
// includes those of embedded structs, even if their names in Go are hidden.
func parametersOf(input reflect.Type, schemas huma.Registry) (list []parameter) {
	for i := range input.NumField() {
		f := input.Field(i)
		if f.Anonymous {
			for _, p := range parametersOf(f.Type, schemas) {
				p.index = append([]int{i}, p.index...)
				list = append(list, p)
			}
			continue
		}
		for _, in := range []string{"path", "query", "header"} {
			if name := f.Tag.Get(in); name != "" {
				list = append(list, parameter{
					index: []int{i}, in: in, name: name, fallback: f.Tag.Get("default"),
					required: in == "path" || f.Tag.Get("required") == "true", schema: huma.SchemaFromField(schemas, f, ""),
				})
			}
		}
	}
	return list
}

func (p parameter) document() *huma.Param {
	doc := &huma.Param{Name: p.name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema}
	if p.in == "query" {
		doc.Explode = new(bool)
	}
	return doc
}

// text returns a request's text for a parameter, or "".
func (p parameter) text(r *http.Request, query url.Values) (text string) {
	switch p.in {
	case "path":
		text = r.PathValue(p.name)
	case "query":
		text = query.Get(p.name)
	case "header":
		text = r.Header.Get(p.name)
	}
	if text == "" {
		return p.fallback
	}
	return text
}

// setParameters sets the parameters in a handler's input. Its error has a fault for each one that is
// missing or does not match its schema.
func (s *servedRoute) setParameters(input reflect.Value, r *http.Request, query url.Values) error {
	var faults errs.Faults
	path := huma.NewPathBuffer(nil, 0)
	for _, p := range s.parameters {
		location := p.in + "." + p.name
		text := p.text(r, query)
		if text == "" {
			faults.Check(!p.required, location, required)
			continue
		}
		field := input.FieldByIndex(p.index)
		if o, ok := field.Addr().Interface().(optional); ok {
			field = o.Parameter()
		}
		value, message := setText(field, text)
		if message != "" {
			faults.Add(location, "%s", message)
			continue
		}
		var result huma.ValidateResult
		path.Push(p.in)
		path.Push(p.name)
		huma.Validate(s.api.document.Components.Schemas, p.schema, path, huma.ModeWriteToServer, value, &result)
		path.Reset()
		addHumaFaults(&faults, result.Errors)
	}
	return faults.Err()
}

// setText sets a field to the value that a text stands for, and returns that value for the validator. If
// the text does not fit the field's type, it returns a message.
func setText(field reflect.Value, text string) (value any, message string) {
	var err error
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
		return text, ""
	case reflect.Bool:
		value, err = strconv.ParseBool(text)
		message = validation.MsgExpectedBoolean
	case reflect.Int, reflect.Int64:
		value, err = strconv.ParseInt(text, 10, 64)
		message = validation.MsgExpectedInteger
	case reflect.Float64:
		value, err = strconv.ParseFloat(text, 64)
		message = validation.MsgExpectedNumber
	default:
		panic(fmt.Sprintf("a parameter cannot have the type %s", field.Type()))
	}
	if err != nil {
		return nil, message
	}
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
	return value, ""
}

// parseQuery parses a URL's query. It returns Malformed if url.ParseQuery rejects it or it is not UTF-8.
func parseQuery(u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if decoded, _ := url.QueryUnescape(u.RawQuery); err != nil || !utf8.ValidString(decoded) {
		return nil, errs.New(errs.Malformed, "the query string is malformed; special characters must be percent-encoded, as UTF-8")
	}
	return query, nil
}

// checkRepeats adds a fault for each of the route's parameters that is repeated, since we would use only
// one value.
func (s *servedRoute) checkRepeats(faults *errs.Faults, query url.Values) {
	for _, p := range s.parameters {
		if p.in == "query" {
			faults.Check(len(query[p.name]) <= 1, "query."+p.name, "expected one value; the parameter is given more than once")
		}
	}
}

// suggest adds a fault for each unknown name that is nearly a known one, because a misspelt filter must
// not list everything. It ignores other unknown names.
func (s *servedRoute) suggest(faults *errs.Faults, query url.Values) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.ContainsFunc(s.parameters, func(p parameter) bool { return p.in == "query" && p.name == name }) {
			continue
		}
		for _, p := range s.parameters {
			if p.in == "query" && isNearly(name, p.name) {
				faults.Add("query."+name, "unknown parameter; did you mean `%s`?", p.name)
			}
		}
	}
}

// isNearly reports whether two names differ only in case, `_` and `-`, or in at most two edits that are
// also at most a third of the known name's length.
func isNearly(name, known string) bool {
	a, b := plainName(name), plainName(known)
	allowed := min(2, len(b)/3)
	if len(b) <= 3 {
		allowed = 0 // a single edit makes another word
	}
	if max(len(a)-len(b), len(b)-len(a)) > allowed {
		return false
	}
	return distance(a, b) <= allowed
}

func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// distance counts the edits between two texts: bytes inserted, removed or replaced, and neighbours
// swapped (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
