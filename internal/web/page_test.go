package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

func TestCursorComesBack(t *testing.T) {
	var at int64
	var id string
	if err := page.NewCursor(int64(1763193000123456), "thrd_x").Scan(&at, &id); err != nil || at != 1763193000123456 || id != "thrd_x" {
		t.Fatalf("got %d %s %v", at, id, err)
	}
	for _, hostile := range []page.Cursor{"x", "!!", "bnVsbA", page.NewCursor("only one"), page.NewCursor("a", "b"), page.NewCursor(1, 2)} {
		if err := hostile.Scan(&at, &id); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%q: %v", hostile, err)
		}
	}
}

// TestPageTellsTheRest: a page is a plain array; headers tell how many there are and where the other pages start.
func TestPageTellsTheRest(t *testing.T) {
	at := func(i int) page.Cursor { return page.NewCursor(int64(i)) }
	for name, c := range map[string]struct {
		rows   []int
		total  int64
		paging page.Paging
		body   string
		count  string
		rels   string
	}{
		"first":   {[]int{1, 2, 3}, 5, page.Paging{Limit: 2}, "[1,2]", "5", "first next last"},
		"middle":  {[]int{3, 4, 5}, 5, page.Paging{Limit: 2, Offset: 2}, "[3,4]", "5", "first prev next last"},
		"last":    {[]int{5}, 5, page.Paging{Limit: 2, Offset: 4}, "[5]", "5", "first prev last"},
		"none":    {nil, 0, page.Paging{Limit: 2}, "[]", "0", "first"},
		"zero":    {[]int{1}, 5, page.Paging{Limit: 0}, "[]", "5", ""},
		"unknown": {[]int{1, 2, 3}, page.Unknown, page.Paging{Limit: 2}, "[1,2]", "", "first next"},
		"cursor":  {[]int{3, 4, 5}, 5, page.Paging{Limit: 2, Cursor: at(2)}, "[3,4]", "5", "first next last"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/list?status=failed&offset=2&limit=2", nil)
			web.Write(rec, r, http.StatusOK, page.New(c.rows, c.total, c.paging, at))
			if got := strings.TrimSpace(rec.Body.String()); got != c.body || rec.Header().Get("X-Total-Count") != c.count {
				t.Errorf("%s, %s in all", got, rec.Header().Get("X-Total-Count"))
			}
			if got := rels(t, rec.Header().Get("Link")); got != c.rels {
				t.Errorf("links to %s, want %s: %s", got, c.rels, rec.Header().Get("Link"))
			}
		})
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		limit int
		total int64
		want  int
	}{{10, 1 << 40, 11}, {10, 11, 11}, {10, 3, 3}, {10, 0, 0}, {10, page.Unknown, 11}, {0, 7, 1}} {
		if got := (page.Paging{Limit: c.limit}).Room(c.total); got != c.want {
			t.Errorf("room for %d, of %d at most %d", got, c.total, c.limit)
		}
	}
}

// rels lists where a Link header leads, and checks that each link keeps the filter and has one way to say where it starts.
func rels(t *testing.T, header string) string {
	var out []string
	for _, link := range strings.Split(header, ", ") {
		if link == "" {
			continue
		}
		if !strings.Contains(link, "status=failed") || strings.Contains(link, "offset=") == strings.Contains(link, "cursor=") {
			t.Errorf("a bad link: %s", link)
		}
		_, rel, _ := strings.Cut(link, `rel="`)
		out = append(out, strings.TrimSuffix(rel, `"`))
	}
	return strings.Join(out, " ")
}

func TestOptKnowsSentNullAndValue(t *testing.T) {
	var patch struct {
		A, B, C page.Opt[string]
	}
	if err := json.Unmarshal([]byte(`{"A":"x","B":null}`), &patch); err != nil {
		t.Fatal(err)
	}
	value := "before"
	a, b, c := &value, &value, &value
	patch.A.SetPtr(&a)
	patch.B.SetPtr(&b)
	patch.C.SetPtr(&c)
	if *a != "x" || b != nil || *c != "before" {
		t.Fatalf("got %v %v %v", a, b, c)
	}
}
