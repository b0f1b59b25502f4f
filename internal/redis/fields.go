package redis

import "strings"

// maxPacked is the most bytes that a hash's fields may take in one string, which each change copies.
const maxPacked = 2 << 10

// fields maps the names of a hash's fields to values. A short hash keeps them in one string, which
// takes a third of the memory and is no work for the garbage collector.
type fields struct {
	// packed has the names in the order in which they were added, each with its value, in the format of
	// dumps. count is their number.
	packed string
	count  int
	// dict is nil while the fields are packed. values counts the bytes in its values.
	dict   *dict[string]
	values int64
}

// isLarge reports whether the fields are ordered by hash.
func (f *fields) isLarge() bool { return f.dict != nil && f.dict.isLarge() }

// Len returns the number of fields.
func (f *fields) Len() int {
	if f.dict != nil {
		return f.dict.Len()
	}
	return f.count
}

// size estimates the bytes in memory.
func (f *fields) size() int64 {
	if f.dict != nil {
		return f.dict.size() + f.values
	}
	return int64(len(f.packed))
}

// all calls yield for each field until yield returns false. The fields must not change meanwhile.
func (f *fields) all(yield func(name, value string) bool) {
	if f.dict != nil {
		f.dict.all(func(it *item[string]) bool { return yield(it.key, it.value) })
		return
	}
	for r := (loader{text: f.packed}); r.text != ""; {
		if !yield(r.view(), r.view()) {
			return
		}
	}
}

// find returns a packed field's value, and where the field starts and ends. A missing one would be at
// the end.
func (f *fields) find(name string) (value string, start, end int) {
	for r := (loader{text: f.packed}); r.text != ""; {
		start = len(f.packed) - len(r.text)
		found := r.view() == name
		value = r.view()
		if found {
			return value, start, len(f.packed) - len(r.text)
		}
	}
	return "", len(f.packed), len(f.packed)
}

// get returns a field's value, and whether there is one.
func (f *fields) get(name string) (string, bool) {
	if f.dict != nil {
		return f.dict.get(name)
	}
	value, start, end := f.find(name)
	return value, start < end
}

// has reports whether there is a field.
func (f *fields) has(name string) bool {
	_, found := f.get(name)
	return found
}

// set sets a field to a copy of a value, and reports whether the field is new.
func (f *fields) set(name, value string) bool {
	if f.dict != nil {
		value = strings.Clone(value)
		f.values += int64(len(value))
		if it := f.dict.find(name); it != nil {
			f.values -= int64(len(it.value))
			it.value = value
			return false
		}
		f.dict.add(name, value)
		return true
	}
	_, start, end := f.find(name)
	var b [128]byte
	f.packed = f.packed[:start] + string(appendString(appendString(b[:0], name), value)) + f.packed[end:]
	if start == end {
		f.count++
	}
	if len(f.packed) > maxPacked {
		f.unpack()
	}
	return start == end
}

// delete deletes a field and reports whether there was one.
func (f *fields) delete(name string) bool {
	if f.dict != nil {
		it := f.dict.delete(name)
		if it != nil {
			f.values -= int64(len(it.value))
		}
		return it != nil
	}
	_, start, end := f.find(name)
	if start == end {
		return false
	}
	f.packed = f.packed[:start] + f.packed[end:]
	f.count--
	return true
}

// unpack moves the fields to a dict.
func (f *fields) unpack() {
	if f.dict != nil {
		return
	}
	d := f.asDict()
	values := int64(0)
	d.all(func(it *item[string]) bool {
		it.value = strings.Clone(it.value)
		values += int64(len(it.value))
		return true
	})
	*f = fields{dict: d, values: values}
}

// grow orders the fields by hash.
func (f *fields) grow() {
	f.unpack()
	f.dict.grow()
}

// asDict returns the fields as a dict, which is a copy while they are packed.
func (f *fields) asDict() *dict[string] {
	if f.dict != nil {
		return f.dict
	}
	d := &dict[string]{}
	f.all(func(name, value string) bool {
		d.add(name, value)
		return true
	})
	return d
}
