// Package state changes the state inside a thread's user_data.
//
// A user_data is JSON text: either {"state": {…}, "metadata": {…}} or the state itself.
package state

import (
	"encoding/json"
	"fmt"

	"steward/internal/encode"
	"steward/internal/errs"
)

// Operation is one step in a merge. It changes the state inside a user_data.
type Operation struct {
	Op    string          `json:"op"`
	Key   *string         `json:"key"`
	Value json.RawMessage `json:"value"`
	// MaxRecords caps the array after a push: only the last elements stay.
	MaxRecords *int `json:"maxRecords"`
}

// maxOperations caps the operations in one merge.
const maxOperations = 10_000

// Check returns Invalid with all errors in a merge.
func Check(ops []Operation) error {
	var faults errs.Faults
	faults.Check(len(ops) <= maxOperations, "data.operations", "expected at most %d", maxOperations)
	for i, op := range ops[:min(len(ops), maxOperations)] {
		at := fmt.Sprintf("data.operations[%d]", i)
		switch op.Op {
		case "set", "delete", "push":
			faults.Check(op.Key != nil, at+".key", "expected a key")
		case "clear":
		default:
			faults.Add(at+".op", "expected set, delete, clear or push")
		}
		faults.Check(op.MaxRecords == nil || *op.MaxRecords > 0, at+".maxRecords", "expected a number above 0")
	}
	return faults.Err()
}

// state is a decoded user_data. Values that no operation changes keep their text.
type state struct {
	values map[string]json.RawMessage
	// wrapped is true if the text is {"state": …, "metadata": …} and false if it is the state itself.
	wrapped  bool
	metadata json.RawMessage
}

// parse reads a user_data; nil or null is an empty state. It returns Conflict for a text that
// is not an object, since there is no state to change.
func parse(userData *string) (state, error) {
	s := state{values: map[string]json.RawMessage{}, wrapped: true}
	if userData == nil {
		return s, nil
	}
	var outer map[string]json.RawMessage
	if err := json.Unmarshal([]byte(*userData), &outer); err != nil {
		return s, errs.New(errs.Conflict, "the user_data of this thread is not an object, so nothing can be merged into it")
	}
	if outer == nil {
		return s, nil
	}
	inner, metadata, wrapped := unwrap(outer)
	if !wrapped {
		return state{values: outer}, nil
	}
	if inner != nil {
		s.values = inner
	}
	s.metadata = metadata
	return s, nil
}

// unwrap recognises {"state": {…}, "metadata": {…}}. Either may be missing or null; any other key
// makes it a flat state.
func unwrap(outer map[string]json.RawMessage) (inner map[string]json.RawMessage, metadata json.RawMessage, ok bool) {
	for key, value := range outer {
		var object map[string]json.RawMessage
		if key != "state" && key != "metadata" || json.Unmarshal(value, &object) != nil {
			return nil, nil, false
		}
		if key == "state" {
			inner = object
		} else if object != nil {
			metadata = value
		}
	}
	return inner, metadata, len(outer) > 0
}

// apply applies operations in order. It returns Conflict for a push to a value that is not an array.
func (s *state) apply(ops []Operation) error {
	arrays := map[string][]json.RawMessage{} // decoded by a push, and encoded at the end: once for many pushes
	for _, op := range ops {
		switch op.Op {
		case "clear":
			clear(s.values)
			clear(arrays)
		case "set":
			delete(arrays, *op.Key)
			s.values[*op.Key] = orNull(op.Value)
		case "delete":
			delete(arrays, *op.Key)
			delete(s.values, *op.Key)
		case "push":
			if err := s.push(arrays, op); err != nil {
				return err
			}
		}
	}
	for key, elements := range arrays {
		text, err := encode.Value(nil, elements)
		if err != nil {
			return err
		}
		s.values[key] = text
	}
	return nil
}

func (s *state) push(arrays map[string][]json.RawMessage, op Operation) error {
	elements, decoded := arrays[*op.Key]
	if text, there := s.values[*op.Key]; there && !decoded {
		if err := json.Unmarshal(text, &elements); err != nil {
			return errs.New(errs.Conflict, "an operation pushes to a key whose value is not an array")
		}
	}
	elements = append(elements, orNull(op.Value))
	if op.MaxRecords != nil && len(elements) > *op.MaxRecords {
		elements = elements[len(elements)-*op.MaxRecords:]
	}
	arrays[*op.Key] = elements
	return nil
}

// orNull returns null for a value that was not sent: JavaScript leaves out undefined values.
func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// text encodes the user_data. A flat state is wrapped if it has metadata now, or if its text would
// be taken for a wrapped one.
func (s *state) text() (string, error) {
	if _, _, ambiguous := unwrap(s.values); !s.wrapped && s.metadata == nil && !ambiguous {
		out, err := encode.Value(nil, s.values)
		return string(out), err
	}
	outer := map[string]any{"state": s.values}
	if s.metadata != nil {
		outer["metadata"] = s.metadata
	}
	out, err := encode.Value(nil, outer)
	return string(out), err
}

// Merge applies operations to a user_data and returns the result. If metadata is set, it replaces
// the metadata beside the state, and removes it if it is empty. Merge returns Conflict for a value
// of the wrong type, and Invalid if the result has more than limit bytes.
func Merge(userData *string, ops []Operation, metadata *json.RawMessage, limit int) (string, error) {
	s, err := parse(userData)
	if err != nil {
		return "", err
	}
	if err := s.apply(ops); err != nil {
		return "", err
	}
	if metadata != nil {
		s.metadata = *metadata
	}
	text, err := s.text()
	if err != nil {
		return "", fmt.Errorf("encode user_data: %w", err)
	}
	if len(text) > limit {
		return "", errs.InvalidField("data.operations", "the user_data would have more than %d bytes", limit)
	}
	return text, nil
}
