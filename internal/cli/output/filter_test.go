package output_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/cli/output"
)

func filter(t *testing.T, expression string) *output.Filter {
	t.Helper()
	f, err := output.ParseFilter(expression)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilterSelectsFromLists(t *testing.T) {
	items := []string{`{"id":"a","n":1.5}`, `{"id":"b","n":12345678901234567890,"x":{"k":[1,null,"<é>"]}}`}
	for _, test := range []struct {
		format     output.Format
		expression string
		want       string
	}{
		{output.JSON, ".[].id", "a\nb\n"},
		{output.JSON, "length", "2\n"},
		{output.JSON, ".[1].x", "{\"k\":[1,null,\"<é>\"]}\n"},
		{output.JSON, ".[].n", "1.5\n12345678901234567890\n"},
		{output.JSON, ".[0].x", "null\n"},
		{output.JSON, "empty", ""},
		{output.NDJSON, ".id", "a\nb\n"},
		{output.NDJSON, `select(.id == "b") | .x.k[2]`, "<é>\n"},
	} {
		p := &output.Printer{Format: test.format, Filter: filter(t, test.expression)}
		if got := print(t, p, nil, items...); got != test.want {
			t.Errorf("%s of %s: %q, want %q", test.expression, test.format, got, test.want)
		}
	}
}

func TestFilterOfAnEmptyListGetsAnArray(t *testing.T) {
	p := &output.Printer{Format: output.JSON, Filter: filter(t, "length")}
	if got := print(t, p, nil); got != "0\n" {
		t.Errorf("got %q", got)
	}
}

func TestFilterSelectsFromAnItem(t *testing.T) {
	var out bytes.Buffer
	p := &output.Printer{Out: &out, Format: output.JSON, Filter: filter(t, ".name, .public")}
	if err := p.Item(json.RawMessage(`{"name":"a\u001b[31m","public":true}`)); err != nil || out.String() != "a\x1b[31m\ntrue\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	out.Reset()
	p.Width = 80 // a terminal
	if err := p.Item(json.RawMessage(`{"name":"a\u001b[31m\nb","public":null}`)); err != nil || out.String() != "a[31m\nb\nnull\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	p.Filter = filter(t, ".name.x")
	if err := p.Item(json.RawMessage(`{"name":"a"}`)); err == nil || !strings.HasPrefix(err.Error(), "--jq: ") {
		t.Errorf("got %v", err)
	}
}

func TestWrongFiltersAreRefused(t *testing.T) {
	for _, expression := range []string{".[", "nothing", "$x"} {
		if _, err := output.ParseFilter(expression); err == nil {
			t.Errorf("%s is accepted", expression)
		}
	}
}
