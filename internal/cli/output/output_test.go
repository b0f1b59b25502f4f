package output_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
	output.Name("NAME", "name"),
	{Title: "DESCRIPTION", Path: "description"},
	{Title: "CREATED", Path: "created_at", Kind: output.Time},
	{Title: "SIZE", Path: "size", Kind: output.Bytes},
	{Title: "STATUS", Path: "status", Kind: output.Status},
	output.ID("ID", "id"),
	{Title: "OWNER", Path: "owner.name", Wide: true},
}

const item = `{"id":"wh_01m7hhg9ts4bcezkc2pt9zaky1","name":"product-photos","description":"what the shop sends","created_at":"2026-11-16T10:00:00.000Z",` +
	`"size":2048,"status":"failed","owner":{"name":"ada"}}`

func TestIDsShrinkFirstAndNamesLast(t *testing.T) {
	for width, want := range map[int]string{
		0: "NAME            DESCRIPTION          CREATED  SIZE    STATUS  ID\n" +
			"product-photos  what the shop sends  2 h ago  2.0 kB  failed  wh_01m7hhg9ts4bcezkc2pt9zaky1\n",
		80: "NAME            DESCRIPTION          CREATED  SIZE    STATUS  ID\n" +
			"product-photos  what the shop sends  2 h ago  2.0 kB  failed  wh_…cezkc2pt9zaky1\n",
		70: "NAME            DESCRIPTION        CREATED  SIZE    STATUS  ID\n" +
			"product-photos  what the shop se…  2 h ago  2.0 kB  failed  wh_…9zaky1\n",
		56: "NAME            DESCRIPTION      CREATED  SIZE    STATUS\n" +
			"product-photos  what the shop …  2 h ago  2.0 kB  failed\n",
		50: "NAME            DESCRIPT…  CREATED  SIZE    STATUS\n" +
			"product-photos  what the…  2 h ago  2.0 kB  failed\n",
	} {
		got := print(t, &output.Printer{Format: output.Table, Width: width}, columns, item)
		for line := range strings.Lines(got) {
			if width > 0 && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("width %d: %q is too long", width, line)
			}
		}
		if got != want {
			t.Errorf("width %d: %s", width, cmp.Diff(want, got))
		}
	}
}

func TestIDWithoutANameIsCutLast(t *testing.T) {
	columns := []output.Column{output.Handle("ID", "id"), {Title: "ERROR", Path: "error"}}
	item := `{"id":"whdv_01m7hhg9ts4bcezkc2pt9zaky1","error":"the destination responds with 503 Service Unavailable"}`
	got := print(t, &output.Printer{Format: output.Table, Width: 50}, columns, item)
	if !strings.Contains(got, "whdv_01m7hhg9ts4bcezkc2pt9zaky1  the destination …\n") {
		t.Errorf("got %s", got)
	}
}

func TestGroupStandsBelow(t *testing.T) {
	items := []string{`{"name":"s3","internal":true}`, `{"name":"orders"}`, `{"name":"kv","internal":true}`}
	columns := []output.Column{output.Name("NAME", "name")}
	list := func(format output.Format, items ...string) string {
		var out bytes.Buffer
		l := (&output.Printer{Out: &out, Format: format, Now: func() time.Time { return now }}).List(columns)
		l.Apart = &output.Group{Title: "System", Has: func(item map[string]any) bool { return item["internal"] == true }}
		for _, item := range items {
			if err := l.Add(json.RawMessage(item)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := list(output.Table, items...); got != "NAME\norders\n\nSystem:\nNAME\ns3\nkv\n" {
		t.Errorf("got %q", got)
	}
	if got := list(output.Table, items[0]); got != "System:\nNAME\ns3\n" {
		t.Errorf("got %q", got)
	}
	if got := list(output.NDJSON, items...); got != strings.Join(items, "\n")+"\n" {
		t.Errorf("got %q", got)
	}
}

func TestValuesOfDatabases(t *testing.T) {
	columns := []output.Column{{Title: "a", Path: "0", Kind: output.SQL}, {Title: "b", Path: "1", Kind: output.SQL}}
	got := print(t, &output.Printer{Format: output.Table}, columns, `{"0":null,"1":true}`, `{"0":"","1":[1,null]}`)
	if want := "a     b\nNULL  true\n      [1,null]\n"; got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestListWithoutColumnsShowsTheFieldsOfTheFirstItem(t *testing.T) {
	got := print(t, &output.Printer{Format: output.Table}, nil,
		`{"id":"wh_1","created_at":"2026-11-16T10:00:00.000Z","name":"orders"}`, `{"id":"wh_2","name":"x"}`)
	if want := "CREATED AT  NAME    ID\n2 h ago     orders  wh_1\n            x       wh_2\n"; got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestRowsAreInFullWithoutATerminal(t *testing.T) {
	items := make([]string, 1001)
	for i := range items {
		items[i] = `{"name":"n"}`
	}
	items[1000] = `{"name":"longer than all before"}`
	if got := print(t, &output.Printer{Format: output.Table}, columns[:1], items...); !strings.HasSuffix(got, "\nlonger than all before\n") {
		t.Errorf("got %q", got[len(got)-40:])
	}
}

func TestWideTableShowsAllColumnsInFull(t *testing.T) {
	got := print(t, &output.Printer{Format: output.Wide, Width: 40}, columns, item)
	if !strings.Contains(got, "OWNER") || !strings.Contains(got, "ada") || !strings.Contains(got, "what the shop sends") {
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
	err := p.Item(json.RawMessage(`{"name":"n","created_at":"2026-11-16T11:59:00.000Z","scopes":["a","b"],"project":null,"total_size":1257000,"retention_seconds":604800}`))
	want := "name               n\ncreated_at         2026-11-16T11:59:00.000Z (1 min ago)\nscopes             a, b\nproject\n" +
		"total_size         1257000 (1.3 MB)\nretention_seconds  604800 (7 days)\n"
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

// TestWideCharactersAreCutWhole cuts a text whose characters take two columns of a terminal.
func TestWideCharactersAreCutWhole(t *testing.T) {
	columns := []output.Column{{Title: "NAME", Path: "name"}, {Title: "SIZE", Path: "size"}}
	for width, want := range map[int]string{
		0:  "NAME                    SIZE\n写真のバケツ生命のcafe\u0301  12\n",
		17: "NAME         SIZE\n写真のバケ…  12\n",
		18: "NAME          SIZE\n写真のバケ…   12\n",
	} {
		got := print(t, &output.Printer{Format: output.Table, Width: width}, columns, `{"name":"写真のバケツ生命のcafe\u0301","size":12}`)
		if got != want {
			t.Errorf("width %d: %s", width, cmp.Diff(want, got))
		}
	}
}
