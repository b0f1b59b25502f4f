package thread

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
)

// TestListsReadOneRangeOfAnIndex reads the plans of both engines. SQLite must begin where the page
// begins.
func TestListsReadOneRangeOfAnIndex(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		seed(t, s, 2000)
		if d.Dialect() == db.Postgres {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`ANALYZE threads, thread_index_created, thread_index_updated`)
				return err
			}))
		}
		for _, metadata := range []string{"", `{"half":"1"}`, `{"half":"1","all":"x"}`} {
			keys, err := parseFilter(metadata)
			must(t, err)
			for _, project := range []string{"", "prj_3"} {
				for _, updated := range []bool{false, true} {
					for _, ascending := range []bool{false, true} {
						f := Filter{ProjectID: project, Keys: keys, Updated: updated, Ascending: ascending}
						checkPlan(t, s, f, page.Paging{Limit: 10})
						cursor := f.cursorAt(Thread{ID: "thrd_1", CreatedAt: 5, UpdatedAt: 5})
						checkPlan(t, s, f, page.Paging{Limit: 10, Cursor: cursor})
					}
				}
			}
		}
	})
}

func checkPlan(t *testing.T, s *Store, f Filter, p page.Paging) {
	t.Helper()
	keys, _, err := s.countFiltered(s.DB.Read(t.Context()), org, f)
	must(t, err)
	f.Keys = keys
	text, args, err := s.threads(org, f).Statement(p)
	must(t, err)
	plan := explain(t, s.DB, text, args)
	index := "threads_created"
	if f.Updated {
		index = "threads_updated"
	}
	want := index
	if s.DB.Dialect() == db.SQLite {
		want = "SEARCH threads USING INDEX " + index
	}
	if f.ProjectID != "" || len(keys) > 0 {
		want = f.table() + "_pkey"
		if s.DB.Dialect() == db.SQLite {
			want = "SEARCH i USING PRIMARY KEY (org_id=? AND "
		}
	}
	// The rows of a page may be sorted once more after the join; the index entries are not sorted.
	sorts := strings.Count(plan, "TEMP B-TREE") + strings.Count(plan, "Sort Key")
	begins := s.DB.Dialect() == db.Postgres || p.Cursor == "" || strings.Contains(plan, "(?,?)")
	scans := strings.Contains(plan, "SCAN i") || strings.Contains(plan, "SCAN threads") || strings.Contains(plan, "Seq Scan")
	if !begins || !strings.Contains(plan, want) || scans || sorts > 1 {
		t.Errorf("%+v, cursor %q: not by %s alone:\n%s", f, p.Cursor, want, plan)
	}
}

// explain returns the plan of a statement. For PostgreSQL, values replace the parameters.
func explain(t *testing.T, d *db.DB, text string, args []any) string {
	t.Helper()
	prefix := "EXPLAIN QUERY PLAN "
	scan := func(row db.Row) (line string, err error) { return line, row.Scan(new(int), new(int), new(int), &line) }
	if d.Dialect() == db.Postgres {
		prefix = "EXPLAIN "
		scan = func(row db.Row) (line string, err error) { return line, row.Scan(&line) }
		for i := len(args); i > 0; i-- {
			text = strings.ReplaceAll(text, "$"+strconv.Itoa(i), literal(args[i-1]))
		}
		args = nil
	}
	lines, err := db.Collect(d.Read(t.Context()), scan, prefix+text, args...)
	must(t, err)
	return strings.Join(lines, "\n")
}

func literal(value any) string {
	switch v := value.(type) {
	case string:
		return "'" + v + "'"
	case []byte:
		return fmt.Sprintf(`'\x%x'::bytea`, v)
	case stamp.Time:
		return strconv.FormatInt(int64(v), 10)
	}
	return fmt.Sprint(value)
}
