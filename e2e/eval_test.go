package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
)

func matchesFilter(r installation.EvalRun, filter, value string) bool {
	fields := map[string]string{
		"projectId": r.ProjectID, "agentId": r.AgentIdentifier, "evalId": r.EvalID, "sessionId": r.SessionID,
	}
	return fields[filter] == value
}

// TestEvalRunFilters lists random runs by every filter, and by every pair and triple of filters, page
// by page, while newer runs are added.
func TestEvalRunFilters(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		random := rand.New(rand.NewPCG(1, 2))
		pick := func(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, random.IntN(n)) }
		var runs []installation.EvalRun
		for i := range 120 {
			r := installation.EvalRun{
				ID: fmt.Sprintf("run%03d", i), SessionID: pick("s", 5), EvalID: pick("e", 6), ProjectID: pick("p", 3),
			}
			s.Call("POST", "/evalrun", r.Body(s.OrgID, i)).Want(201)
			runs = append(runs, r)
		}
		for e := range 5 { // e5 stays unknown
			name := fmt.Sprintf("e%d", e)
			eval := object{"name": name, "agentIdentifier": pick("a", 2), "projectId": pick("p", 3)}
			s.Call("PUT", "/cli/eval/"+name, eval).Want(200)
		}
		agents := map[string]string{}
		var known []installation.EvalRun
		s.Call("GET", "/cli/eval", nil).Want(200).Decode(&known)
		for _, e := range known {
			agents[e.ID] = e.AgentIdentifier
		}
		for i := range runs {
			runs[i].AgentIdentifier = agents[runs[i].EvalID]
		}
		slices.Reverse(runs)

		filters := map[string][]string{
			"projectId": {"p0", "p1", "p9"}, "agentId": {"a0", "a1", "a9"},
			"evalId": {"e0", "e5", "e9"}, "sessionId": {"s0", "s4", "s9"},
		}
		names := slices.Sorted(maps.Keys(filters))
		n := 0
		for a := range names {
			for b := a; b < len(names); b++ {
				for c := b; c < len(names); c++ {
					q := url.Values{"orgId": {s.OrgID}}
					for _, name := range []string{names[a], names[b], names[c]} {
						q.Set(name, filters[name][random.IntN(3)])
					}
					n++
					added := installation.EvalRun{
						ID: fmt.Sprintf("added%d", n), SessionID: "s0", EvalID: "e0", ProjectID: "p0",
						AgentIdentifier: agents["e0"],
					}
					checkRunPages(s, runs, q, func() {
						s.Call("POST", "/evalrun", added.Body(s.OrgID, 1000+n)).Want(201)
					})
					runs = append([]installation.EvalRun{added}, runs...)
				}
			}
		}
		s.Call("GET", "/cli/eval-run?orgId=org_of_somebody_else", nil).Want(200).Decode(&runs)
		if len(runs) != 0 {
			t.Errorf("%d runs of another organization are listed", len(runs))
		}
	})
}

// checkRunPages reads a list page by page. What meanwhile adds after the first page must not be
// listed, nor shift the other pages.
func checkRunPages(s *installation.Steward, runs []installation.EvalRun, q url.Values, meanwhile func()) {
	s.T.Helper()
	var want, got []string
	for _, r := range runs {
		match := true
		for filter := range q {
			match = match && (filter == "orgId" || matchesFilter(r, filter, q.Get(filter)))
		}
		if match {
			want = append(want, r.ID)
		}
	}
	first := "/cli/eval-run?limit=7&" + q.Encode()
	for path := first; path != ""; {
		page := s.Call("GET", path, nil).Want(200)
		if path == first {
			if total := page.Header.Get("X-Total-Count"); total != fmt.Sprint(len(want)) {
				s.T.Errorf("%s: total %s, want %d", path, total, len(want))
			}
			meanwhile()
		}
		got = append(got, strings.Fields(page.IDs())...)
		path = page.Next()
	}
	if !slices.Equal(got, want) {
		s.T.Errorf("%s:\ngot  %v\nwant %v", q.Encode(), got, want)
	}
}

// TestEvalRunStartsAndCompletes uses both faces of the API, and keys of the run's project and of
// another one.
func TestEvalRunStartsAndCompletes(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		red, green := s.KeyOf("red"), s.KeyOf("green")
		r := installation.EvalRun{ID: "r1", SessionID: "later", EvalID: "e1", ProjectID: "red"}
		green.Call("POST", "/evalrun", r.Body(s.OrgID, 0)).Want(403)
		if got := red.Call("POST", "/sdk/evalrun", r.Body(s.OrgID, 0)).Want(201); got.Get("success") != true {
			t.Errorf("got %s", got.Body)
		}
		red.Call("POST", "/evalrun", r.Body("org_other", 0)).Want(403)
		got := red.Call("GET", "/cli/eval-run/r1", nil).Want(200)
		if got.Get("pending") != true || got.Get("success") != false || got.Get("agentIdentifier") != nil ||
			got.Get("evalName") != nil {
			t.Errorf("got %s", got.Body)
		}
		green.Call("GET", "/cli/eval-run/r1", nil).Want(404)
		green.Call("PUT", "/evalrun", object{"id": "r1"}).Want(404)
		sync := object{"deploymentId": "d1", "delete": []string{}, "create": []any{object{
			"id": "e1", "name": "tone", "identifier": "tone", "version": "1", "filename": "a.ts",
			"projectId": "red", "agentIdentifier": "support",
		}}}
		green.Call("POST", "/cli/devmode/eval", sync).Want(403)
		red.Call("POST", "/sdk/cli/devmode/eval", sync).Want(200)
		green.Call("GET", "/cli/eval/e1", nil).Want(404)
		green.Call("PUT", "/cli/eval/e1", object{"name": "x", "agentIdentifier": "x", "projectId": "green"}).Want(404)
		result := `{"success":false,"score":0.10,"big":12345678901234567890}`
		red.Call("PUT", "/sdk/evalrun", `{"id":"r1","result":`+result+`}`).Want(200)
		red.Call("PUT", "/evalrun", `{"id":"r1","result":{"big":12345678901234567890,"score":0.1,"success":false}}`).Want(200)
		red.Call("PUT", "/evalrun", `{"id":"r1","result":1}`).Want(409)
		red.Call("POST", "/sdk/evalrun/2025-03-17", r.Body(s.OrgID, 0)).Want(201) // versioned paths of SDKs
		red.Call("PUT", "/sdk/evalrun/2025-03-17", `{"id":"r1","result":`+result+`}`).Want(200)
		red.Call("PUT", "/evalrun/2025-03-17", `{"id":"r1"}`).Want(404)
		red.Call("POST", "/evalrun", r.Body(s.OrgID, 0)).Want(201)
		got = red.Call("GET", "/cli/eval-run/r1", nil).Want(200)
		if got.Get("pending") != false || got.Get("success") != false || got.Text("agentIdentifier") != "support" ||
			got.Text("evalName") != "tone" || !strings.Contains(string(got.Body), `"result":`+result) {
			t.Errorf("got %s", got.Body)
		}
		s.Call("DELETE", "/cli/project/red", nil).Want(204)
		s.Call("GET", "/cli/eval-run/r1", nil).Want(404)
		s.Call("GET", "/cli/eval/e1", nil).Want(404)
	})
}
