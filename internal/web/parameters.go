package web

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

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
