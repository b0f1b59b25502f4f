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
)

// TestTogether draws edits of a few threads by callers with different rights. What comes of them in one common transaction is what comes
// of each in its own: the same rows, lists and totals, and the same refusals.
func TestTogether(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		fixed := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
		s.Now = func() time.Time { return fixed }
		orgs := 0
		rapid.Check(t, func(rt *rapid.T) {
			orgs++
			one, other := fmt.Sprintf("one_%d", orgs), fmt.Sprintf("other_%d", orgs)
			for _, orgID := range []string{one, other} {
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
				s.compareBatches(rt, one, other)
			}
		})
	})
}

func as(orgID, projectID string) *auth.Caller {
	return &auth.Caller{OrgID: orgID, UserID: "u", Role: auth.Owner, ProjectID: projectID}
}

// compareBatches does the same edits in one organization together, and in the other one by one. Those that need a transaction of their own
// come after the others.
func (s *Store) compareBatches(t *rapid.T, one, other string) {
	var batch []*writing
	for range rapid.IntRange(1, 8).Draw(t, "edits") {
		project := rapid.SampledFrom([]string{"p", "p", "q", ""}).Draw(t, "caller")
		batch = append(batch, &writing{edit: drawEdit(t, s), caller: as(one, project)})
	}
	if err := s.DB.Write(t.Context(), func(tx *db.Tx) error { return s.changeTogether(tx, batch) }); err != nil {
		t.Fatal(err)
	}
	for _, putOff := range []bool{false, true} {
		for i, w := range batch {
			if errors.Is(w.err, errAlone) != putOff {
				continue
			}
			err := w.err
			if putOff {
				err = s.write(t.Context(), w.caller, w.edit)
			}
			alone := s.write(t.Context(), as(other, w.caller.ProjectID), w.edit)
			if errs.KindOf(err) != errs.KindOf(alone) || (err == nil) != (alone == nil) {
				t.Fatalf("edit %d: together %v, alone %v", i, err, alone)
			}
		}
	}
	for _, f := range []Filter{
		{}, {Updated: true}, {ProjectID: "p"}, {Deleted: true}, {Keys: keysOf(t, `{"a":1}`)}, {Keys: keysOf(t, `{"a":1,"b":2}`)},
	} {
		left, right := s.everything(t, one, f), s.everything(t, other, f)
		if diff := cmp.Diff(left, right, cmp.AllowUnexported(Thread{})); diff != "" {
			t.Fatalf("%+v: -together +alone\n%s", f, diff)
		}
	}
}

func keysOf(t *rapid.T, text string) []facet {
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
		d.Metadata = page.Some(Metadata(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"c":3}`}).Draw(t, "metadata")))
	}
	e, err := s.editOf(d)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "merge") {
		key := "l"
		ops := []Operation{{Op: "push", Key: &key, Value: []byte(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))}}
		e.userData, e.merge = nil, func(before *string) (string, error) { return merge(before, ops, nil, false) }
	}
	return e
}

// everything gives a list and its total, without the organization's name.
func (s *Store) everything(t *rapid.T, orgID string, f Filter) any {
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
