package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// begin is the time of the first entry. It is within a millisecond, so that a filter must be finer
// than ids.
var begin = time.Date(2026, 11, 15, 8, 30, 0, 400_000, time.UTC)

var (
	things  = []string{"client", "client_2", "webhook", "apikey"}
	verbs   = []string{"create", "delete", "rotate-url"}
	callers = []auth.Caller{
		{UserID: "usr_1"},
		{UserID: "usr_1", KeyID: "key_1"},
		{UserID: "usr_2", KeyID: "key_2"},
		{UserID: "usr_2", ClientID: "oac_1"},
		{ClientID: "oac_1"},
		{ClientID: "oac_2"},
		{},
	}
	targets = []string{"oac_1", "oac_1/usr_1", "files/a b", "", "oac_1%"}
)

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// record writes entries of two organizations, a few in each tenth of a millisecond.
func record(t *testing.T, d *db.DB, r *rand.Rand, n int) {
	t.Helper()
	now := begin
	s := &Store{DB: d, Now: func() time.Time { return now }}
	for range n {
		now = now.Add(time.Duration(r.IntN(3)) * 100 * time.Microsecond)
		caller := one(r, callers)
		caller.OrgID = one(r, []string{"org_1", "org_1", "org_2"})
		err := d.Write(auth.With(t.Context(), &caller), func(tx *db.Tx) error {
			return s.Record(tx, one(r, things)+"."+one(r, verbs), one(r, targets))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func randomFilter(r *rand.Rand) Filter {
	f := Filter{
		Action: one(r, []string{"", "", "client.", "client.create", "webhook.", "webhook.none"}),
		Actor:  one(r, []string{"", "", "usr_1", "key_1", "oac_1", "usr_9"}),
		Target: one(r, append([]string{"", "", ""}, targets...)),
	}
	if r.IntN(2) == 0 {
		f.Start = new(stamp.Of(begin.Add(time.Duration(r.IntN(200)) * 100 * time.Microsecond)))
	}
	if r.IntN(2) == 0 {
		f.End = new(stamp.Of(begin.Add(time.Duration(r.IntN(200)) * 100 * time.Microsecond)))
	}
	return f
}

// matches says the same as the SQL, entry by entry.
func matches(f Filter, e Entry) bool {
	is := func(p *string) bool { return p != nil && *p == f.Actor }
	action := f.Action == "" || e.Action == f.Action || strings.HasSuffix(f.Action, ".") && strings.HasPrefix(e.Action, f.Action)
	return action && (f.Actor == "" || is(e.UserID) || is(e.KeyID) || is(e.ClientID)) && (f.Target == "" || e.Target == f.Target) &&
		(f.Start == nil || e.At >= *f.Start) && (f.End == nil || e.At < *f.End)
}

// listAll reads all pages of a filter.
func listAll(t *testing.T, s *Store, f Filter, limit int) []Entry {
	t.Helper()
	var all []Entry
	p := page.Paging{Limit: limit}
	for {
		got, err := s.List(t.Context(), "org_1", f, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got.Items...)
		if got.Next == "" {
			return all
		}
		p.Cursor = got.Next
	}
}

func TestFiltersSelectWhatTheySay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := rand.New(rand.NewPCG(19, 3))
		record(t, d, r, 400)
		s := &Store{DB: d, Now: time.Now}
		all := listAll(t, s, Filter{}, 1000)
		if len(all) < 200 {
			t.Fatalf("the log has %d entries", len(all))
		}
		found := 0
		for range 300 {
			f := randomFilter(r)
			var want []Entry
			for _, e := range all {
				if matches(f, e) {
					want = append(want, e)
				}
			}
			got := listAll(t, s, f, 1+r.IntN(20))
			if !slices.EqualFunc(got, want, func(a, b Entry) bool { return a.ID == b.ID }) {
				t.Fatalf("%+v: got %d entries, want %d", f, len(got), len(want))
			}
			found += len(got)
		}
		if found == 0 {
			t.Error("no filter has matched anything")
		}
	})
}

func TestFilterIsChecked(t *testing.T) {
	for location, in := range map[string]ListInput{
		"query.actor": {Actor: "prj_1"},
		"query.start": {Start: "yesterday"},
		"query.end":   {Start: "2026-11-15T08:30:00Z", End: "2026-11-15T08:30:00Z"},
	} {
		_, err := in.filter()
		if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), location) {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

// fill inserts entries by SQL: half of them by one user, of one action and on one target, the worst
// case of a filter.
func fill(t *testing.T, d *db.DB, n int) {
	t.Helper()
	dbtest.Fill(t, d, n, func(tx *db.Tx, first, last int) error {
		_, err := tx.Exec(`INSERT INTO audit (org_id, id, at, user_id, key_id, client_id, thing, action, target, remote_addr, request_id)
			WITH RECURSIVE seq (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM seq WHERE i < $2)
			SELECT 'org_1', 'aud_01jc' || CAST(100000000 + i AS TEXT), i, CASE i % 2 WHEN 0 THEN 'usr_1' ELSE 'usr_' || CAST(i % 100 AS TEXT) END,
				CASE i % 50 WHEN 3 THEN 'key_1' END, CASE i % 50 WHEN 4 THEN 'oac_1' END, CASE i % 2 WHEN 0 THEN 'client' ELSE 'webhook' END,
				CASE i % 4 WHEN 0 THEN 'client.create' WHEN 2 THEN 'client.update' WHEN 1 THEN 'webhook.create' ELSE 'webhook.update' END,
				CASE i % 2 WHEN 0 THEN 'oac_1' ELSE 'wh_' || CAST(i % 1000 AS TEXT) END, '', '' FROM seq`, first, last)
		return err
	})
	if d.Dialect() != db.Postgres {
		return
	}
	if err := d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`ANALYZE audit`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestListsReadOneIndex reads the plans of both engines.
func TestListsReadOneIndex(t *testing.T) {
	at := stamp.Of(begin)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, 20_000)
		for _, c := range []struct {
			f       Filter
			indexes []string
		}{
			{Filter{}, []string{"sqlite_autoindex_audit_1", "audit_pkey"}},
			{Filter{Start: &at}, []string{"sqlite_autoindex_audit_1", "audit_pkey"}},
			{Filter{Action: "webhook.update"}, []string{"audit_action"}},
			{Filter{Action: "client.", Start: &at, End: &at}, []string{"audit_thing", "audit_pkey", "sqlite_autoindex_audit_1"}},
			{Filter{Actor: "usr_7"}, []string{"audit_user"}},
			{Filter{Actor: "key_1"}, []string{"audit_key"}},
			{Filter{Actor: "oac_1"}, []string{"audit_client"}},
			{Filter{Target: "wh_7"}, []string{"audit_target"}},
			{Filter{Actor: "usr_1", Action: "client.create", Target: "wh_7"}, []string{"audit_target", "audit_action", "audit_user"}},
			{Filter{Actor: "key_1", Action: "webhook."}, []string{"audit_key", "audit_thing"}},
		} {
			text, args, err := c.f.list("org_1").Statement(page.Paging{Limit: 50})
			if err != nil {
				t.Fatal(err)
			}
			plan := explain(t, d, text, args)
			used := func(index string) bool { return slices.Contains(strings.Fields(plan), index) }
			if !slices.ContainsFunc(c.indexes, used) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%+v is not served by %s:\n%s", c.f, c.indexes, plan)
			}
		}
	})
}

// TestListsReadFewRows shows for each filter by one value that PostgreSQL reads what is listed, also deep
// in the log and with a plan that was made without the values: the sixth.
func TestListsReadFewRows(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fill(t, d, 30_000)
	dbtest.Vacuum(t, o.URL)
	s := &Store{DB: d, Now: time.Now}
	err = d.Write(t.Context(), func(tx *db.Tx) error { // one transaction has one connection, and so one cache of plans
		for _, f := range []Filter{
			{},
			{Action: "webhook.update"},
			{Action: "client."},
			{Actor: "usr_1"},
			{Actor: "usr_7"},
			{Actor: "key_1"},
			{Actor: "oac_1"},
			{Target: "oac_1"},
			{Target: "wh_7"},
			{Target: "none"},
		} {
			for _, offset := range []int{0, page.MaxSkipped + 1000} {
				for range 6 {
					before, fetchedBefore := dbtest.RowsRead(t, tx, "audit")
					got, err := s.List(tx.Context(), "org_1", f, page.Paging{Limit: 10, Offset: offset})
					if err != nil {
						return err
					}
					read, fetched := dbtest.RowsRead(t, tx, "audit")
					if read-before > int64(offset)+100 || fetched-fetchedBefore > 100 {
						t.Errorf("%+v, offset %d: %d rows were read and %d fetched for %d", f, offset, read-before, fetched-fetchedBefore, len(got.Items))
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOffsetsDeepInTheLog compares pages by offset with the log as cursors show it.
func TestOffsetsDeepInTheLog(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const size = page.MaxSkipped + 200
		fill(t, d, size)
		s := &Store{DB: d, Now: time.Now}
		all := listAll(t, s, Filter{}, page.MaxLimit)
		for _, offset := range []int{page.MaxSkipped, page.MaxSkipped + 1, size - 1, size, 5 * size} {
			got, err := s.List(t.Context(), "org_1", Filter{}, page.Paging{Limit: 7, Offset: offset})
			if err != nil {
				t.Fatal(err)
			}
			want := all[min(offset, size):min(offset+7, size)]
			sameID := func(a, b Entry) bool { return a.ID == b.ID }
			if !slices.EqualFunc(got.Items, want, sameID) || (got.Next != "") != (offset+7 < size) {
				t.Errorf("offset %d: %d entries, next %q", offset, len(got.Items), got.Next)
			}
		}
	})
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
			value := fmt.Sprintf("%d", args[i-1])
			if s, isText := args[i-1].(string); isText {
				value = "'" + s + "'"
			}
			text = strings.ReplaceAll(text, "$"+strconv.Itoa(i), value)
		}
		args = nil
	}
	lines, err := db.Collect(d.Read(t.Context()), scan, prefix+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestFirstIDIsBetweenMilliseconds(t *testing.T) {
	first := firstID(begin)
	before := id.At(id.Audit, begin.Truncate(time.Millisecond).Add(-1))
	if at := id.At(id.Audit, begin.Truncate(time.Millisecond)); before >= first || at < first {
		t.Errorf("%s is not between %s and %s", first, before, at)
	}
}
