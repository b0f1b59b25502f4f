package object

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Tag is a key and a value on an object.
type Tag struct{ Key, Value string }

// Tags are an object's tags in the order in which the client sent them. In JSON they are one object.
type Tags []Tag

// MarshalJSON returns the tags as an object whose members keep their order.
func (t Tags) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, tag := range t {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(tag.Key)
		if err != nil {
			return nil, fmt.Errorf("encode tag: %w", err)
		}
		value, err := json.Marshal(tag.Value)
		if err != nil {
			return nil, fmt.Errorf("encode tag: %w", err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object and keeps its members in order.
func (t *Tags) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // {
		return fmt.Errorf("decode tags: %w", err)
	}
	for *t = nil; d.More(); {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("decode tags: %w", err)
		}
		name, _ := key.(string) // member names are strings
		tag := Tag{Key: name}
		if err := d.Decode(&tag.Value); err != nil {
			return fmt.Errorf("decode tags: %w", err)
		}
		*t = append(*t, tag)
	}
	return nil
}
