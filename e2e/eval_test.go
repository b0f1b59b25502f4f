package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// evalRun is a run as its runtime started it, with the agent of its eval.
type evalRun struct{ ID, SessionID, EvalID, ProjectID, AgentIdentifier string }

func (r evalRun) body(orgID string, at int) map[string]any {
	return map[string]any{
		"id": r.ID, "sessionId": r.SessionID, "evalId": r.EvalID, "evalIdentifier": "stable", "orgId": orgID, "projectId": r.ProjectID,
		"devmode": false, "timestamp": 1763200000000 + at,
	}
}

func (r evalRun) has(filter, value string) bool {
	fields := map[string]string{"projectId": r.ProjectID, "agentId": r.AgentIdentifier, "evalId": r.EvalID, "sessionId": r.SessionID}
	return fields[filter] == value
}

// TestEvalFilters lists random runs by every filter, every pair and every triple of filters, page by page, while newer runs are added.
func TestEvalFilters(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		random := rand.New(rand.NewPCG(1, 2))
		pick := func(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, random.IntN(n)) }
		var runs []evalRun
		for i := range 120 {
			r := evalRun{ID: fmt.Sprintf("run%03d", i), SessionID: pick("s", 5), EvalID: pick("e", 6), ProjectID: pick("p", 3)}
			s.call("POST", "/evalrun", r.body(s.orgID, i)).want(201)
			runs = append(runs, r)
		}
		for e := range 5 { // e5 stays unknown
			name := fmt.Sprintf("e%d", e)
			s.call("PUT", "/cli/eval/"+name, map[string]any{"name": name, "agentIdentifier": pick("a", 2), "projectId": pick("p", 3)}).want(200)
		}
		agents := map[string]string{}
		var known []evalRun
		s.call("GET", "/cli/eval", nil).want(200).into(&known)
		for _, e := range known {
			agents[e.ID] = e.AgentIdentifier
		}
		for i := range runs {
			runs[i].AgentIdentifier = agents[runs[i].EvalID]
		}
		slices.Reverse(runs)

		filters := map[string][]string{
			"projectId": {"p0", "p1", "p9"}, "agentId": {"a0", "a1", "a9"}, "evalId": {"e0", "e5", "e9"}, "sessionId": {"s0", "s4", "s9"},
		}
		names := slices.Sorted(maps.Keys(filters))
		n := 0
		for a := range names {
			for b := a; b < len(names); b++ {
				for c := b; c < len(names); c++ {
					q := url.Values{"orgId": {s.orgID}}
					for _, name := range []string{names[a], names[b], names[c]} {
						q.Set(name, filters[name][random.IntN(3)])
					}
					n++
					added := evalRun{ID: fmt.Sprintf("added%d", n), SessionID: "s0", EvalID: "e0", ProjectID: "p0", AgentIdentifier: agents["e0"]}
					comparePages(s, runs, q, func() { s.call("POST", "/evalrun", added.body(s.orgID, 1000+n)).want(201) })
					runs = append([]evalRun{added}, runs...)
				}
			}
		}
		s.call("GET", "/cli/eval-run?orgId=org_of_somebody_else", nil).want(200).into(&runs)
		if len(runs) != 0 {
			t.Errorf("a foreign organization has %d runs", len(runs))
		}
	})
}

var nextLink = regexp.MustCompile(`<([^>]*)>; rel="next"`)

// nextPage is the path of the page after this one, or empty.
func nextPage(a *answer) string {
	if link := nextLink.FindStringSubmatch(a.header.Get("Link")); link != nil {
		return link[1]
	}
	return ""
}

// comparePages reads a list page by page; `meanwhile` happens after the first one and must not be seen, nor move anything.
func comparePages(s *steward, runs []evalRun, q url.Values, meanwhile func()) {
	s.t.Helper()
	var want, got []string
	for _, r := range runs {
		match := true
		for filter := range q {
			match = match && (filter == "orgId" || r.has(filter, q.Get(filter)))
		}
		if match {
			want = append(want, r.ID)
		}
	}
	first := "/cli/eval-run?limit=7&" + q.Encode()
	for path := first; path != ""; {
		page := s.call("GET", path, nil).want(200)
		if path == first {
			if total := page.header.Get("X-Total-Count"); total != fmt.Sprint(len(want)) {
				s.t.Errorf("%s: total %s, want %d", path, total, len(want))
			}
			meanwhile()
		}
		var items []evalRun
		page.into(&items)
		for _, r := range items {
			got = append(got, r.ID)
		}
		path = nextPage(page)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%s:\ngot  %v\nwant %v", q.Encode(), got, want)
	}
}

// TestEvalRunLife starts and completes a run through both faces, with a key that is confined to a project and one that is to another.
func TestEvalRunLife(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		key := func(project string) *steward {
			made := s.call("POST", "/cli/apikey", map[string]any{"name": project, "expiresAt": nil, "projectId": project}).want(201)
			return s.as(made.text("value"))
		}
		red, green := key("red"), key("green")
		r := evalRun{ID: "r1", SessionID: "later", EvalID: "e1", ProjectID: "red"}
		green.call("POST", "/evalrun", r.body(s.orgID, 0)).want(403)
		if got := red.call("POST", "/sdk/evalrun", r.body(s.orgID, 0)).want(201); got.get("success") != true {
			t.Errorf("got %s", got.body)
		}
		red.call("POST", "/evalrun", r.body("org_other", 0)).want(403)
		got := red.call("GET", "/cli/eval-run/r1", nil).want(200)
		if got.get("pending") != true || got.get("success") != false || got.get("agentIdentifier") != nil || got.get("evalName") != nil {
			t.Errorf("got %s", got.body)
		}
		green.call("GET", "/cli/eval-run/r1", nil).want(404)
		green.call("PUT", "/evalrun", map[string]any{"id": "r1"}).want(404)
		sync := map[string]any{"deploymentId": "d1", "delete": []string{}, "create": []any{map[string]any{
			"id": "e1", "name": "tone", "identifier": "tone", "version": "1", "filename": "a.ts", "projectId": "red", "agentIdentifier": "support",
		}}}
		green.call("POST", "/cli/devmode/eval", sync).want(403)
		red.call("POST", "/sdk/cli/devmode/eval", sync).want(200)
		green.call("GET", "/cli/eval/e1", nil).want(404)
		green.call("PUT", "/cli/eval/e1", map[string]any{"name": "x", "agentIdentifier": "x", "projectId": "green"}).want(404)
		result := `{"success":false,"score":0.10,"big":12345678901234567890}`
		red.call("PUT", "/sdk/evalrun", `{"id":"r1","result":`+result+`}`).want(200)
		red.call("PUT", "/evalrun", `{"id":"r1","result":{"big":12345678901234567890,"score":0.1,"success":false}}`).want(200)
		red.call("PUT", "/evalrun", `{"id":"r1","result":1}`).want(409)
		red.call("POST", "/sdk/evalrun/2025-03-17", r.body(s.orgID, 0)).want(201) // as SDKs have it
		red.call("PUT", "/sdk/evalrun/2025-03-17", `{"id":"r1","result":`+result+`}`).want(200)
		red.call("PUT", "/evalrun/2025-03-17", `{"id":"r1"}`).want(404)
		red.call("POST", "/evalrun", r.body(s.orgID, 0)).want(201)
		got = red.call("GET", "/cli/eval-run/r1", nil).want(200)
		if got.get("pending") != false || got.get("success") != false || got.text("agentIdentifier") != "support" ||
			got.text("evalName") != "tone" || !strings.Contains(string(got.body), `"result":`+result) {
			t.Errorf("got %s", got.body)
		}
		s.call("DELETE", "/cli/project/red", nil).want(204)
		s.call("GET", "/cli/eval-run/r1", nil).want(404)
		s.call("GET", "/cli/eval/e1", nil).want(404)
	})
}

// TestKillDuringEvalRuns kills the process while runs are started and completed, and looks for everything that was acknowledged.
func TestKillDuringEvalRuns(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		acked := map[string]string{} // run → "started" or "completed"
		for round := range 3 {
			maps.Copy(acked, runUntilKilled(s, round))
			s.run()
		}
		for runID, state := range acked {
			got := s.call("GET", "/cli/eval-run/"+runID, nil).want(200)
			if state == "completed" && (got.get("pending") != false || got.get("result") != runID) {
				t.Errorf("%s was acknowledged as %s: %s", runID, state, got.body)
			}
		}
		total := s.call("GET", "/cli/eval-run?limit=0", nil).want(200).header.Get("X-Total-Count")
		there := 0
		for path := "/cli/eval-run?limit=1000"; path != ""; {
			page := s.call("GET", path, nil).want(200)
			var items []evalRun
			page.into(&items)
			there += len(items)
			path = nextPage(page)
		}
		if total != fmt.Sprint(there) || there < len(acked) {
			t.Errorf("%d acknowledged, %d there, %s counted", len(acked), there, total)
		}
		t.Logf("%d acknowledged, %d there", len(acked), there)
	})
}

// runUntilKilled starts and completes runs from several clients and kills the process after some were acknowledged.
func runUntilKilled(s *steward, round int) map[string]string {
	var mu sync.Mutex
	var clients sync.WaitGroup
	acked := map[string]string{}
	enough := make(chan struct{})
	note := func(runID, state string) {
		mu.Lock()
		defer mu.Unlock()
		acked[runID] = state
		if state == "started" && len(acked) == 150 {
			close(enough)
		}
	}
	for c := range 8 {
		clients.Go(func() {
			for i := 0; ; i++ {
				r := evalRun{ID: fmt.Sprintf("run-%d-%d-%d", round, c, i), SessionID: "s", EvalID: "e", ProjectID: "p"}
				a, err := s.try("POST", "/evalrun", r.body(s.orgID, int(time.Now().UnixMilli()%1000)))
				if err != nil || a.status != 201 {
					return
				}
				note(r.ID, "started")
				a, err = s.try("PUT", "/evalrun", map[string]any{"id": r.ID, "result": r.ID})
				if err != nil || a.status != 200 {
					return
				}
				note(r.ID, "completed")
			}
		})
	}
	<-enough
	s.kill()
	clients.Wait()
	return acked
}
