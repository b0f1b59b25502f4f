package page

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Opt is a field of a partial update: it knows whether it was sent, and whether null was sent.
type Opt[T any] struct {
	Sent  bool
	Null  bool
	Value T
}

// Some is an Opt that was sent with a value.
func Some[T any](v T) Opt[T] { return Opt[T]{Sent: true, Value: v} }

// UnmarshalJSON is called only for fields that are there.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	o.Sent = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return json.Unmarshal(b, &o.Value)
}

// Schema documents the field as a T that may be null.
func (o Opt[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// Ptr gives the value as a pointer, nil when null or nothing was sent.
func (o Opt[T]) Ptr() *T {
	if !o.Sent || o.Null {
		return nil
	}
	return &o.Value
}

// Set writes a sent value over dst; null sets the zero value.
func (o Opt[T]) Set(dst *T) {
	if o.Sent {
		*dst = o.Value
	}
}

// SetPtr writes a sent value over dst; null clears it.
func (o Opt[T]) SetPtr(dst **T) {
	if o.Sent {
		*dst = o.Ptr()
	}
}
