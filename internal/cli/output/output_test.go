package output_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cli/output"
)

var now = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func print(t *testing.T, p *output.Printer, columns []output.Column, items ...string) string {
	t.Helper()
	var out bytes.Buffer
	p.Out = &out
	p.Now = func() time.Time { return now }
	list := p.List(columns)
	for _, item := range items {
		if err := list.Add(json.RawMessage(item)); err != nil {
			t.Fatal(err)
		}
	}
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var columns = []output.Column{
	output.ID("ID", "id"),
	{Title: "NAME", Path: "name"},
	{Title: "CREATED", Path: "created_at", Kind: output.Time},
	{Title: "SIZE", Path: "size", Kind: output.Bytes},
	{Title: "STATUS", Path: "status", Kind: output.Status},
	{Title: "OWNER", Path: "owner.name", Wide: true},
}

const item = `{"id":"wh_1","name":"a name that is rather long for a small terminal","created_at":"2026-11-16T10:00:00.000Z","size":2048,"status":"failed","owner":{"name":"ada"}}`

func TestTableIsCutToTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		0: "ID    NAME                                           CREATED      SIZE     STATUS\n" +
			"wh_1  a name that is rather long for a small terminal  2 hours ago  2.0 KiB  failed\n",
		60: "ID    NAME                    CREATED      SIZE     STATUS\n" +
			"wh_1  a name that is rather…  2 hours ago  2.0 KiB  failed\n",
	} {
		got := print(t, &output.Printer{Format: output.Table, Width: width}, columns, item)
		if width == 0 {
			want = strings.Replace(want, "NAME                                           ", "NAME                                             ", 1)
		}
		for line := range strings.Lines(got) {
			if width > 0 && len([]rune(strings.TrimSuffix(line, "\n"))) > width {
				t.Errorf("width %d: %q is too long", width, line)
			}
		}
		if width == 0 && got != want {
			t.Errorf("width %d: %s", width, cmp.Diff(want, got))
		}
	}
}

func TestWideTableShowsAllColumnsInFull(t *testing.T) {
	got := print(t, &output.Printer{Format: output.Wide, Width: 40}, columns, item)
	if !strings.Contains(got, "OWNER") || !strings.Contains(got, "ada") || !strings.Contains(got, "small terminal") {
		t.Errorf("got %q", got)
	}
}

func TestColorsOnlyIfAllowed(t *testing.T) {
	if got := print(t, &output.Printer{Format: output.Table}, columns, item); strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
	got := print(t, &output.Printer{Format: output.Table, Color: true}, columns, item)
	if !strings.Contains(got, "\x1b[31mfailed\x1b[0m") {
		t.Errorf("got %q", got)
	}
}

func TestControlCharactersAreNotPrinted(t *testing.T) {
	got := print(t, &output.Printer{Format: output.Table}, columns, `{"id":"a","name":"x\u001b]0;title\u0007\u202ey\nz"}`)
	if !strings.Contains(got, "x]0;titley z") || strings.ContainsAny(got, "\x1b\x07\u202e") {
		t.Errorf("got %q", got)
	}
}

func TestLongListKeepsItsColumns(t *testing.T) {
	items := make([]string, 2500)
	for i := range items {
		items[i] = `{"id":"wh_1","name":"n"}`
	}
	lines := strings.Split(print(t, &output.Printer{Format: output.Table}, columns, items...), "\n")
	if len(lines) != 2502 || lines[1] != lines[2500] {
		t.Errorf("%d lines, %q and %q", len(lines), lines[1], lines[2500])
	}
}

func TestFormatsOfLists(t *testing.T) {
	items := []string{`{"b":1.50,"a":"x: y"}`, `{"b":[],"a":null,"c":{"d":[1,true]}}`}
	for format, want := range map[output.Format]string{
		output.JSON:   "[\n  {\n    \"b\": 1.50,\n    \"a\": \"x: y\"\n  },\n  {\n    \"b\": [],\n    \"a\": null,\n    \"c\": {\n      \"d\": [\n        1,\n        true\n      ]\n    }\n  }\n]\n",
		output.NDJSON: "{\"b\":1.50,\"a\":\"x: y\"}\n{\"b\":[],\"a\":null,\"c\":{\"d\":[1,true]}}\n",
		output.YAML:   "- b: 1.50\n  a: 'x: y'\n- b: []\n  a: null\n  c:\n    d:\n      - 1\n      - true\n",
	} {
		if got := print(t, &output.Printer{Format: format}, nil, items...); got != want {
			t.Errorf("%s: %s", format, cmp.Diff(want, got))
		}
	}
}

func TestEmptyLists(t *testing.T) {
	for format, want := range map[output.Format]string{
		output.JSON: "[]\n", output.YAML: "[]\n", output.NDJSON: "", output.Table: "",
	} {
		if got := print(t, &output.Printer{Format: format}, columns); got != want {
			t.Errorf("%s: %q", format, got)
		}
	}
}

func TestItemShowsAllFieldsInTheirOrder(t *testing.T) {
	var out bytes.Buffer
	p := &output.Printer{Out: &out, Format: output.Table, Now: func() time.Time { return now }}
	err := p.Item(json.RawMessage(`{"name":"n","created_at":"2026-11-16T11:59:00.000Z","scopes":["a","b"],"project":null}`))
	want := "name        n\ncreated_at  2026-11-16T11:59:00.000Z (1 minute ago)\nscopes      a, b\nproject\n"
	if err != nil || out.String() != want {
		t.Errorf("%v: %s", err, cmp.Diff(want, out.String()))
	}
}

func TestJSONEndsWithOneLineBreak(t *testing.T) {
	var out bytes.Buffer
	p := &output.Printer{Out: &out, Format: output.JSON}
	if err := p.Item(json.RawMessage("{\"a\":1}\n")); err != nil || out.String() != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}
