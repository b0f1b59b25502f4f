package keys

import (
	"slices"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// TestListShowsWhenKeysSignAndGo follows the keys over a rotation.
func TestListShowsWhenKeysSignAndGo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		made := stamp.Of(f.Now())
		first := f.list()
		if len(first) != 2*(1+nextKeys) {
			t.Fatalf("%d keys", len(first))
		}
		f.advance(time.Hour)
		if !f.rotateNow() {
			t.Fatal("not rotated")
		}
		rotated := stamp.Of(f.Now())
		for _, alg := range algorithms {
			oldKID, _ := keyOf(first, string(alg), Active)
			kid, active := keyOf(f.list(), string(alg), Active)
			if kid == oldKID || active.CreatedAt != made || active.ActiveAt == nil || *active.ActiveAt != rotated || active.GoneAt != nil {
				t.Errorf("active: %+v", active)
			}
			_, next := keyOf(f.list(), string(alg), Next)
			if next.ActiveAt != nil || next.GoneAt != nil {
				t.Errorf("next: %+v", next)
			}
			kid, retiring := keyOf(f.list(), string(alg), Retiring)
			if kid != oldKID || *retiring.ActiveAt != made || *retiring.GoneAt != rotated.Add(RetainTime) {
				t.Errorf("retiring: %+v", retiring)
			}
		}
		f.advance(RetainTime + time.Minute)
		must(t, f.Maintain(t.Context()))
		if slices.ContainsFunc(f.list(), func(k Info) bool { return k.State == Retiring }) {
			t.Error("a key that is gone is listed")
		}
	})
}

func (f *fixture) list() []Info {
	f.t.Helper()
	list, err := f.List(f.t.Context())
	must(f.t, err)
	return list
}

// keyOf returns the first key of an algorithm that is in a state.
func keyOf(list []Info, alg string, state State) (kid string, found Info) {
	i := slices.IndexFunc(list, func(k Info) bool { return k.Algorithm == alg && k.State == state })
	if i < 0 {
		return "", Info{}
	}
	return list[i].ID, list[i]
}
