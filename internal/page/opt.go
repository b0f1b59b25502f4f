package page

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/decode"
)

// Opt is a field in a partial update, or a query parameter. It may be absent, null, or have a value.
type Opt[T any] struct {
	Sent  bool
	Null  bool
	Value T
}

// Some returns an Opt that was sent with a value.
func Some[T any](v T) Opt[T] { return Opt[T]{Sent: true, Value: v} }

// FromPtr returns an Opt that was sent with a value, or with null if value is nil.
func FromPtr[T any](value *T) Opt[T] {
	if value == nil {
		return Opt[T]{Sent: true, Null: true}
	}
	return Some(*value)
}

// UnmarshalJSON is called for fields that are present, including null.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	o.Sent = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return decode.JSON(b, &o.Value)
}

// Parameter is called for query parameters that are present, and returns the value to set.
func (o *Opt[T]) Parameter() reflect.Value {
	o.Sent = true
	return reflect.ValueOf(&o.Value).Elem()
}

// Schema documents the field as a T that may be null.
func (o Opt[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// Ptr returns a pointer to the value, or nil if the field is absent or null.
func (o Opt[T]) Ptr() *T {
	if !o.Sent || o.Null {
		return nil
	}
	return &o.Value
}

// Set sets dst to the value unless the field is absent; null sets the zero value.
func (o Opt[T]) Set(dst *T) {
	if o.Sent {
		*dst = o.Value
	}
}

// SetPtr sets dst to Ptr unless the field is absent.
func (o Opt[T]) SetPtr(dst **T) {
	if o.Sent {
		*dst = o.Ptr()
	}
}
