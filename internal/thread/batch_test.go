package thread

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/thread/state"
	"steward/internal/thread/term"
)

// TestBatchEqualsSingleWrites draws edits of a few threads by callers with different rights. A
// batch leads to the same rows, lists, totals and errors as a transaction for each edit.
func TestBatchEqualsSingleWrites(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		fixed := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
		s.Now = func() time.Time { return fixed }
		orgs := 0
		dbtest.Check(t, d.Dialect(), func(rt *rapid.T) {
			orgs++
			batched, single := fmt.Sprintf("batched_%d", orgs), fmt.Sprintf("single_%d", orgs)
			for _, orgID := range []string{batched, single} {
				must(t, d.Write(t.Context(), func(tx *db.Tx) error {
					_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, 'p', 'p', 0, 1)`, orgID)
					return err
				}))
				_, err := s.save(t.Context(), as(orgID, "q"), frameData{ThreadID: "gone"})
				must(t, err)
				must(t, s.Delete(t.Context(), as(orgID, "q"), "gone", page.IfMatch{}))
			}
			for range 3 {
				fixed = fixed.Add(time.Second)
				compareBatches(rt, s, batched, single)
			}
		})
	})
}

func as(orgID, projectID string) *auth.Caller {
	return &auth.Caller{OrgID: orgID, UserID: "u", Role: auth.Owner, ProjectID: projectID}
}

// compareBatches writes the same edits as a batch in one organization, and one by one in the other.
// Those that need a transaction of their own are written after the others.
func compareBatches(t *rapid.T, s *Store, batched, single string) {
	var batch []*queuedEdit
	for range rapid.IntRange(1, 8).Draw(t, "edits") {
		project := rapid.SampledFrom([]string{"p", "p", "q", ""}).Draw(t, "caller")
		batch = append(batch, &queuedEdit{edit: drawEdit(t, s), caller: as(batched, project)})
	}
	if err := s.DB.Write(t.Context(), func(tx *db.Tx) error { return s.writeBatch(tx, batch) }); err != nil {
		t.Fatal(err)
	}
	for _, deferred := range []bool{false, true} {
		for i, w := range batch {
			if errors.Is(w.err, errNeedsTx) != deferred {
				continue
			}
			err := w.err
			if deferred {
				err = s.write(t.Context(), w.caller, w.edit)
			}
			alone := s.write(t.Context(), as(single, w.caller.ProjectID), w.edit)
			if errs.KindOf(err) != errs.KindOf(alone) || (err == nil) != (alone == nil) {
				t.Fatalf("edit %d: in a batch %v, alone %v", i, err, alone)
			}
		}
	}
	for _, f := range []Filter{
		{}, {Updated: true}, {ProjectID: "p"}, {Deleted: true}, {Keys: keysOf(t, `{"a":1}`)}, {Keys: keysOf(t, `{"a":1,"b":2}`)},
	} {
		left, right := listAll(t, s, batched, f), listAll(t, s, single, f)
		if diff := cmp.Diff(left, right, cmp.AllowUnexported(Thread{})); diff != "" {
			t.Fatalf("%+v: -batch +single\n%s", f, diff)
		}
	}
}

func keysOf(t *rapid.T, text string) []term.Term {
	keys, err := parseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func drawEdit(t *rapid.T, s *Store) edit {
	d := frameData{ThreadID: rapid.SampledFrom([]string{"t1", "t2", "t3", "gone"}).Draw(t, "thread")}
	if rapid.Bool().Draw(t, "data") {
		d.UserData = page.Some(rapid.SampledFrom([]string{`{"l":[0]}`, `{}`, `7`}).Draw(t, "user_data"))
	}
	if rapid.Bool().Draw(t, "meta") {
		texts := []string{`{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"c":3}`}
		d.Metadata = page.Some(Metadata(rapid.SampledFrom(texts).Draw(t, "metadata")))
	}
	e, err := s.newEdit(t.Context(), &auth.Caller{}, d)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "merge") {
		key := "l"
		ops := []state.Operation{{Op: "push", Key: &key, Value: []byte(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))}}
		e.userData, e.merge = nil, func(before *string) (string, error) { return state.Merge(before, ops, nil, MaxText) }
	}
	return e
}

// listAll returns a list and its total, without the organization's id.
func listAll(t *rapid.T, s *Store, orgID string, f Filter) any {
	result, err := s.List(t.Context(), as(orgID, ""), f, page.Paging{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range result.Items {
		result.Items[i].OrgID = ""
	}
	return struct {
		Items []Thread
		Total int64
	}{result.Items, result.Total}
}
