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

// Checked is implemented by bodies with rules that their schema cannot express. Check adds a fault for
// each broken rule.
//
// We call Check in three cases, so that one response reports all faults: if the body does not match its
// schema, with as much as could be decoded; if the request's parameters have a fault; and if the handler
// refuses the request with a fault. In the first two cases the handler does not run. In all others the
// handler must check the rules itself, and may stop at the first fault.
type Checked interface{ Check(faults *errs.Faults) }

// Rules adds a fault for each broken rule that needs more than the body, such as stored rows. It is
// called when Check is, unless the request's parameters have a fault. in is the handler's input. Rules
// skips those that it cannot check.
type Rules func(ctx context.Context, in any, faults *errs.Faults)

// RulesOf returns the rules for a route whose handler has the input I.
func RulesOf[I any](check func(ctx context.Context, in *I, faults *errs.Faults)) Rules {
	return func(ctx context.Context, in any, faults *errs.Faults) { check(ctx, in.(*I), faults) }
}

type bodySchema struct {
	of       reflect.Type
	schema   *huma.Schema
	registry huma.Registry
}

func (s *bodySchema) document() *huma.RequestBody {
	return &huma.RequestBody{Required: s.required(), Content: content("application/json", s.schema)}
}

// required reports whether a request without a body is malformed.
func (s *bodySchema) required() bool { return s.of.Kind() != reflect.Pointer }

// decode decodes a body and adds its faults: lists that are too long, text that we cannot store, and values
// that do not match the schema or cannot be decoded. Later steps skip values that already have a fault.
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
		faults.Add("body", withoutNUL) // in case it is in a value that a later duplicate replaces
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

// check calls a decoded body's Check, if it has one.
func (s *bodySchema) check(body reflect.Value, faults *errs.Faults) {
	if s.required() {
		body = body.Addr()
	}
	if c, ok := body.Interface().(Checked); ok && !body.IsNil() {
		c.Check(faults)
	}
}

// prune adds a fault for each list and object with more entries than its schema allows. It empties them,
// so that we need not validate the entries, and returns the result.
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

// maxEntries caps lists and objects that have no limit of their own.
const maxEntries = 10_000

func limitOf(limit *int) int {
	if limit == nil {
		return maxEntries
	}
	return *limit
}
