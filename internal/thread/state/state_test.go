package state

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/errs"
)

// limit is the most that a user_data may have here.
const limit = 1 << 20

func drawOperation(t *rapid.T) Operation {
	key := rapid.SampledFrom([]string{"a", "b", "state"}).Draw(t, "key")
	value := json.RawMessage(rapid.SampledFrom([]string{`1`, `"x"`, `{"y":[1]}`, `[]`, `[1,2]`, `null`}).Draw(t, "value"))
	kind := rapid.SampledFrom([]string{"set", "set", "push", "push", "push", "delete", "clear"}).Draw(t, "op")
	op := Operation{Op: kind, Key: &key, Value: value}
	if op.Op == "push" && rapid.Bool().Draw(t, "bounded") {
		n := rapid.IntRange(1, 3).Draw(t, "most")
		op.MaxRecords = &n
	}
	return op
}

// applyToModel applies operations to plain values. It returns false for a push to a value that is
// not an array.
func applyToModel(state map[string]any, ops []Operation) (map[string]any, bool) {
	for _, op := range ops {
		var value any
		_ = json.Unmarshal(op.Value, &value)
		switch op.Op {
		case "set":
			state[*op.Key] = value
		case "delete":
			delete(state, *op.Key)
		case "clear":
			state = map[string]any{}
		case "push":
			list, isList := state[*op.Key].([]any)
			if state[*op.Key] != nil && !isList {
				return nil, false
			}
			list = append(list, value)
			if op.MaxRecords != nil && len(list) > *op.MaxRecords {
				list = list[len(list)-*op.MaxRecords:]
			}
			state[*op.Key] = list
		}
	}
	return state, true
}

// TestMergeAgainstModel compares merges into user_data of every form with operations on plain values.
func TestMergeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOperation), 0, 8).Draw(t, "operations")
		form := rapid.SampledFrom([]string{
			"", "null", `{"a":[0],"z":1.50}`, `{"state":{"a":[0],"z":1.50}}`,
			`{"state":{"a":[0]},"metadata":{"m":1}}`, `{"metadata":{"m":1}}`, `{"state":null}`,
		}).Draw(t, "form")
		var before *string
		if form != "" {
			before = &form
		}
		want, ok := applyToModel(stateOf(form), ops)
		got, err := Merge(before, ops, nil, limit)
		if !ok {
			if errs.KindOf(err) != errs.Conflict {
				t.Fatalf("push onto a value: %q, %v", got, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if after := stateOf(got); !reflect.DeepEqual(after, want) && len(after)+len(want) > 0 {
			t.Fatalf("%s after %v: %s, want %v", form, ops, got, want)
		}
		if strings.Contains(form, `"m":1`) != strings.Contains(got, `"metadata":{"m":1}`) {
			t.Fatalf("metadata beside the state: %s became %s", form, got)
		}
	})
}

// stateOf returns the state inside a user_data, as runtimes read it.
func stateOf(text string) map[string]any {
	var outer map[string]any
	_ = json.Unmarshal([]byte(text), &outer)
	wrapped := len(outer) > 0
	for key, value := range outer {
		_, isObject := value.(map[string]any)
		wrapped = wrapped && (key == "state" || key == "metadata") && (isObject || value == nil)
	}
	if wrapped {
		outer, _ = outer["state"].(map[string]any)
	}
	if outer == nil {
		outer = map[string]any{}
	}
	return outer
}

func TestMergeKeepsTextOfUnchangedValues(t *testing.T) {
	before := `{"state":{"n":12345678901234567890.10,"list":[1.0,<"<">]}}`
	before = strings.ReplaceAll(before, `<"<">`, `"<&>"`)
	key := "list"
	got, err := Merge(&before, []Operation{{Op: "push", Key: &key, Value: json.RawMessage(`2.0`)}}, nil, limit)
	must(t, err)
	if want := `{"state":{"list":[1.0,"<&>",2.0],"n":12345678901234567890.10}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMergeSetsMetadataBesideState(t *testing.T) {
	for _, c := range []struct{ before, metadata, want string }{
		{`{"a":1}`, `{"m":2}`, `{"metadata":{"m":2},"state":{"a":1}}`},
		{`{"a":1}`, ``, `{"a":1}`},
		{`{"state":{"a":1},"metadata":{"m":1}}`, `{"m":2}`, `{"metadata":{"m":2},"state":{"a":1}}`},
		{`{"state":{"a":1},"metadata":{"m":1}}`, ``, `{"state":{"a":1}}`},
	} {
		var m json.RawMessage
		if c.metadata != "" {
			m = json.RawMessage(c.metadata)
		}
		got, err := Merge(&c.before, nil, &m, limit)
		must(t, err)
		if got != c.want {
			t.Errorf("%s with %s: got %s, want %s", c.before, c.metadata, got, c.want)
		}
	}
}

func TestMergeRefusesInvalidOperations(t *testing.T) {
	for _, text := range []string{`[1]`, `"x"`, `7`} {
		if _, err := Merge(&text, nil, nil, limit); errs.KindOf(err) != errs.Conflict {
			t.Errorf("%s: %v", text, err)
		}
	}
	key, zero := "k", 0
	large := json.RawMessage(`"` + strings.Repeat("x", limit) + `"`)
	_, err := Merge(nil, []Operation{{Op: "set", Key: &key, Value: large}}, nil, limit)
	wantKind(t, err, errs.Invalid)
	for _, op := range []Operation{
		{Op: "set"}, {Op: "push"}, {Op: "delete"}, {Op: "add", Key: &key}, {}, {Op: "push", Key: &key, MaxRecords: &zero},
	} {
		if errs.KindOf(Check([]Operation{op})) != errs.Invalid {
			t.Error("accepted: " + fmt.Sprint(op))
		}
	}
	many := slices.Repeat([]Operation{{Op: "clear"}}, maxOperations+1)
	must(t, Check(many[1:]))
	wantKind(t, Check(many), errs.Invalid)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Errorf("got %v, want %q", err, kind)
	}
}
