package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// evalRun is a run of an eval, with the agent of that eval.
type evalRun struct{ ID, SessionID, EvalID, ProjectID, AgentIdentifier string }

// body returns the request that starts the run.
func (r evalRun) body(orgID string, at int) object {
	return object{
		"id": r.ID, "sessionId": r.SessionID, "evalId": r.EvalID, "evalIdentifier": "stable",
		"orgId": orgID, "projectId": r.ProjectID, "devmode": false, "timestamp": 1763200000000 + at,
	}
}

func (r evalRun) has(filter, value string) bool {
	fields := map[string]string{
		"projectId": r.ProjectID, "agentId": r.AgentIdentifier, "evalId": r.EvalID, "sessionId": r.SessionID,
	}
	return fields[filter] == value
}

// TestEvalRunFilters lists random runs by every filter, and by every pair and triple of filters, page
// by page, while newer runs are added.
func TestEvalRunFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		random := rand.New(rand.NewPCG(1, 2))
		pick := func(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, random.IntN(n)) }
		var runs []evalRun
		for i := range 120 {
			r := evalRun{
				ID: fmt.Sprintf("run%03d", i), SessionID: pick("s", 5), EvalID: pick("e", 6), ProjectID: pick("p", 3),
			}
			s.call("POST", "/evalrun", r.body(s.orgID, i)).want(201)
			runs = append(runs, r)
		}
		for e := range 5 { // e5 stays unknown
			name := fmt.Sprintf("e%d", e)
			eval := object{"name": name, "agentIdentifier": pick("a", 2), "projectId": pick("p", 3)}
			s.call("PUT", "/cli/eval/"+name, eval).want(200)
		}
		agents := map[string]string{}
		var known []evalRun
		s.call("GET", "/cli/eval", nil).want(200).decode(&known)
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
					q := url.Values{"orgId": {s.orgID}}
					for _, name := range []string{names[a], names[b], names[c]} {
						q.Set(name, filters[name][random.IntN(3)])
					}
					n++
					added := evalRun{
						ID: fmt.Sprintf("added%d", n), SessionID: "s0", EvalID: "e0", ProjectID: "p0",
						AgentIdentifier: agents["e0"],
					}
					checkRunPages(s, runs, q, func() {
						s.call("POST", "/evalrun", added.body(s.orgID, 1000+n)).want(201)
					})
					runs = append([]evalRun{added}, runs...)
				}
			}
		}
		s.call("GET", "/cli/eval-run?orgId=org_of_somebody_else", nil).want(200).decode(&runs)
		if len(runs) != 0 {
			t.Errorf("%d runs of another organization are listed", len(runs))
		}
	})
}

// checkRunPages reads a list page by page. What meanwhile adds after the first page must not be
// listed, nor shift the other pages.
func checkRunPages(s *steward, runs []evalRun, q url.Values, meanwhile func()) {
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
		got = append(got, strings.Fields(page.ids())...)
		path = page.next()
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%s:\ngot  %v\nwant %v", q.Encode(), got, want)
	}
}

// TestEvalRunStartsAndCompletes uses both faces of the API, and keys of the run's project and of
// another one.
func TestEvalRunStartsAndCompletes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		red, green := s.keyOf("red"), s.keyOf("green")
		r := evalRun{ID: "r1", SessionID: "later", EvalID: "e1", ProjectID: "red"}
		green.call("POST", "/evalrun", r.body(s.orgID, 0)).want(403)
		if got := red.call("POST", "/sdk/evalrun", r.body(s.orgID, 0)).want(201); got.get("success") != true {
			t.Errorf("got %s", got.body)
		}
		red.call("POST", "/evalrun", r.body("org_other", 0)).want(403)
		got := red.call("GET", "/cli/eval-run/r1", nil).want(200)
		if got.get("pending") != true || got.get("success") != false || got.get("agentIdentifier") != nil ||
			got.get("evalName") != nil {
			t.Errorf("got %s", got.body)
		}
		green.call("GET", "/cli/eval-run/r1", nil).want(404)
		green.call("PUT", "/evalrun", object{"id": "r1"}).want(404)
		sync := object{"deploymentId": "d1", "delete": []string{}, "create": []any{object{
			"id": "e1", "name": "tone", "identifier": "tone", "version": "1", "filename": "a.ts",
			"projectId": "red", "agentIdentifier": "support",
		}}}
		green.call("POST", "/cli/devmode/eval", sync).want(403)
		red.call("POST", "/sdk/cli/devmode/eval", sync).want(200)
		green.call("GET", "/cli/eval/e1", nil).want(404)
		green.call("PUT", "/cli/eval/e1", object{"name": "x", "agentIdentifier": "x", "projectId": "green"}).want(404)
		result := `{"success":false,"score":0.10,"big":12345678901234567890}`
		red.call("PUT", "/sdk/evalrun", `{"id":"r1","result":`+result+`}`).want(200)
		red.call("PUT", "/evalrun", `{"id":"r1","result":{"big":12345678901234567890,"score":0.1,"success":false}}`).want(200)
		red.call("PUT", "/evalrun", `{"id":"r1","result":1}`).want(409)
		red.call("POST", "/sdk/evalrun/2025-03-17", r.body(s.orgID, 0)).want(201) // versioned paths of SDKs
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

// TestAcknowledgedEvalRunsSurviveKill kills the process while runs are started and completed.
func TestAcknowledgedEvalRunsSurviveKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		acked := map[string]string{} // "started" or "completed", by run
		for round := range 3 {
			maps.Copy(acked, runUntilKilled(s, round))
			s.start()
		}
		for runID, state := range acked {
			got := s.call("GET", "/cli/eval-run/"+runID, nil).want(200)
			if state == "completed" && (got.get("pending") != false || got.get("result") != runID) {
				t.Errorf("%s was acknowledged as %s: %s", runID, state, got.body)
			}
		}
		total := s.total("/cli/eval-run?limit=0")
		stored := len(s.pages("/cli/eval-run?limit=1000", nil))
		if total != fmt.Sprint(stored) || stored < len(acked) {
			t.Errorf("%d acknowledged, %d stored, %s counted", len(acked), stored, total)
		}
		t.Logf("%d acknowledged, %d stored", len(acked), stored)
	})
}

// runUntilKilled starts and completes runs from several clients, kills the process when 150 starts
// were acknowledged, and returns the acknowledged state of each run.
func runUntilKilled(s *steward, round int) map[string]string {
	var mu sync.Mutex
	var clients sync.WaitGroup
	acked := map[string]string{}
	note := func(runID, state string) {
		mu.Lock()
		defer mu.Unlock()
		acked[runID] = state
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
				a, err = s.try("PUT", "/evalrun", object{"id": r.ID, "result": r.ID})
				if err != nil || a.status != 200 {
					return
				}
				note(r.ID, "completed")
			}
		})
	}
	waittest.Until(s.t, "150 acknowledged runs", func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		return len(acked), len(acked) >= 150
	})
	s.kill()
	clients.Wait()
	return acked
}
