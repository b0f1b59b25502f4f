package thread

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// modelThread is a thread of the model.
type modelThread struct {
	id, project      string
	created, updated stamp.Time
	deleted          bool
	metadata         map[string]any
}

// model holds the threads of one organization in memory, beside a store.
type model struct {
	caller *auth.Caller
	store  *Store
	rows   map[string]*modelThread
}

// values has equal values with different texts.
var values = []string{
	`"x"`, `"\u0078"`, `"y"`, `1`, `1.0`, `10e-1`, `"1"`, `true`, `null`, `{"a":1,"b":[1,2]}`, `{"b":[1.0,2e0],"a":1}`,
	`[]`, `[1,2]`, `[2,1]`, `{}`, `-0`, `0`,
}

func drawMetadata(t *rapid.T, most int) string {
	var fields []string
	for range rapid.IntRange(0, most).Draw(t, "fields") {
		key := rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")
		fields = append(fields, fmt.Sprintf("%q:%s", key, rapid.SampledFrom(values).Draw(t, "value")))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func decoded(text string) (object map[string]any) {
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	return object
}

// step applies a random change to the store and the model.
func (m *model) step(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "A", "B-1", "B.1", "Z"}).Draw(t, "id")
	row := m.rows[id]
	if rapid.IntRange(0, 3).Draw(t, "action") == 0 {
		err := m.store.Delete(t.Context(), m.caller, id, page.IfMatch{})
		if row == nil || row.deleted {
			if errs.KindOf(err) != errs.NotFound {
				t.Fatalf("second delete: %v", err)
			}
		} else if err != nil {
			t.Fatal(err)
		} else {
			row.deleted = true
		}
		return
	}
	p := Put{ProjectID: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "project")}
	text := drawMetadata(t, 3)
	p.Metadata = Metadata(text)
	made, err := m.store.Put(t.Context(), m.caller, id, page.IfMatch{}, p)
	if row != nil && row.deleted {
		if errs.KindOf(err) != errs.Conflict {
			t.Fatalf("put of a deleted thread: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.rows[id] = &modelThread{
		id: id, project: p.ProjectID, created: made.CreatedAt, updated: made.UpdatedAt, metadata: decoded(text),
	}
}

// list returns the ids that a filter matches, in order.
func (m *model) list(f Filter, filter map[string]any) []string {
	var found []*modelThread
	for _, r := range m.rows {
		ok := r.deleted == f.Deleted && (f.ProjectID == "" || r.project == f.ProjectID)
		for key, want := range filter {
			got, there := r.metadata[key]
			ok = ok && there && reflect.DeepEqual(got, want)
		}
		if ok {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *modelThread) int {
		order := int(a.created - b.created)
		if f.Updated {
			order = int(a.updated - b.updated)
		}
		if !f.Ascending {
			order = -order
		}
		return order
	})
	ids := []string{}
	for _, r := range found {
		ids = append(ids, r.id)
	}
	return ids
}

// TestListAgainstModel draws changes and filters, and reads the lists by cursor and by offset.
func TestListAgainstModel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		orgs := 0
		dbtest.Check(t, d.Dialect(), func(rt *rapid.T) {
			orgs++
			caller := &auth.Caller{OrgID: fmt.Sprintf("org_%d", orgs), UserID: "u", Role: auth.Owner}
			m := &model{caller: caller, store: s, rows: map[string]*modelThread{}}
			for range rapid.IntRange(0, 30).Draw(rt, "steps") {
				m.step(rt)
			}
			for range 4 {
				m.compare(rt)
			}
		})
	})
}

func (m *model) compare(t *rapid.T) {
	text := drawMetadata(t, 2)
	keys, err := parseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	f := Filter{
		ProjectID: rapid.SampledFrom([]string{"", "p", "q", "none"}).Draw(t, "project"), Keys: keys,
		Deleted: rapid.Bool().Draw(t, "deleted"), Updated: rapid.Bool().Draw(t, "updated"),
		Ascending: rapid.Bool().Draw(t, "ascending"),
	}
	want := m.list(f, decoded(text))
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	for _, byCursor := range []bool{true, false} {
		got := m.readAll(t, f, limit, byCursor, int64(len(want)))
		if !slices.Equal(got, want) {
			t.Fatalf("%+v %s by cursor %v: got %v, want %v", f, text, byCursor, got, want)
		}
	}
}

// readAll reads a list page by page.
func (m *model) readAll(t *rapid.T, f Filter, limit int, byCursor bool, total int64) []string {
	ids := []string{}
	p := page.Paging{Limit: limit}
	for {
		result, err := m.store.List(t.Context(), m.caller, f, p)
		if err != nil {
			t.Fatal(err)
		}
		if result.Total != total {
			t.Fatalf("%+v: total %d, want %d", f, result.Total, total)
		}
		for _, row := range result.Items {
			ids = append(ids, row.ID)
		}
		if result.Next == "" {
			return ids
		}
		if byCursor {
			p.Cursor = result.Next
		} else {
			p.Offset += limit
		}
	}
}

// TestCursorSeesEachThreadOnceDuringWrites reads by cursor while threads are created and changed.
func TestCursorSeesEachThreadOnceDuringWrites(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range 50 {
			put(t, s, whole, fmt.Sprintf("old%02d", i), "p", nil, `{"k":"v"}`)
		}
		keys, err := parseFilter(`{"k":"v"}`)
		must(t, err)
		seen := map[string]int{}
		p := page.Paging{Limit: 7}
		for i := 0; ; i++ {
			result, err := s.List(t.Context(), whole, Filter{Keys: keys}, p)
			must(t, err)
			for _, row := range result.Items {
				seen[row.ID]++
			}
			put(t, s, whole, fmt.Sprintf("new%02d", i), "p", nil, `{"k":"v"}`)
			put(t, s, whole, fmt.Sprintf("old%02d", i), "p", nil, `{"k":"v"}`)
			if result.Next == "" {
				break
			}
			p.Cursor = result.Next
		}
		for i := range 50 {
			if id := fmt.Sprintf("old%02d", i); seen[id] != 1 {
				t.Errorf("%s was seen %d times", id, seen[id])
			}
		}
	})
}

func TestCursorOfAnotherListIsRefused(t *testing.T) {
	s := newStore(t, dbtest.Open(t, db.SQLite))
	put(t, s, whole, "a", "p", nil, "")
	put(t, s, whole, "b", "p", nil, "")
	result, err := s.List(t.Context(), whole, Filter{}, page.Paging{Limit: 1})
	must(t, err)
	for _, f := range []Filter{{Updated: true}, {Ascending: true}} {
		_, err = s.List(t.Context(), whole, f, page.Paging{Limit: 1, Cursor: result.Next})
		wantKind(t, err, errs.Invalid)
	}
	for _, c := range []page.Cursor{"x", page.NewCursor("a"), page.NewCursor("created_at DESC", "x", "y")} {
		_, err = s.List(t.Context(), whole, Filter{}, page.Paging{Limit: 1, Cursor: c})
		wantKind(t, err, errs.Invalid)
	}
}

// TestFilterByMoreKeysThanIndexEntriesHave has threads with more keys than term.MaxPrefixes.
func TestFilterByMoreKeysThanIndexEntriesHave(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		object := map[string]any{}
		for i := range maxFilterKeys {
			object[fmt.Sprint("k", i)] = i
		}
		text, err := encode.Value(nil, object)
		must(t, err)
		put(t, s, whole, "a", "p", nil, string(text))
		keys, err := parseFilter(string(text))
		must(t, err)
		object["k0"] = "other"
		text, err = encode.Value(nil, object)
		must(t, err)
		put(t, s, whole, "b", "p", nil, string(text))
		for _, f := range []Filter{{Keys: keys}, {Keys: keys, ProjectID: "p", Updated: true}, {Keys: keys, Ascending: true}} {
			result, err := s.List(t.Context(), whole, f, page.Paging{Limit: 10})
			must(t, err)
			if len(result.Items) != 1 || result.Items[0].ID != "a" || result.Total != 1 {
				t.Errorf("%+v finds %d of %d", f, len(result.Items), result.Total)
			}
		}
		object["one more"] = true
		text, err = encode.Value(nil, object)
		must(t, err)
		_, err = parseFilter(string(text))
		wantKind(t, err, errs.Invalid)
	})
}

func TestFilterMustBeAnObject(t *testing.T) {
	for _, text := range []string{`[]`, `"x"`, `{`, `{} {}`, `null`, `1`} {
		if _, err := parseFilter(text); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
