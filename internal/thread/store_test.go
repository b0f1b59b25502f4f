package thread

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/thread/state"
)

func TestPutCreatesAndReplaces(t *testing.T) {
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

func TestDeletedThreadsAreKeptUntilPurge(t *testing.T) {
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
			t.Error("a deleted thread still has its user_data")
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
		wantCounts(t, s, 1, 1)
		s.Retention = 0
		must(t, s.Purge(t.Context()))
		wantCounts(t, s, 1, 0)
		var rows int
		must(t, d.Read(t.Context()).Row(`SELECT (SELECT count(*) FROM thread_index_created) +
			(SELECT count(*) FROM thread_index_updated)`).Scan(&rows))
		if rows != 6 {
			t.Errorf("%d terms are left, want those of the one thread", rows)
		}
		var counted, empty int
		must(t, d.Read(t.Context()).Row(`SELECT COALESCE(SUM(threads), 0), COALESCE(SUM(CASE WHEN threads = 0 THEN 1 ELSE 0 END), 0)
			FROM thread_term_counts`).Scan(&counted, &empty))
		if counted != 3 || empty != 0 {
			t.Errorf("%d threads of terms are counted, and %d terms have none", counted, empty)
		}
		put(t, s, whole, "t1", "p1", nil, "") // after the purge the id is free
	})
}

func wantCounts(t *testing.T, s *Store, threads, deleted int64) {
	t.Helper()
	gotThreads, gotDeleted, _, err := projectCounts(s.DB.Read(t.Context()), org, "")
	must(t, err)
	if gotThreads != threads || gotDeleted != deleted {
		t.Errorf("counted %d threads and %d deleted ones, want %d and %d", gotThreads, gotDeleted, threads, deleted)
	}
}

// TestUserDataIsSealedAtRest reads the tables after each way to write user_data.
func TestUserDataIsSealedAtRest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		secret := `{"state":{"word":"mellon"}}`
		put(t, s, whole, "put", "p", &secret, "")
		_, err := s.save(t.Context(), whole, frameData{ThreadID: "saved", UserData: page.Some(secret)})
		must(t, err)
		word := "word"
		set := state.Operation{Op: "set", Key: &word, Value: []byte(`"mellon"`)}
		_, err = s.merge(t.Context(), whole, frameData{ThreadID: "merged", Operations: []state.Operation{set}})
		must(t, err)
		_, err = s.Complete(t.Context(), whole, Completion{ID: "ended", UserData: &secret})
		must(t, err)
		found, err := db.Collect(d.Read(t.Context()), db.Value[[]byte],
			`SELECT user_data FROM threads UNION ALL SELECT user_data FROM sessions`)
		must(t, err)
		for _, stored := range found {
			if len(stored) < len(secret) || bytes.Contains(stored, []byte("mellon")) {
				t.Errorf("a table has %q", stored)
			}
		}
		if len(found) != 4 {
			t.Errorf("%d values are stored, want 4", len(found))
		}
		for _, id := range []string{"put", "saved", "merged"} {
			got, err := s.Get(t.Context(), whole, id)
			must(t, err)
			if got.UserData == nil || *got.UserData != secret {
				t.Errorf("%s: got %v", id, got.UserData)
			}
		}
	})
}

func TestPutLimits(t *testing.T) {
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

func TestProjectGoneRemovesThreadsAndSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range purgeBatch + 50 {
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
		wantCounts(t, s, 2, 0)
		for _, id := range []string{"stays", "later"} {
			_, err := s.Get(t.Context(), whole, id)
			must(t, err)
		}
		_, err = s.Session(t.Context(), whole, "s1")
		wantKind(t, err, errs.NotFound)
		_, err = s.Session(t.Context(), whole, "later")
		must(t, err)
		var left int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM thread_purges`).Scan(&left))
		if left != 0 {
			t.Error("the deleted project is still listed in thread_purges")
		}
	})
}
