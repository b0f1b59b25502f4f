package encode_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/encode"
	"steward/internal/web/webtest"
)

// want returns what encoding/json produces without HTML escapes.
func want(t rapid.TB, value any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		t.Fatal(err)
	}
	return "before " + string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

var texts = rapid.OneOf(webtest.Texts, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))

func TestStringEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		if got := encode.String([]byte("before "), text); string(got) != want(t, text) {
			t.Fatalf("%q is %s, want %s", text, got, want(t, text))
		}
	})
}

func TestOptionalEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Ptr(texts, true).Draw(t, "text")
		if got := encode.Optional([]byte("before "), text); string(got) != want(t, text) {
			t.Fatalf("got %s, want %s", got, want(t, text))
		}
	})
}

type record struct {
	Text   string            `json:"text"`
	Maybe  *string           `json:"maybe"`
	Number float64           `json:"number"`
	Map    map[string]string `json:"map,omitempty"`
	List   []int64           `json:"list"`
}

var records = rapid.Custom(func(t *rapid.T) record {
	return record{
		Text:   texts.Draw(t, "text"),
		Maybe:  rapid.Ptr(texts, true).Draw(t, "maybe"),
		Number: rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "number"),
		Map:    rapid.MapOf(texts, texts).Draw(t, "map"),
		List:   rapid.SliceOf(rapid.Int64()).Draw(t, "list"),
	}
})

func TestValueEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := records.Draw(t, "value")
		got, err := encode.Value([]byte("before "), value)
		if err != nil || string(got) != want(t, value) {
			t.Fatalf("got %s, %v; want %s", got, err, want(t, value))
		}
	})
}

func TestEveryByteIsEscapedAsEncodingJSONDoes(t *testing.T) {
	for c := range 256 {
		for _, text := range []string{string([]byte{byte(c)}), "x" + string([]byte{byte(c)}), string([]byte{byte(c)}) + "x"} {
			if got := encode.String([]byte("before "), text); string(got) != want(t, text) {
				t.Errorf("%q is %s, want %s", text, got, want(t, text))
			}
		}
	}
}

func TestValueReportsWhatCannotBeEncoded(t *testing.T) {
	if _, err := encode.Value(nil, math.NaN()); err == nil {
		t.Error("NaN is encoded without an error")
	}
}
