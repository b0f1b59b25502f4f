package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
)

func TestCursorReturnsItsValues(t *testing.T) {
	var at int64
	var id string
	if err := page.NewCursor(int64(1763193000123456), "thrd_x").Scan(&at, &id); err != nil {
		t.Fatal(err)
	}
	if at != 1763193000123456 || id != "thrd_x" {
		t.Fatalf("got %d and %s", at, id)
	}
}

func TestForeignCursorIsInvalid(t *testing.T) {
	for _, cursor := range []page.Cursor{
		"", "x", "!!", "bnVsbA",
		page.NewCursor("one value"), page.NewCursor("a", "b"), page.NewCursor(1, 2), page.NewCursor(1, "a", 2),
	} {
		var at int64
		var id string
		if err := cursor.Scan(&at, &id); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%q: %v, want Invalid", cursor, err)
		}
	}
}

func cursorOf(i int) page.Cursor { return page.NewCursor(int64(i)) }

func TestPageHasItemsTotalAndLinks(t *testing.T) {
	for name, test := range map[string]struct {
		rows   []int
		total  int64
		paging page.Paging
		body   string
		count  string
		rels   string
	}{
		"first":         {[]int{1, 2, 3}, 5, page.Paging{Limit: 2}, "[1,2]", "5", "first next last"},
		"middle":        {[]int{3, 4, 5}, 5, page.Paging{Limit: 2, Offset: 2}, "[3,4]", "5", "first prev next last"},
		"last":          {[]int{5}, 5, page.Paging{Limit: 2, Offset: 4}, "[5]", "5", "first prev last"},
		"empty list":    {nil, 0, page.Paging{Limit: 2}, "[]", "0", "first"},
		"limit 0":       {[]int{1}, 5, page.Paging{Limit: 0}, "[]", "5", ""},
		"unknown total": {[]int{1, 2, 3}, page.Unknown, page.Paging{Limit: 2}, "[1,2]", "", "first next"},
		"cursor":        {[]int{3, 4, 5}, 5, page.Paging{Limit: 2, Cursor: cursorOf(2)}, "[3,4]", "5", "first next last"},
	} {
		t.Run(name, func(t *testing.T) {
			p := page.New(test.rows, test.total, test.paging, cursorOf)
			body, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			p.SetHeaders(h, "/list", url.Values{"status": {"failed"}, "offset": {"2"}, "limit": {"2"}})
			if got := h.Get("X-Total-Count"); string(body) != test.body || got != test.count {
				t.Errorf("%s of %q, want %s of %q", body, got, test.body, test.count)
			}
			if got := rels(t, h.Get("Link")); got != test.rels {
				t.Errorf("links to %s, want %s: %s", got, test.rels, h.Get("Link"))
			}
		})
	}
}

// rels returns the relations in a Link header. It checks that each link keeps the filter and has
// either an offset or a cursor.
func rels(t *testing.T, header string) string {
	t.Helper()
	if header == "" {
		return ""
	}
	var out []string
	for link := range strings.SplitSeq(header, ", ") {
		if !strings.HasPrefix(link, "</list?") || !strings.Contains(link, "status=failed") ||
			strings.Contains(link, "offset=") == strings.Contains(link, "cursor=") {
			t.Errorf("bad link: %s", link)
		}
		_, rel, _ := strings.Cut(link, `rel="`)
		out = append(out, strings.TrimSuffix(rel, `"`))
	}
	return strings.Join(out, " ")
}

// shout appends JSON that encoding/json would not produce for it.
type shout struct{ Text string }

func (s shout) AppendJSON(to []byte) ([]byte, error) { return encode.String(to, s.Text+"!"), nil }

type plain struct{ Text string }

func TestPageUsesTheAppenderOfItsItems(t *testing.T) {
	for want, p := range map[string]encode.Appender{
		`[]`:                            page.Page[shout]{},
		`["a!","<b>!"]`:                 page.Page[shout]{Items: []shout{{"a"}, {"<b>"}}},
		`[{"Text":"a"},{"Text":"<b>"}]`: page.Page[plain]{Items: []plain{{"a"}, {"<b>"}}},
	} {
		if got, err := p.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
