package web

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/decode"
	"steward/internal/errs"
)

// Checked is implemented by bodies with rules that their schema cannot express. Check adds a fault
// for each rule that the body breaks. It is called for a body that does not match its schema, as far
// as that could be decoded, for a request whose parameters have a fault, and for one that its handler
// refuses with a fault, so that one response reports all of them. The handler, which is not called in the
// first two cases, has to check the rules of all other bodies; it may stop at the first fault.
type Checked interface{ Check(faults *errs.Faults) }

// Rules adds a fault for each rule of a route that a body breaks and that needs more than the body, such as
// what is stored. It is called as Check is, unless parameters of the request have a fault. in is the input of the
// route's handler. Rules that cannot be checked are left out.
type Rules func(ctx context.Context, in any, faults *errs.Faults)

// RulesOf returns the rules of a route whose handler has the input I.
func RulesOf[I any](check func(ctx context.Context, in *I, faults *errs.Faults)) Rules {
	return func(ctx context.Context, in any, faults *errs.Faults) { check(ctx, in.(*I), faults) }
}

// bodySchema validates and decodes the bodies of a route.
type bodySchema struct {
	of       reflect.Type
	schema   *huma.Schema
	registry huma.Registry
}

func newBodySchema(of reflect.Type, registry huma.Registry) *bodySchema {
	return &bodySchema{of: of, schema: registry.Schema(of, true, ""), registry: registry}
}

// document returns the documentation of the body.
func (s *bodySchema) document() *huma.RequestBody {
	return &huma.RequestBody{Required: s.required(), Content: content("application/json", s.schema)}
}

// required reports whether a request without a body is malformed.
func (s *bodySchema) required() bool { return s.of.Kind() != reflect.Pointer }

// decode returns the value of a body, and adds its faults: lists that are too long, text that cannot be
// stored, what does not match the schema, and what cannot be decoded. The values that have a fault are
// left out of the later steps.
func (s *bodySchema) decode(body []byte, faults *errs.Faults) (reflect.Value, error) {
	value := reflect.New(s.of)
	if len(body) == 0 {
		if s.required() {
			return value, errs.New(errs.Malformed, "this request needs a JSON body")
		}
		return value.Elem(), nil
	}
	tree, err := parseJSON(body)
	if err != nil {
		return value, err
	}
	s.prune(faults, s.schema, "body", tree)
	if containsNUL(body) {
		refuseNUL(faults, "body", tree)
		faults.Add("body", withoutNUL) // if it is in a value that another one replaces
	}
	var result huma.ValidateResult
	path := huma.NewPathBuffer(nil, 0)
	path.Push("body")
	huma.Validate(s.registry, s.schema, path, huma.ModeWriteToServer, tree, &result)
	addHumaFaults(faults, result.Errors)
	if !faults.Full() {
		decode.Into(faults, "body", body, value.Interface())
	}
	return value.Elem(), nil
}

// check calls the Check of a body that was decoded, if it has one.
func (s *bodySchema) check(body reflect.Value, faults *errs.Faults) {
	if s.required() {
		body = body.Addr()
	}
	if c, ok := body.Interface().(Checked); ok && !body.IsNil() {
		c.Check(faults)
	}
}

// prune adds a fault for each list and object with more entries than its schema allows, and empties
// it, so that the entries are not validated. It returns the value without them.
func (s *bodySchema) prune(faults *errs.Faults, schema *huma.Schema, location string, value any) any {
	for schema.Ref != "" {
		schema = s.registry.SchemaFromRef(schema.Ref)
	}
	switch v := value.(type) {
	case []any:
		if limit := limitOf(schema.MaxItems); len(v) > limit {
			faults.Add(location, "expected at most %d items", limit)
			return v[:0]
		}
		for i, item := range v {
			if schema.Items != nil {
				v[i] = s.prune(faults, schema.Items, fmt.Sprintf("%s[%d]", location, i), item)
			}
		}
	case map[string]any:
		if limit := limitOf(schema.MaxProperties); len(v) > limit {
			faults.Add(location, "expected at most %d entries", limit)
			return map[string]any{}
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if member, ok := v[name]; ok {
				v[name] = s.prune(faults, schema.Properties[name], location+"."+name, member)
			}
		}
	}
	return value
}

// maxEntries is the maximum number of entries of a list or object without a limit of its own.
const maxEntries = 10_000

func limitOf(limit *int) int {
	if limit == nil {
		return maxEntries
	}
	return *limit
}
