package thread

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
)

// readList reads a page of threads or sessions.
type readList func(context.Context, page.Paging) (ids []string, next page.Cursor, err error)

func threadList(s *Store, f Filter) readList {
	return func(ctx context.Context, p page.Paging) (ids []string, next page.Cursor, err error) {
		got, err := s.List(ctx, &auth.Caller{OrgID: org}, f, p)
		for _, thread := range got.Items {
			ids = append(ids, thread.ID)
		}
		return ids, got.Next, err
	}
}

// deepLists returns lists that have as many rows as fillSQL inserts.
func deepLists(s *Store) map[string]readList {
	all := map[string]readList{}
	for _, f := range []Filter{{}, {Ascending: true}, {Updated: true}, {Updated: true, Ascending: true}} {
		all["threads by "+f.orderName()] = threadList(s, f)
	}
	for _, f := range []SessionFilter{{}, {ProjectID: "prj_x"}, {ThreadID: "thrd_1"}, {ProjectID: "prj_x", ThreadID: "thrd_1"}} {
		all[fmt.Sprintf("sessions %+v", f)] = func(ctx context.Context, p page.Paging) (ids []string, next page.Cursor, err error) {
			s.large = page.CountCache{}
			got, err := s.Sessions(ctx, org, f, p)
			for _, session := range got.Items {
				ids = append(ids, session.ID)
			}
			return ids, got.Next, err
		}
	}
	return all
}

// fillSQL inserts threads without metadata, and as many sessions of one thread.
func fillSQL(t *testing.T, d *db.DB, n int) {
	t.Helper()
	const seq = ` WITH RECURSIVE seq (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i < $2) `
	dbtest.Fill(t, d, n, func(tx *db.Tx, first, last int) error {
		if _, err := tx.Exec(`INSERT INTO threads (org_id, id, project_id, created_at, updated_at, deleted, version, terms, user_data_size)`+seq+`
			SELECT $3, 'thrd_' || CAST(100000000 + i AS TEXT), 'prj_x', 1763200000000000 + i / 3, 1763200000000000 + i % 1000, $4, 1, $5, 0
			FROM seq`, first, last, org, false, []byte{}); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO sessions (org_id, id, project_id, thread_id, route_id, environment, devmode, url, method, trigger,
			started, completed, started_at, agent_ids, created_at, updated_at, version, user_data_size)`+seq+`
			SELECT $3, 'sess_' || CAST(100000000 + i AS TEXT), 'prj_x', 'thrd_1', '', '', $4, '', '', 'api',
			$5, $5, 1763200000000000 + i / 3, '[]', 0, 0, 1, 0 FROM seq`, first, last, org, false, true)
		return err
	})
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO thread_counts (org_id, project_id, threads, deleted, sessions) VALUES ($1, 'prj_x', $2, 0, $2)`, org, n)
		return err
	}))
}

// TestOffsetsDeepInAList compares pages by offset with the list as cursors show it.
func TestOffsetsDeepInAList(t *testing.T) {
	dbtest.Long(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const size = page.MaxSkipped + 200
		fillSQL(t, d, size)
		for name, read := range deepLists(newStore(t, d)) {
			var all []string
			for p, more := (page.Paging{Limit: page.MaxLimit}), true; more; more = p.Cursor != "" {
				ids, next, err := read(t.Context(), p)
				must(t, err)
				all = append(all, ids...)
				p.Cursor = next
			}
			for _, offset := range []int{page.MaxSkipped, page.MaxSkipped + 1, size - 1, size, 5 * size} {
				got, next, err := read(t.Context(), page.Paging{Limit: 7, Offset: offset})
				must(t, err)
				want := all[min(offset, size):min(offset+7, size)]
				if !slices.Equal(got, want) || (next != "") != (offset+7 < size) {
					t.Errorf("%s, offset %d: %v, next %q, want %v", name, offset, got, next, want)
				}
			}
		}
	})
}

// TestListsReadFewRows shows for every combination of filters that PostgreSQL reads what is listed and
// counted, also deep in the list and with a plan that was made without the values: the sixth.
func TestListsReadFewRows(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	must(t, err)
	defer d.Close()
	s := newStore(t, d)
	seed(t, s, 1500)
	fillSQL(t, d, 20_000)
	dbtest.Vacuum(t, o.URL)
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { // one transaction has one connection, and so one cache of plans
		for name, read := range deepLists(s) {
			checkRows(t, tx, name, read, page.Paging{Limit: 10}, page.MaxCounted+100)
			checkRows(t, tx, name, read, page.Paging{Limit: 10, Offset: 12_000}, 12_000+page.MaxCounted+100)
		}
		for _, f := range []Filter{{}, {Ascending: true}, {Updated: true}, {Updated: true, Ascending: true}, {Deleted: true}} {
			for _, metadata := range []string{"", `{"all":"x"}`, `{"rare":"77"}`, `{"all":"x","rare":"77"}`} {
				for _, f.ProjectID = range []string{"", "prj_3"} {
					f.Keys, err = parseFilter(metadata)
					must(t, err)
					name := fmt.Sprintf("threads of %q with %s, %s", f.ProjectID, metadata, f.orderName())
					checkRows(t, tx, name, threadList(s, f), page.Paging{Limit: 10}, 100)
				}
			}
		}
		return nil
	}))
}

// bothFilters is the list whose index does not have all that is filtered by.
const bothFilters = "sessions {ProjectID:prj_x ThreadID:thrd_1}"

// checkRows reads a page six times and compares how many rows and index entries were read. At most a
// hundred rows are fetched.
func checkRows(t *testing.T, tx *db.Tx, name string, read readList, p page.Paging, most int64) {
	t.Helper()
	rows := func() (read, fetched int64) {
		threads, threadsFetched := dbtest.RowsRead(t, tx, "thread")
		sessions, sessionsFetched := dbtest.RowsRead(t, tx, "sessions")
		return threads + sessions, threadsFetched + sessionsFetched
	}
	for range 6 {
		readBefore, fetchedBefore := rows()
		ids, _, err := read(tx.Context(), p)
		must(t, err)
		n, fetched := rows()
		n -= readBefore
		fetched -= fetchedBefore
		if n > most || fetched > 100 && name != bothFilters {
			t.Errorf("%s, offset %d: %d rows were read and %d fetched for %d", name, p.Offset, n, fetched, len(ids))
		}
	}
}
