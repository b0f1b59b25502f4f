// Package decode turns JSON text into values as encoding/json does, with three differences: the names of an
// object match the fields of a struct exactly, in case too; every value that does not fit is reported with
// its location, not only the first; and an integer may be written as 5.0 or 5e0.
//
// It decides which member of an object belongs to which field, and leaves everything else to
// encoding/json. A type with an UnmarshalJSON of its own decides about the names in its text.
package decode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"steward/internal/errs"
)

// JSON decodes text, which must be valid JSON, into the value that v points to. It returns Invalid
// with the locations of all values that do not fit; the others are decoded.
func JSON(text []byte, v any) error {
	var faults errs.Faults
	Into(&faults, "", text, v)
	return faults.Err()
}

// Into is like JSON for the value at a location of a request. It adds what does not fit to faults,
// and leaves out what has a fault already.
func Into(faults *errs.Faults, location string, text []byte, v any) {
	d := decoder{faults: faults, fields: map[reflect.Type][]field{}}
	d.value(location, text, reflect.ValueOf(v).Elem())
}

type decoder struct {
	faults *errs.Faults
	fields map[reflect.Type][]field // of the structs so far
}

// field is a field of a struct that has a name in JSON.
type field struct {
	name     string
	index    []int
	nullable bool
}

func (d decoder) fieldsOf(t reflect.Type) []field {
	fields, known := d.fields[t]
	if known {
		return fields
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, ok := nameOf(f); ok {
			fields = append(fields, field{name: name, index: f.Index, nullable: f.Tag.Get("nullable") != "false"})
		}
	}
	d.fields[t] = fields
	return fields
}

func (d decoder) value(location string, text []byte, v reflect.Value) {
	null := string(text) == "null"
	switch {
	case d.faults.Has(location):
	case hasDecoder(v.Type()):
		d.leaf(location, text, v)
	case v.Kind() == reflect.Pointer && !null:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(location, text, v.Elem())
	case v.Kind() == reflect.Struct && !null:
		d.object(location, text, v)
	case v.Kind() == reflect.Slice && !null && v.Type().Elem().Kind() != reflect.Uint8:
		d.array(location, text, v)
	default:
		d.leaf(location, text, v)
	}
}

// hasDecoder reports whether a type decodes itself.
func hasDecoder(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (d decoder) object(location string, text []byte, v reflect.Value) {
	var members map[string]json.RawMessage // the last of equal names
	if json.Unmarshal(text, &members) != nil {
		d.faults.Add(location, "expected an object")
		return
	}
	for _, f := range d.fieldsOf(v.Type()) {
		member, sent := members[f.name]
		switch {
		case !sent:
		case string(member) == "null" && !f.nullable:
			d.faults.Add(location+"."+f.name, "expected a value other than null; leave it out instead")
		default:
			d.value(location+"."+f.name, member, v.FieldByIndex(f.index))
		}
	}
}

// nameOf returns the name of a field in JSON, or false if it has none.
func nameOf(f reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported() || name == "-" || f.Anonymous && name == "":
		return "", false
	case name == "":
		return f.Name, true
	}
	return name, true
}

func (d decoder) array(location string, text []byte, v reflect.Value) {
	var items []json.RawMessage
	if json.Unmarshal(text, &items) != nil {
		d.faults.Add(location, "expected an array")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", location, i), item, v.Index(i))
	}
}

// leaf decodes a value that has no fields of ours.
func (d decoder) leaf(location string, text []byte, v reflect.Value) {
	err := json.Unmarshal(text, v.Addr().Interface())
	if err == nil || !hasDecoder(v.Type()) && v.CanInt() && wholeNumber(text, v) {
		return
	}
	d.faults.Within(location, err, expectation(v))
}

func expectation(v reflect.Value) string {
	switch {
	case hasDecoder(v.Type()):
		return "expected a value of another form"
	case v.CanInt():
		return "expected an integer of at most 64 bits"
	case v.Kind() == reflect.String:
		return "expected a string"
	case v.Kind() == reflect.Bool:
		return "expected true or false"
	}
	return "expected a value of another type"
}

// wholeNumber decodes an integer in another form than 5, such as 5.0. It reports whether text is
// one that v can hold.
func wholeNumber(text []byte, v reflect.Value) bool {
	var n float64
	if json.Unmarshal(text, &n) != nil || n != math.Trunc(n) || math.Abs(n) >= 1<<53 || v.OverflowInt(int64(n)) {
		return false
	}
	v.SetInt(int64(n))
	return true
}
