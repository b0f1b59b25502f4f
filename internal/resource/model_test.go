package resource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// model is what callers must see after random changes by two replicas whose engines fail at random.
type model struct {
	t        *rapid.T
	replicas []*fixture
	seen     map[Named]string
}

// TestRandomChangesWithFailuresEndInAgreement compares every change with the model: it happens as a
// whole or not at all, and after a recovery rows and engines agree.
func TestRandomChangesWithFailuresEndInAgreement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dir := t.TempDir()
		var runs atomic.Int32
		dbtest.Check(t, d.Dialect(), func(rt *rapid.T) {
			m := &model{t: rt, seen: map[Named]string{}}
			org := fmt.Sprintf("org_%d", runs.Add(1))
			for _, node := range []string{"node_1", "node_2"} {
				f := newFixture(t, d, dir, node)
				f.caller.OrgID = org
				m.replicas = append(m.replicas, f)
			}
			for range rapid.IntRange(1, 12).Draw(rt, "changes") {
				f := rapid.SampledFrom(m.replicas).Draw(rt, "replica")
				m.fail(f)
				rapid.SampledFrom([]func(*fixture){m.create, m.create, m.delete, m.rotate, m.recover}).Draw(rt, "change")(f)
			}
			m.end()
		})
	})
}

// fail has a few calls of the engines fail, before or after they take effect.
func (m *model) fail(f *fixture) {
	for _, e := range []*fileEngine{f.dbs, f.kvs} {
		verb := rapid.SampledFrom([]string{"", "", "check", "create", "rotate", "delete", "delete"}).Draw(m.t, "failing")
		failure := rapid.SampledFrom([]error{errDown, errors.New("busy")}).Draw(m.t, "failure")
		e.late = rapid.Bool().Draw(m.t, "late")
		if rapid.Bool().Draw(m.t, "always") {
			e.set(always(verb, failure))
		} else {
			e.set(nth(verb, rapid.IntRange(1, 3).Draw(m.t, "nth"), failure))
		}
	}
}

var someNames = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Named {
	kind := rapid.SampledFrom([]Type{DB, KV}).Draw(t, "type")
	return Named{Type: kind, Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
}), 1, 4, rapid.ID[Named])

func (m *model) create(f *fixture) {
	names := someNames.Draw(m.t, "names")
	wanted := make([]NewResource, len(names))
	for i, n := range names {
		wanted[i] = NewResource{Type: n.Type, Name: new(n.Name)}
	}
	created, err := f.create(wanted...)
	taken := slices.ContainsFunc(names, func(n Named) bool { return m.seen[n] != "" })
	if taken && errs.KindOf(err) != errs.Conflict {
		m.t.Fatalf("created %v again: %v", names, err)
	}
	if err == nil {
		for i, r := range created {
			m.seen[names[i]] = r.Provisioned.Password
		}
	}
	m.compare(f)
}

func (m *model) delete(f *fixture) {
	names := someNames.Draw(m.t, "names")
	err := f.delete(names...)
	after := f.listed()
	gone := !slices.ContainsFunc(names, func(n Named) bool { return after[n] != "" })
	if err == nil && !gone {
		m.t.Fatalf("%v were deleted, but are listed: %v", names, after)
	}
	if gone {
		for _, n := range names {
			delete(m.seen, n)
		}
	}
	m.compare(f)
}

func (m *model) rotate(f *fixture) {
	n := someNames.Draw(m.t, "names")[0]
	p, err := f.Store.Get(f.t.Context(), f.caller.OrgID, "local", n.Type, n.Name)
	if err != nil {
		if m.seen[n] != "" {
			m.t.Fatalf("%v is lost: %v", n, err)
		}
		return
	}
	rotated, err := f.Rotate(f.t.Context(), p, nil)
	if err == nil && rotated.Password == p.Password {
		m.t.Fatal("the rotation did not change the password")
	}
	if now := f.listed()[n]; err == nil && now == rotated.Password || err != nil && now != "" {
		m.seen[n] = now
	}
	m.compare(f)
}

func (m *model) recover(f *fixture) {
	for _, r := range m.replicas {
		r.now = r.now.Add(retryAfter)
	}
	f.must(f.Recover(f.t.Context()))
	m.compare(f)
}

// compare compares what callers see with the model.
func (m *model) compare(f *fixture) {
	if got := f.listed(); !maps.Equal(got, m.seen) {
		m.t.Fatalf("callers see %v, want %v", got, m.seen)
	}
}

// end repairs the engines and recovers.
func (m *model) end() {
	for _, f := range m.replicas {
		f.dbs.set(nil)
		f.kvs.set(nil)
	}
	f := m.replicas[0]
	f.check()
	m.compare(f)
	if f.t.Failed() {
		m.t.FailNow()
	}
}
