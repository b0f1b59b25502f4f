package webhook

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// search returns the ids of the receipts that a filter selects, from pages of a limit.
func (h *fixture) search(w Webhook, f ReceiptFilter, limit int) (ids []string) {
	h.t.Helper()
	for p := (page.Paging{Limit: limit}); ; {
		got, err := h.store.Receipts(as(alice), alice.OrgID, w.ID, f, p)
		must(h.t, err)
		if (got.Next == "") != (got.searchedTo == nil) {
			h.t.Fatalf("next %q, searched to %v", got.Next, got.searchedTo)
		}
		if p.Cursor == "" && got.Next == "" && got.Total != int64(len(got.Items)) {
			h.t.Fatalf("total %d of %d", got.Total, len(got.Items))
		}
		for _, r := range got.Items {
			ids = append(ids, r.ID)
		}
		if p.Cursor = got.Next; p.Cursor == "" {
			return ids
		}
	}
}

func TestSearchFindsBodiesAndQueries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		other, otherPath := h.webhook(alice)
		post := func(path, query, body string) string {
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			r.URL.RawQuery = query
			r.Header.Set("X-Plain", "In-A-Header")
			rec := h.request(r)
			return strings.Split(rec.Body.String(), `"`)[3]
		}
		order := post(path, "", `{"order": "ORD-1042", "city": "K\u00f6ln", "url": "https:\/\/a.test"}`)
		binary := post(path, "", "\xff\xfe\x00invoice-77\x00\xff")
		query := post(path, "source=Shop%20Berlin&a=b+c", "")
		large := post(path, "", strings.Repeat("x", 900_000)+"Ünique"+strings.Repeat("y", 100_000))
		post(path, "", "")
		post(otherPath, "", `{"order": "ORD-1042"}`)
		for text, want := range map[string][]string{
			"ord-1042": {order}, "ORD-1042": {order}, "köln": {order}, `K\u00f6ln`: {order}, "https://a.test": {order},
			"invoice-77": {binary}, "INVOICE": {binary},
			"shop%20berlin": {query}, "shop berlin": {query}, "b c": {query}, "A=B": {query},
			"ünIQUE": {large}, "xxxü": {large},
			"in-a-header": nil, "x-plain": nil, "%": {query}, "_": nil, "'": nil, "10%42": nil, "e": {large, query, binary, order},
		} {
			if got := h.search(w, ReceiptFilter{Search: text}, 2); !slices.Equal(got, want) {
				t.Errorf("%q: got %v, want %v", text, got, want)
			}
		}
		if got := h.search(other, ReceiptFilter{Search: "ord"}, 10); len(got) != 1 {
			t.Errorf("the other webhook: %v", got)
		}
		for _, p := range []page.Paging{{Limit: 1, Cursor: "x"}, {Limit: 1, Cursor: page.NewCursor("whdv_x")}} {
			_, err := h.store.Receipts(as(alice), alice.OrgID, w.ID, ReceiptFilter{Search: "a"}, p)
			mustBe(t, err, errs.Invalid)
		}
	})
}

// TestSearchFindsWhatANaiveOneFinds draws receipts, filters and pages.
func TestSearchFindsWhatANaiveOneFinds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		body := rapid.StringMatching(`[abAB%_]{0,5}`)
		dbtest.Check(t, d.Dialect(), func(t *rapid.T) {
			w, _ := h.webhook(alice)
			bodies := rapid.SliceOfN(body, 1, 150).Draw(t, "bodies")
			var dates []stamp.Time
			var ids []string
			for part := range slices.Chunk(bodies, 10) {
				h.clock.advance(3e6)
				for _, one := range h.accept(w, alice, part...) {
					ids = append(ids, one)
					dates = append(dates, stamp.Of(h.clock.now()))
				}
			}
			f := ReceiptFilter{Search: rapid.StringMatching(`[abAB%_]{1,2}`).Draw(t, "text")}
			if rapid.Bool().Draw(t, "since") {
				f.Since = new(rapid.SampledFrom(dates).Draw(t, "since"))
			}
			if rapid.Bool().Draw(t, "until") {
				f.Until = new(rapid.SampledFrom(dates).Draw(t, "until"))
			}
			var want []string
			for i, one := range bodies {
				isIn := (f.Since == nil || dates[i] >= *f.Since) && (f.Until == nil || dates[i] < *f.Until)
				if isIn && strings.Contains(strings.ToLower(one), strings.ToLower(f.Search)) {
					want = append(want, ids[i])
				}
			}
			slices.Reverse(want)
			if got := h.search(w, f, rapid.IntRange(1, 200).Draw(t, "limit")); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		})
	})
}

// TestSearchIsBounded has more receipts than a request looks at, and an old one to find.
func TestSearchIsBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		oldest := h.accept(w, alice, "needle")[0]
		series := map[db.Dialect]string{
			db.SQLite:   `WITH RECURSIVE s (i) AS (SELECT $2 UNION ALL SELECT i + 1 FROM s WHERE i < $3) SELECT printf('7z%024d', i) AS id, x'' AS body FROM s`,
			db.Postgres: `SELECT '7z' || lpad(i::text, 24, '0') AS id, ''::bytea AS body FROM generate_series($2::bigint, $3::bigint) i`,
		}[d.Dialect()]
		dbtest.Fill(t, d, maxLooked+maxRows, func(tx *db.Tx, first, last int) error {
			_, err := tx.Exec(`INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
				SELECT $1 || id, 0, 'POST', '', '', '', 0, '{}', body FROM (`+series+`) n`, bare(w.ID), first, last)
			return err
		})
		f := ReceiptFilter{Search: "needle"}
		got, err := h.store.Receipts(as(alice), alice.OrgID, w.ID, f, page.Paging{Limit: 10})
		must(t, err)
		if len(got.Items) > 0 || got.Next == "" || got.Total != page.Unknown {
			t.Errorf("the first request found %d, next %q, total %d", len(got.Items), got.Next, got.Total)
		}
		rec := httptest.NewRecorder()
		got.SetHeaders(rec.Header(), "/path", url.Values{"q": {"needle"}})
		if rec.Header().Get("Steward-Searched-To") != stamp.Time(0).String() || !strings.Contains(rec.Header().Get("Link"), "q=needle") {
			t.Errorf("headers: %v", rec.Header())
		}
		if ids := h.search(w, f, 10); !slices.Equal(ids, []string{oldest}) {
			t.Errorf("found %v", ids)
		}
	})
}

func TestNeighborsAreNextInTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		var hooks []Webhook
		for range 3 {
			w, _ := h.webhook(alice)
			hooks = append(hooks, w)
		}
		for _, w := range hooks {
			ids := append(append([]string{""}, h.accept(w, alice, "1", "2", "3")...), "")
			slices.Sort(ids[1:4])
			for i, receiptID := range ids[1:4] {
				got, err := h.http.Neighbors(as(alice), &ReceiptPath{Path{w.ID}, receiptID})
				must(t, err)
				if older, newer := ids[i], ids[i+2]; fmt.Sprint(text(got.Older), text(got.Newer)) != fmt.Sprint(older, newer) {
					t.Errorf("receipt %d: %q and %q", i, text(got.Older), text(got.Newer))
				}
			}
		}
		for _, receiptID := range []string{"", "x", "whrc_", h.accept(hooks[1], alice, "other")[0]} {
			_, err := h.http.Neighbors(as(alice), &ReceiptPath{Path{hooks[0].ID}, receiptID})
			mustBe(t, err, errs.NotFound)
		}
	})
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
