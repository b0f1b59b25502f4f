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

// TestPlans asks both engines how they would find a page: by one range of the table that is meant for the list, from where the page begins.
func TestPlans(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		seed(t, s, 5000)
		if d.Dialect() == db.Postgres {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`ANALYZE threads, thread_facets, thread_changes`)
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
						for _, p := range []page.Paging{{Limit: 10}, {Limit: 10, Cursor: f.at(Thread{ID: "thrd_1", CreatedAt: 5, UpdatedAt: 5})}} {
							checkPlan(t, s, f, p)
						}
					}
				}
			}
		}
	})
}

func checkPlan(t *testing.T, s *Store, f Filter, p page.Paging) {
	t.Helper()
	facets, _, err := s.lead(s.DB.Read(t.Context()), org, f)
	must(t, err)
	text, args, err := f.statement(s.DB.Dialect(), org, facets, p)
	must(t, err)
	plan := explain(t, s.DB, text, args)
	index := "threads_created"
	if f.Updated {
		index = "threads_updated"
	}
	want := map[db.Dialect]string{db.SQLite: "SEARCH f USING INDEX " + index, db.Postgres: index}[s.DB.Dialect()]
	if len(facets) > 0 {
		want = map[db.Dialect]string{db.SQLite: "SEARCH f USING PRIMARY KEY (org_id=? AND ", db.Postgres: f.table() + "_pkey"}[s.DB.Dialect()]
	}
	// The rows of a page may be sorted once more after they are joined; the index itself is not.
	sorts := strings.Count(plan, "TEMP B-TREE") + strings.Count(plan, "Sort Key")
	begins := s.DB.Dialect() == db.Postgres || p.Cursor == "" || strings.Contains(plan, "(?,?)")
	if !begins || !strings.Contains(plan, want) || strings.Contains(plan, "SCAN f") || strings.Contains(plan, "Seq Scan") || sorts > 1 {
		t.Errorf("%+v, cursor %q: not by %s alone:\n%s", f, p.Cursor, want, plan)
	}
}

// explain gives the plan of a statement. PostgreSQL's can be had only with the values in place of the parameters.
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
