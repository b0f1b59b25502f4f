package thread

import (
	"encoding/json"
	"fmt"

	"steward/internal/errs"
)

// Operation is one step of a merge: it changes the state inside of a user_data.
type Operation struct {
	Op    string          `json:"op"`
	Key   *string         `json:"key"`
	Value json.RawMessage `json:"value"`
	// MaxRecords keeps only so many of the last elements after a push.
	MaxRecords *int `json:"maxRecords"`
}

// maxOperations bounds one merge.
const maxOperations = 10_000

// checkOperations gives Invalid with every fault of a merge.
func checkOperations(ops []Operation) error {
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

// state is a user_data taken apart. Values that no operation touches keep their text.
type state struct {
	values map[string]json.RawMessage
	// wrapped says that the text is {"state": …, "metadata": …}; else it is the state itself.
	wrapped  bool
	metadata json.RawMessage
}

// parseState reads a user_data; nil, or null, is an empty state. A text that is no object is a Conflict: there is no state to change.
func parseState(userData *string) (state, error) {
	s := state{values: map[string]json.RawMessage{}, wrapped: true}
	if userData == nil {
		return s, nil
	}
	var outer map[string]json.RawMessage
	if err := json.Unmarshal([]byte(*userData), &outer); err != nil {
		return s, errs.New(errs.Conflict, "the user_data of this thread is not an object, so that nothing can be merged into it")
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

// unwrap recognises {"state": {…}, "metadata": {…}}, either of which may be missing or null, and nothing else beside them.
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

// apply does the operations in their order. A push onto what is not an array is a Conflict.
func (s *state) apply(ops []Operation) error {
	arrays := map[string][]json.RawMessage{} // pushed to, written back at the end: many pushes decode and encode an array once
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
		text, err := encodeJSON(elements)
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

// orNull is for a value that was not sent: JavaScript leaves out what is undefined.
func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// text puts the user_data together again. A state that gets metadata beside it becomes a wrapped one, and so does one whose text would be
// taken for a wrapped one.
func (s *state) text() (string, error) {
	if _, _, ambiguous := unwrap(s.values); !s.wrapped && s.metadata == nil && !ambiguous {
		out, err := encodeJSON(s.values)
		return string(out), err
	}
	outer := map[string]any{"state": s.values}
	if s.metadata != nil {
		outer["metadata"] = s.metadata
	}
	out, err := encodeJSON(outer)
	return string(out), err
}

// merge gives a user_data with operations applied, and with the thread's metadata beside the state where that was sent. Errors are Conflict
// for a text or value of another kind, Invalid when the result is too large.
func merge(userData *string, ops []Operation, metadata Metadata, sent bool) (string, error) {
	s, err := parseState(userData)
	if err != nil {
		return "", err
	}
	if err := s.apply(ops); err != nil {
		return "", err
	}
	if sent {
		s.metadata = json.RawMessage(metadata)
	}
	text, err := s.text()
	if err == nil && len(text) > MaxText {
		err = errs.Wrong("data.operations", "the user_data would have more than %d bytes", MaxText)
	}
	return text, err
}
