package term

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sample is a value with two texts that differ in everything that does not matter.
type sample struct {
	value any // comparable by its Go syntax
	texts [2]string
}

// drawValue draws a JSON value.
func drawValue(t *rapid.T, depth int) sample {
	most := 6
	if depth == 0 {
		most = 4
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return sample{nil, [2]string{"null", " null "}}
	case 1:
		b := rapid.Bool().Draw(t, "bool")
		return sample{b, [2]string{fmt.Sprint(b), fmt.Sprint(b) + "\n"}}
	case 2, 3:
		return drawNumber(t)
	case 4:
		s := rapid.StringOfN(rapid.RuneFrom([]rune(`abé"\/ 1,:{}[]`)), 0, 5, -1).Draw(t, "string")
		plain, _ := json.Marshal(s)
		var escaped strings.Builder
		for _, r := range s {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
		return sample{s, [2]string{string(plain), `"` + escaped.String() + `"`}}
	case 5:
		return drawArray(t, depth)
	}
	return drawObject(t, depth)
}

func drawNumber(t *rapid.T) sample {
	n := rapid.Int64Range(-1200, 1200).Draw(t, "number")
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
	scaled := fmt.Sprintf("%d%se-%d", n, strings.Repeat("0", zeros), zeros)
	if n == 0 {
		scaled = "-0.0E+5"
	}
	return sample{n, [2]string{fmt.Sprint(n), scaled}}
}

func drawArray(t *rapid.T, depth int) sample {
	out := sample{value: []any{}}
	var texts [2][]string
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		v := drawValue(t, depth-1)
		out.value = append(out.value.([]any), v.value)
		texts[0], texts[1] = append(texts[0], v.texts[0]), append(texts[1], v.texts[1])
	}
	out.texts = [2]string{"[" + strings.Join(texts[0], ",") + "]", "[ " + strings.Join(texts[1], " , ") + "]"}
	return out
}

func drawObject(t *rapid.T, depth int) sample {
	object := map[string]any{}
	var texts [2][]string
	for i := range rapid.IntRange(0, 3).Draw(t, "fields") {
		v := drawValue(t, depth-1)
		key := fmt.Sprintf("k%d", i)
		object[key] = v.value
		texts[0] = append(texts[0], fmt.Sprintf("%q:%s", key, v.texts[0]))
		// In reverse order, and after a value that is overridden.
		texts[1] = append([]string{fmt.Sprintf("%q:0", key)}, texts[1]...)
		texts[1] = append(texts[1], fmt.Sprintf("%q:%s", key, v.texts[1]))
	}
	return sample{object, [2]string{"{" + strings.Join(texts[0], ",") + "}", "{" + strings.Join(texts[1], ",") + "}"}}
}

// decode decodes JSON whose numbers keep their text.
func decode(text string) (value any, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

func canonicalOf(t *rapid.T, text string) string {
	value, err := decode(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(appendCanonical(nil, value))
}

func TestCanonicalFormsAreEqualForEqualValuesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawValue(t, 3), drawValue(t, 3)
		for _, v := range []sample{a, b} {
			if x, y := canonicalOf(t, v.texts[0]), canonicalOf(t, v.texts[1]); x != y {
				t.Fatalf("%s and %s: %s and %s", v.texts[0], v.texts[1], x, y)
			}
		}
		equal := fmt.Sprintf("%#v", a.value) == fmt.Sprintf("%#v", b.value) // maps print sorted
		if same := canonicalOf(t, a.texts[0]) == canonicalOf(t, b.texts[1]); same != equal {
			t.Fatalf("%s and %s: equal %v, canonical forms equal %v", a.texts[0], b.texts[1], equal, same)
		}
	})
}

// TestCanonicalFormsOfHostileStrings has strings that look like the structure around them.
func TestCanonicalFormsOfHostileStrings(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`["a","b"]`, `["a,\"b"]`, `["a\",\"b"]`, `["a"]`, `"a"`, `{"a":"b"}`, `{"a\":\"b":null}`, `{"a":"b","c":"d"}`, `{"a":"b\"c\":\"d"}`,
		`{"a":{"b":1}}`, `{"a":{},"b":1}`, `[[1],2]`, `[[1,2]]`, `[1,[2]]`, `[12]`, `[1,2]`, `"1e0"`, `1`, `"true"`, `true`,
		`"null"`, `null`, `[]`, `{}`, `""`, `[""]`, `["",""]`, `["1\"a"]`, `["1","a"]`,
	} {
		value, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		form := string(appendCanonical(nil, value))
		if other, there := seen[form]; there {
			t.Errorf("%s and %s have the same form: %s", text, other, form)
		}
		seen[form] = text
	}
}

func TestCanonicalNumbers(t *testing.T) {
	same := [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1e1", "0.001E+3", "1.000"},
		{"0", "-0", "0.0", "0e9", "-0.00E-99999999999999999999"},
		{"-12.5", "-1.25e1", "-125e-1", "-12.50"},
		{"1e400", "10e399", "0.1e401"},
		{"12345678901234567890", "1234567890123456789e1", "12345678901234567890.0"},
		{"12345678901234567891"},
		{"1e-400", "0.1e-399"},
		{"1e99999999999999999999"},
		{"1e99999999999999999998"},
	}
	for i, texts := range same {
		for j, others := range same {
			for _, a := range texts {
				for _, b := range others {
					if equal := canonicalNumber(a) == canonicalNumber(b); equal != (i == j) {
						t.Errorf("%s and %s: equal is %v", a, b, equal)
					}
				}
			}
		}
	}
}
