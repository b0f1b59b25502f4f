package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// modelThread is a thread in the model of TestThreadFilters.
type modelThread struct {
	id, project      string
	created, changed int // steps of randomThreads
	deleted          bool
	metadata         object
}

// TestThreadFilters lists random threads by every filter, and by every pair and triple of filters, in
// every order, page by page, while newer threads are added. Each of the older ones must be listed
// once, in order.
func TestThreadFilters(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		random := rand.New(rand.NewPCG(3, 4))
		all := randomThreads(s, random)
		choices := [][]string{
			{"orgId=" + s.OrgID},
			{"projectId=p0", "projectId=p1", "projectId=p9"},
			{"sort=updated"},
			{"direction=asc"},
			{"deleted=true"},
			{
				`metadata={"kind":"a"}`, `metadata={"n":1.0}`, `metadata={"deep":{"y":[2],"x":1}}`,
				`metadata={"kind":"b","n":2}`, `metadata={"kind":"a","n":0,"deep":{"x":1,"y":[2]}}`,
				`metadata={"none":null}`, `metadata={}`,
			},
		}
		added := 0
		for a := range choices {
			for b := a; b < len(choices); b++ {
				for c := b; c < len(choices); c++ {
					q := url.Values{}
					for _, of := range [][]string{choices[a], choices[b], choices[c]} {
						name, value, _ := strings.Cut(of[random.IntN(len(of))], "=")
						q.Set(name, value)
					}
					checkThreadPages(s, all, q, func() {
						added++
						put := object{"project_id": "p0", "metadata": object{"kind": "a", "n": 1}}
						s.Call("PUT", fmt.Sprintf("/thread/added%d", added), put).Want(200)
					})
				}
			}
		}
	})
}

// randomThreads creates threads, changes some of them and deletes others, by PUT and over a socket.
func randomThreads(s *installation.Steward, random *rand.Rand) []*modelThread {
	socket := s.OpenSocket()
	var all []*modelThread
	for step := range 90 {
		m := object{"kind": []string{"a", "b"}[random.IntN(2)]}
		if random.IntN(2) == 0 {
			m["n"] = random.IntN(3)
		}
		if random.IntN(3) == 0 {
			m["deep"] = object{"x": 1, "y": []int{2}}
		}
		if old := random.IntN(3) == 0 && len(all) > 0; old {
			one := all[random.IntN(len(all))]
			if one.deleted {
				continue
			}
			socket.Do("save", object{"thread_id": one.id, "metadata": m})
			one.metadata, one.changed = m, step
			continue
		}
		one := &modelThread{
			id: fmt.Sprintf("t%02d", step), project: fmt.Sprintf("p%d", random.IntN(2)),
			created: step, changed: step, metadata: m,
		}
		s.Call("PUT", "/thread/"+one.id, object{"project_id": one.project, "metadata": m}).Want(200)
		if random.IntN(8) == 0 {
			s.Call("DELETE", "/thread/"+one.id, nil).Want(204)
			one.deleted = true
		}
		all = append(all, one)
	}
	return all
}

// matches reports whether a filter selects the thread. Values are compared as JSON text, in which keys
// are sorted and numbers have one form.
func (m *modelThread) matches(s *installation.Steward, q url.Values) bool {
	if q.Get("projectId") != "" && q.Get("projectId") != m.project || m.deleted != (q.Get("deleted") == "true") {
		return false
	}
	var want object
	if text := q.Get("metadata"); text != "" {
		s.Must(json.Unmarshal([]byte(text), &want))
	}
	for key, value := range want {
		stored, found := m.metadata[key]
		a, err := json.Marshal(value)
		s.Must(err)
		b, err := json.Marshal(stored)
		s.Must(err)
		if !found || string(a) != string(b) {
			return false
		}
	}
	return true
}

func checkThreadPages(s *installation.Steward, all []*modelThread, q url.Values, meanwhile func()) {
	s.T.Helper()
	var found []*modelThread
	for _, one := range all {
		if one.matches(s, q) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b *modelThread) int {
		order := a.created - b.created
		if q.Get("sort") == "updated" {
			order = a.changed - b.changed
		}
		if q.Get("direction") != "asc" {
			order = -order
		}
		return order
	})
	var want, got []string
	for _, one := range found {
		want = append(want, one.id)
	}
	first := "/thread?limit=7&" + q.Encode()
	for path := first; path != ""; {
		page := s.Call("GET", path, nil).Want(200)
		for _, id := range strings.Fields(page.IDs()) {
			if !strings.HasPrefix(id, "added") {
				got = append(got, id)
			}
		}
		if path == first {
			meanwhile()
		}
		path = page.Next()
	}
	if !slices.Equal(got, want) {
		s.T.Errorf("%s:\ngot  %v\nwant %v", q.Encode(), got, want)
	}
}
