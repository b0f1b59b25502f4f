package list_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

type row struct {
	at stamp.Time
	id string
}

func scanRow(r db.Row) (one row, err error) { return one, r.Scan(&one.at, &one.id) }

// size is the number of rows, three of each time.
const size = page.MaxSkipped + 500

// fill creates a table of rows.
func fill(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		text := "TEXT"
		if d.Dialect() == db.Postgres {
			text = `TEXT COLLATE "C"`
		}
		if _, err := tx.Exec(fmt.Sprintf(`CREATE TABLE numbered (at BIGINT, id %s, kind TEXT, PRIMARY KEY (at, id))`, text)); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO numbered WITH RECURSIVE seq (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM seq WHERE i < $1)
			SELECT i / 3, 'row_' || CAST(100000 + i AS TEXT), CASE i % 1000 WHEN 0 THEN 'rare' ELSE 'usual' END FROM seq`, size-1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func byTime() list.Order[row] {
	return list.ByTime(`at`, `id`, func(r row) (stamp.Time, string) { return r.at, r.id })
}

func rows(order list.Order[row]) list.Query[row] {
	return list.Query[row]{
		Name: "rows", From: list.Text(`numbered`), Where: list.Where(`id <> ?`, ""), Order: order, Columns: `at, id`, Scan: scanRow,
	}
}

// all returns a whole list as cursors show it.
func all(t *testing.T, q db.Querier, l list.Query[row]) (all []row) {
	t.Helper()
	for p, more := (page.Paging{Limit: page.MaxLimit}), true; more; more = p.Cursor != "" {
		got, err := l.Page(q, p, page.Unknown)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got.Items...)
		p.Cursor = got.Next
	}
	return all
}

func TestPagesAreTheList(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d)
		q := d.Read(t.Context())
		ascending := byTime()
		ascending.Ascending = true
		joined := rows(byTime())
		joined.Columns = `numbered.at, numbered.id`
		joined.Join = list.Text(`JOIN numbered ON numbered.at = entries.at AND numbered.id = entries.id AND numbered.id > ?`, "row_1")
		for name, l := range map[string]list.Query[row]{
			"by id":      rows(list.ByID(`id`, "row", func(r row) string { return r.id })),
			"descending": rows(byTime()),
			"ascending":  rows(ascending),
			"joined":     joined,
		} {
			whole := all(t, q, l)
			isOrdered := slices.IsSortedFunc(whole, func(a, b row) int {
				if l.Order.Ascending {
					a, b = b, a
				}
				return cmp.Compare(b.id, a.id)
			})
			if len(whole) != size || !isOrdered {
				t.Errorf("%s: %d rows, ordered: %v", name, len(whole), isOrdered)
			}
			for _, offset := range []int{0, 7, page.MaxSkipped, page.MaxSkipped + 1, size - 1, size, 5 * size} {
				got, err := l.Page(q, page.Paging{Limit: 7, Offset: offset}, size)
				if err != nil {
					t.Fatal(err)
				}
				want := whole[min(offset, size):min(offset+7, size)]
				if !slices.Equal(got.Items, want) || (got.Next != "") != (offset+7 < size) || got.Total != size {
					t.Errorf("%s, offset %d: %v, next %q, want %v", name, offset, got.Items, got.Next, want)
				}
			}
		}
	})
}

func TestCursorBeforeTheBeginningIsTheBeginning(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d)
		l := rows(byTime())
		l.Order.Begin = []any{int64(2), ""}
		for cursor, want := range map[page.Cursor]string{
			page.NewCursor(int64(3000), "x"):       "row_100005",
			page.NewCursor(int64(2), "x"):          "row_100005",
			page.NewCursor(int64(1), "row_100004"): "row_100003",
		} {
			got, err := l.Page(d.Read(t.Context()), page.Paging{Limit: 1, Cursor: cursor, Offset: 1000}, page.Unknown)
			if err != nil || len(got.Items) != 1 || got.Items[0].id != want {
				t.Errorf("cursor %q: %v, %v, want %s", cursor, got.Items, err, want)
			}
		}
	})
}

func TestForeignCursorIsInvalid(t *testing.T) {
	byID := rows(list.ByID(`id`, "row", func(r row) string { return r.id }))
	for _, cursor := range []page.Cursor{"x", page.NewCursor("key_1"), page.NewCursor(int64(1), "row_1")} {
		if _, err := byID.Page(nil, page.Paging{Limit: 1, Cursor: cursor}, page.Unknown); errs.KindOf(err) != errs.Invalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	if _, err := rows(byTime()).Page(nil, page.Paging{Cursor: page.NewCursor("row_1")}, 0); errs.KindOf(err) != errs.Invalid {
		t.Error(err)
	}
}

func TestLongListsAreNotCounted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d)
		q := d.Read(t.Context())
		for _, test := range []struct {
			kind   string
			paging page.Paging
			want   int64
		}{
			{"", page.Paging{Limit: 10}, page.Unknown},
			{"", page.Paging{Limit: 10, Offset: size - 5}, size},
			{"usual", page.Paging{Limit: 10, Offset: 2 * size}, page.Unknown},
			{"rare", page.Paging{Limit: 10}, 11},
			{"rare", page.Paging{Limit: 0}, 11},
			{"rare", page.Paging{Limit: 11}, 11},
			{"rare", page.Paging{Limit: 10, Offset: 10}, 11},
			{"rare", page.Paging{Limit: 10, Offset: 100}, 11},
			{"rare", page.Paging{Limit: 10, Cursor: page.NewCursor(int64(0), "")}, 11},
			{"none", page.Paging{Limit: 10}, 0},
		} {
			l := rows(byTime())
			l.Where.Equal(`kind`, test.kind)
			var cache page.CountCache
			for range 2 {
				got, err := l.CountedPage(q, test.paging, &cache, time.Now())
				if err != nil || got.Total != test.want {
					t.Errorf("%q, %+v: %d, %v, want %d", test.kind, test.paging, got.Total, err, test.want)
				}
			}
			want := size
			switch test.kind {
			case "usual":
				want -= 11
			case "rare":
				want = 11
			case "none":
				want = 0
			}
			if n, err := l.Count(q); err != nil || n != int64(want) {
				t.Errorf("%q: counted %d, %v, want %d", test.kind, n, err, want)
			}
		}
	})
}

func TestParametersAreNumbered(t *testing.T) {
	l := rows(byTime())
	l.From = list.Text(`(SELECT * FROM numbered WHERE kind = ?) some`, "usual")
	l.Where.Add(`at BETWEEN ? AND ?`, 1, 2)
	text, args, err := l.Statement(page.Paging{Limit: 10, Offset: 5, Cursor: page.NewCursor(int64(1), "row_1")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range args {
		if n := fmt.Sprintf("$%d", i+1); !strings.Contains(text, n) {
			t.Errorf("%s is missing: %s", n, text)
		}
	}
	if want := 8; len(args) != want || args[0] != "usual" || args[want-1] != 5 || strings.Contains(text, "?") {
		t.Errorf("%s with %v", text, args)
	}
}
