package send

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFields(t *testing.T) {
	got := Fields(&http.Request{Host: "h\xff", Header: http.Header{
		"X-B": {"1", "2"}, "Accept": {"\x00é"}, "X-A": {""},
	}})
	want := []Field{{"accept", "\uFFFDé"}, {"host", "h\uFFFD"}, {"x-a", ""}, {"x-b", "1, 2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if Value(got, "x-b") != "1, 2" || Value(got, "x-c") != "" {
		t.Errorf("values of %v", got)
	}
}

// TestFieldsSurviveJSON also compares the JSON with what encoding/json reads.
func TestFieldsSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headers := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "headers")
		text := MarshalFields(FieldsOf(headers))
		var decoded map[string]string
		if err := json.Unmarshal([]byte(text), &decoded); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(headers, decoded); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		fields, err := UnmarshalFields(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(FieldsOf(headers), fields); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	if _, err := UnmarshalFields("{"); err == nil {
		t.Error("invalid JSON is accepted")
	}
}

func TestSendable(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"X-A", "v", true},
		{"x!#$%&'*+-.^_`|~9", "", true},
		{"Authorization", "Bearer é\t\"", true},
		{"Cookie", "a=b", true},
		{"", "v", false},
		{"X A", "v", false},
		{"X:A", "v", false},
		{"é", "v", false},
		{"x\n", "v", false},
		{"X-A", "a\r\nb", false},
		{"X-A", "a\x00", false},
		{"X-A", "\x7f", false},
		{"Host", "v", false},
		{"content-LENGTH", "1", false},
		{"Transfer-Encoding", "chunked", false},
		{"Connection", "close", false},
		{"Webhook-Id", "v", false},
		{"steward-attempt", "1", false},
	} {
		if got := Sendable(c.name, c.value); got != c.want {
			t.Errorf("%q: %q is %t", c.name, c.value, got)
		}
	}
}

func TestWithKeepsFieldsSorted(t *testing.T) {
	fields := With(With(FieldsOf(map[string]string{"a": "1", "c": "3"}), "b", "2"), "c", "4")
	if diff := cmp.Diff([]Field{{"a", "1"}, {"b", "2"}, {"c", "4"}}, fields); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
