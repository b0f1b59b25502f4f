package thread

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
)

const org = "org_a"

var (
	whole = &auth.Caller{OrgID: org, UserID: "usr_a", Role: auth.Owner, KeyID: "key_a"}
	other = &auth.Caller{OrgID: "org_b", UserID: "usr_b", Role: auth.Owner, KeyID: "key_b"}
)

func confined(projectID string) *auth.Caller {
	return &auth.Caller{OrgID: org, UserID: "usr_a", Role: auth.Owner, KeyID: "key_" + projectID, ProjectID: projectID}
}

// clock gives a later time with each look.
type clock struct {
	sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.Lock()
	defer c.Unlock()
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

func newStore(t testing.TB, d *db.DB) *Store {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	c := &clock{at: time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)}
	return &Store{
		DB: d, Now: c.now, Ring: ring, Retention: time.Hour,
		Audit: func(*db.Tx, string, string) error { return nil },
		Project: func(_ *db.Tx, caller *auth.Caller, location, projectID string) error {
			if !caller.Sees(projectID) {
				return errs.New(errs.Forbidden, "another project")
			}
			return nil
		},
		DefaultProject: func(*db.Tx, string) (string, error) { return "prj_default", nil },
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Errorf("got %v, want %q", err, kind)
	}
}

func put(t testing.TB, s *Store, caller *auth.Caller, id, project string, userData *string, metadata string) Thread {
	t.Helper()
	p := Put{ProjectID: project, UserData: userData}
	if metadata != "" {
		p.Metadata = Metadata(metadata)
	}
	out, err := s.Put(t.Context(), caller, id, page.IfMatch{}, p)
	must(t, err)
	return out
}

func text(s string) *string { return &s }

func TestLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		made := put(t, s, whole, "t1", "p1", text(`{"a":1}`), `{"b":1.0,"a":"x","a":"y"}`)
		if made.ETag() != `"1"` || string(made.Metadata) != `{"a":"y","b":1.0}` || made.ProjectID != "p1" {
			t.Errorf("made %+v", made)
		}
		got, err := s.Get(t.Context(), whole, "t1")
		must(t, err)
		if *got.UserData != `{"a":1}` || string(got.Metadata) != `{"a":"y","b":1.0}` || got.CreatedAt != made.CreatedAt {
			t.Errorf("got %+v", got)
		}
		replaced := put(t, s, whole, "t1", "", nil, "")
		if replaced.ETag() != `"2"` || replaced.UpdatedAt <= made.UpdatedAt || replaced.CreatedAt != made.CreatedAt {
			t.Errorf("replaced %+v", replaced)
		}
		got, err = s.Get(t.Context(), whole, "t1")
		must(t, err)
		if got.UserData != nil || got.Metadata != nil || got.ProjectID != "p1" {
			t.Errorf("got %+v", got)
		}
		_, err = s.Put(t.Context(), whole, "t1", page.IfMatch{IfMatch: `"1"`}, Put{})
		wantKind(t, err, errs.PreconditionFailed)
		_, err = s.Put(t.Context(), whole, "new", page.IfMatch{IfMatch: `*`}, Put{ProjectID: "p1"})
		wantKind(t, err, errs.PreconditionFailed)
		_, err = s.Put(t.Context(), whole, "new", page.IfMatch{}, Put{})
		wantKind(t, err, errs.Invalid)
		_, err = s.Put(t.Context(), confined("p2"), "new", page.IfMatch{}, Put{ProjectID: "p1"})
		wantKind(t, err, errs.Forbidden)
		_, err = s.Put(t.Context(), confined("p2"), "t1", page.IfMatch{}, Put{})
		wantKind(t, err, errs.NotFound)
		_, err = s.Put(t.Context(), confined("p1"), "t1", page.IfMatch{}, Put{ProjectID: "p2"})
		wantKind(t, err, errs.Forbidden)
		_, err = s.Get(t.Context(), other, "t1")
		wantKind(t, err, errs.NotFound)
		_, err = s.Get(t.Context(), confined("p2"), "t1")
		wantKind(t, err, errs.NotFound)
		wantKind(t, s.Delete(t.Context(), confined("p2"), "t1", page.IfMatch{}), errs.NotFound)
	})
}

func TestDeleteAndPurge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		put(t, s, whole, "t1", "p1", text(`{"secret":1}`), `{"k":"v"}`)
		put(t, s, whole, "t2", "p1", nil, `{"k":"v"}`)
		must(t, s.Delete(t.Context(), whole, "t1", page.IfMatch{}))
		wantKind(t, s.Delete(t.Context(), whole, "t1", page.IfMatch{}), errs.NotFound)
		_, err := s.Get(t.Context(), whole, "t1")
		wantKind(t, err, errs.NotFound)
		_, err = s.Put(t.Context(), whole, "t1", page.IfMatch{}, Put{ProjectID: "p1"})
		wantKind(t, err, errs.Conflict)
		var left int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM threads WHERE user_data IS NOT NULL`).Scan(&left))
		if left != 0 {
			t.Error("the user_data of a deleted thread is still there")
		}
		keys, err := parseFilter(`{"k":"v"}`)
		must(t, err)
		gone, err := s.List(t.Context(), whole, Filter{Deleted: true, Keys: keys, ProjectID: "p1"}, page.Paging{Limit: 10})
		must(t, err)
		if len(gone.Items) != 1 || gone.Total != 1 || !gone.Items[0].Deleted || gone.Items[0].DeletedAt == nil ||
			*gone.Items[0].DeletedBy != "usr_a" {
			t.Errorf("deleted: %+v", gone)
		}
		must(t, s.Purge(t.Context()))
		wantTotals(t, s, 1, 1)
		s.Retention = 0
		must(t, s.Purge(t.Context()))
		wantTotals(t, s, 1, 0)
		var rows int
		must(t, d.Read(t.Context()).Row(`SELECT (SELECT count(*) FROM thread_facets) + (SELECT count(*) FROM thread_changes)`).Scan(&rows))
		if rows != 6 {
			t.Errorf("%d facets are left, want those of the one thread", rows)
		}
		var sizes, empty int
		must(t, d.Read(t.Context()).Row(`SELECT COALESCE(SUM(n), 0), COALESCE(SUM(CASE WHEN n = 0 THEN 1 ELSE 0 END), 0) FROM thread_sizes`).
			Scan(&sizes, &empty))
		if sizes != 3 || empty != 0 {
			t.Errorf("the facets are counted as %d, %d of them as empty", sizes, empty)
		}
		put(t, s, whole, "t1", "p1", nil, "") // after the purge the id is free
	})
}

func wantTotals(t *testing.T, s *Store, threads, deleted int64) {
	t.Helper()
	for what, want := range map[string]int64{countThreads: threads, countDeleted: deleted} {
		n, err := total(s.DB.Read(t.Context()), org, "", what)
		must(t, err)
		if n != want {
			t.Errorf("%s: counted %d, want %d", what, n, want)
		}
	}
}

// TestSealedAtRest looks at what the tables hold of user_data, whichever way it came: never its text.
func TestSealedAtRest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		secret := `{"state":{"word":"mellon"}}`
		put(t, s, whole, "put", "p", &secret, "")
		_, err := s.save(t.Context(), whole, frameData{ThreadID: "saved", UserData: page.Some(secret)})
		must(t, err)
		word := "word"
		set := Operation{Op: "set", Key: &word, Value: []byte(`"mellon"`)}
		_, err = s.merge(t.Context(), whole, frameData{ThreadID: "merged", Operations: []Operation{set}})
		must(t, err)
		_, err = s.Complete(t.Context(), whole, Completion{ID: "ended", UserData: &secret})
		must(t, err)
		found, err := db.Collect(d.Read(t.Context()), func(row db.Row) (kept []byte, err error) { return kept, row.Scan(&kept) },
			`SELECT user_data FROM threads UNION ALL SELECT user_data FROM sessions`)
		must(t, err)
		for _, kept := range found {
			if len(kept) < len(secret) || bytes.Contains(kept, []byte("mellon")) {
				t.Errorf("a table holds %q", kept)
			}
		}
		if len(found) != 4 {
			t.Errorf("%d are kept, want 4", len(found))
		}
		for _, id := range []string{"put", "saved", "merged"} {
			got, err := s.Get(t.Context(), whole, id)
			must(t, err)
			if got.UserData == nil || *got.UserData != secret {
				t.Errorf("%s: %v came back", id, got.UserData)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	s := newStore(t, dbtest.Open(t, db.SQLite))
	try := func(p Put) error {
		p.ProjectID = "p"
		_, err := s.Put(t.Context(), whole, "t", page.IfMatch{}, p)
		return err
	}
	fits := `"` + strings.Repeat("x", MaxText-2) + `"`
	must(t, try(Put{UserData: &fits}))
	must(t, try(Put{Metadata: Metadata(`{"a":"` + strings.Repeat("x", MaxText-8) + `"}`)}))
	wantKind(t, try(Put{UserData: text(`"` + fits[:len(fits)-1] + `"`)}), errs.Invalid)
	wantKind(t, try(Put{Metadata: Metadata(`{"a":"` + strings.Repeat("x", MaxText-7) + `"}`)}), errs.Invalid)
	wantKind(t, try(Put{UserData: text(`{"a":`)}), errs.Invalid)
	wantKind(t, try(Put{UserData: text("")}), errs.Invalid)
	wantKind(t, try(Put{Metadata: Metadata(`[1]`)}), errs.Invalid)
	var keys []string
	for i := range maxKeys + 1 {
		keys = append(keys, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	must(t, try(Put{Metadata: Metadata("{" + strings.Join(keys[1:], ",") + "}")}))
	wantKind(t, try(Put{Metadata: Metadata("{" + strings.Join(keys, ",") + "}")}), errs.Invalid)
	must(t, try(Put{Metadata: Metadata("{" + strings.Join(keys[500:], ",") + "}")}))
}

func TestListLeavesOutLargeData(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		small, large := `"`+strings.Repeat("x", MaxListed-2)+`"`, `"`+strings.Repeat("x", MaxListed-1)+`"`
		put(t, s, whole, "a", "p", &small, "")
		put(t, s, whole, "b", "p", &large, "")
		result, err := s.List(t.Context(), whole, Filter{Ascending: true}, page.Paging{Limit: 10})
		must(t, err)
		if result.Items[0].UserData == nil || *result.Items[0].UserData != small || result.Items[1].UserData != nil {
			t.Error("the list must show 64 KiB and leave out more")
		}
	})
}

func TestProjectGone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range batch + 50 {
			put(t, s, whole, fmt.Sprintf("t%d", i), "p1", nil, "")
		}
		put(t, s, whole, "stays", "p2", nil, "")
		_, err := s.Start(t.Context(), whole, Start{ID: "s1", OrgID: org, ProjectID: "p1"})
		must(t, err)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return s.ProjectGone(tx, org, "p1") }))
		put(t, s, whole, "later", "p1", nil, "")
		_, err = s.Start(t.Context(), whole, Start{ID: "later", OrgID: org, ProjectID: "p1"})
		must(t, err)
		must(t, s.Purge(t.Context()))
		wantTotals(t, s, 2, 0)
		for _, id := range []string{"stays", "later"} {
			_, err := s.Get(t.Context(), whole, id)
			must(t, err)
		}
		_, err = s.Session(t.Context(), whole, "s1")
		wantKind(t, err, errs.NotFound)
		_, err = s.Session(t.Context(), whole, "later")
		must(t, err)
		var left int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM thread_leftovers`).Scan(&left))
		if left != 0 {
			t.Error("the deleted project is not forgotten")
		}
	})
}
