package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/db"
)

// Tag is a key and a value on an object.
type Tag struct{ Key, Value string }

// Tags are an object's tags in the order in which the client sent them. In JSON they are one object.
type Tags []Tag

// MarshalJSON returns the tags as an object whose members keep their order.
func (t Tags) MarshalJSON() ([]byte, error) {
	members := make([]string, len(t))
	for i, tag := range t {
		members[i] = db.ToJSON(tag.Key) + ":" + db.ToJSON(tag.Value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// UnmarshalJSON reads an object and keeps its members in order.
func (t *Tags) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // {
		return fmt.Errorf("decode tags: %w", err)
	}
	for *t = nil; d.More(); {
		key, err := d.Token()
		var value string
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return fmt.Errorf("decode tags: %w", err)
		}
		name, _ := key.(string) // member names are strings
		*t = append(*t, Tag{name, value})
	}
	return nil
}
