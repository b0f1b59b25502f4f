package eval

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/db/dbtest"
)

// model holds evals and runs in memory, beside the fixture.
type model struct {
	evals map[string]Eval
	runs  map[string]Run
}

var (
	projects = []string{"red", "green"}
	agents   = []string{"support", "sales", "Z"}
	evalIDs  = []string{"e1", "E2", "e3", "_4"}
	sessions = []string{"s1", "s2", "s3"}
)

// TestListsAgainstModel compares lists with up to three filters, by offset and by cursor, after
// random changes.
func TestListsAgainstModel(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		round := 0
		dbtest.Check(t, f.store.DB.Dialect(), func(rt *rapid.T) {
			round++
			f.TB, f.org = rt, fmt.Sprintf("org_%d", round)
			m := &model{evals: map[string]Eval{}, runs: map[string]Run{}}
			for n := range rapid.IntRange(1, 50).Draw(rt, "steps") {
				m.step(rt, f, n)
			}
			for range 5 {
				who := rapid.SampledFrom([]string{"ada", "red", "green"}).Draw(rt, "caller")
				filters := rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 3, rapid.ID).Draw(rt, "filters")
				m.compare(rt, f, who, drawFilters(rt, f, filters))
			}
		})
	})
}

// TestPairsOfFiltersAgainstModel compares every filter and every pair of filters.
func TestPairsOfFiltersAgainstModel(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		round := 0
		dbtest.Check(t, f.store.DB.Dialect(), func(rt *rapid.T) {
			round++
			f.TB, f.org = rt, fmt.Sprintf("org_%d", round)
			m := &model{evals: map[string]Eval{}, runs: map[string]Run{}}
			for n := range rapid.IntRange(10, 30).Draw(rt, "steps") {
				m.step(rt, f, n)
			}
			for i, one := range keys {
				m.compare(rt, f, "ada", drawFilters(rt, f, []string{one}))
				for _, other := range keys[i+1:] {
					m.compare(rt, f, "ada", drawFilters(rt, f, []string{one, other}))
				}
			}
		})
	})
}

// drawFilters draws a value for each filter.
func drawFilters(rt *rapid.T, f *fixture, filters []string) url.Values {
	values := url.Values{}
	for _, key := range filters {
		value := rapid.SampledFrom(choices[key]).Draw(rt, key)
		if value == "mine" {
			value = f.org
		}
		values.Set(key, value)
	}
	return values
}

var keys = []string{"orgId", "projectId", "agentId", "evalId", "sessionId", "passed", "minScore", "maxScore", "since", "until"}

var choices = map[string][]string{
	"orgId": {"mine", "mine", "org_b"}, "projectId": append(projects, "none"), "agentId": append(agents, "none"),
	"evalId": append(evalIDs, "none"), "sessionId": append(sessions, "none"),
	"passed": {"true", "false"}, "minScore": {"-1", "0.5"}, "maxScore": {"0.5", "1e300"},
	"since": {"2025-11-15", "2025-11-15T09:46:50.000Z"}, "until": {"2025-11-15T09:46:50.000Z", "2025-11-15T09:46:55.001Z"},
}

// step applies a random change to the fixture and the model.
func (m *model) step(rt *rapid.T, f *fixture, n int) {
	f.now = f.now.Add(time.Millisecond)
	pick := func(name string, from []string) string { return rapid.SampledFrom(from).Draw(rt, name) }
	switch rapid.SampledFrom([]string{"run", "run", "run", "complete", "put", "delete"}).Draw(rt, "do") {
	case "run":
		runID := fmt.Sprintf("%s%d", pick("prefix", []string{"r", "R", "_"}), n)
		body := start(runID, pick("session", sessions), pick("eval", evalIDs), pick("project", projects))
		body["orgId"] = f.org
		body["timestamp"] = 1763200000000 + rapid.IntRange(0, 20).Draw(rt, "second")*1000 // many at the same time
		r := read[Run](f, f.want(201, "ada", "POST", "/evalrun", body))
		m.runs[r.ID] = r
	case "complete":
		for _, r := range m.runs {
			if r.Pending {
				result := json.RawMessage(pick("result", []string{
					"1", `{"passed":true}`, `{"passed":false,"score":0.5}`, `{"success":false,"score":-1}`, `{"success":false,"passed":true,"score":1e3}`,
				}))
				m.runs[r.ID] = read[Run](f, f.want(200, "ada", "PUT", "/evalrun", object{"id": r.ID, "result": result}))
				return
			}
		}
	case "put":
		body := define(fmt.Sprint("name", n), pick("agent", agents), pick("project", projects))
		e := read[Eval](f, f.want(200, "ada", "PUT", "/cli/eval/"+pick("eval", evalIDs), body))
		m.evals[e.ID] = e
		for runID, r := range m.runs {
			if r.EvalID == e.ID {
				r.EvalName, r.AgentIdentifier = &e.Name, &e.AgentIdentifier
				m.runs[runID] = r
			}
		}
	case "delete":
		evalID := pick("eval", evalIDs)
		f.want(200, "ada", "POST", "/cli/devmode/eval", object{"delete": []string{evalID}})
		delete(m.evals, evalID)
	}
}

func (m *model) compare(rt *rapid.T, f *fixture, who string, values url.Values) {
	limit := rapid.IntRange(1, 7).Draw(rt, "limit")
	runIDs := m.runsOf(who, values)
	comparePages(rt, f, who, "/cli/eval-run", values, limit, runIDs)
	for _, runID := range runIDs[:min(1, len(runIDs))] {
		want, got := m.runs[runID], read[Run](f, f.want(200, who, "GET", "/cli/eval-run/"+runID, nil))
		if !equal(want.AgentIdentifier, got.AgentIdentifier) || !equal(want.EvalName, got.EvalName) || want.Pending != got.Pending ||
			!equalJSON(want.Result, got.Result) {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
	}
	if !slices.ContainsFunc(keys[3:], values.Has) { // the others are of runs only
		comparePages(rt, f, who, "/cli/eval", values, limit, m.evalsOf(who, values))
	}
}

func matches(values url.Values, key, value string) bool {
	return !values.Has(key) || values.Get(key) == value
}

func (m *model) runsOf(who string, v url.Values) (ids []string) {
	var found []Run
	for _, r := range m.runs {
		agent := ""
		if r.AgentIdentifier != nil {
			agent = *r.AgentIdentifier
		}
		if callers[who].Sees(r.ProjectID) && matches(v, "orgId", r.OrgID) && matches(v, "projectId", r.ProjectID) &&
			matches(v, "agentId", agent) &&
			matches(v, "evalId", r.EvalID) && matches(v, "sessionId", r.SessionID) && matchesResult(v, r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b Run) int { return newest(int64(a.CreatedAt), int64(b.CreatedAt), a.ID, b.ID) })
	for _, r := range found {
		ids = append(ids, r.ID)
	}
	return ids
}

// matchesResult evaluates the filters that only runs have.
func matchesResult(v url.Values, r Run) bool {
	passed := r.Success
	if r.Passed != nil {
		passed = *r.Passed
	}
	if v.Has("passed") && (r.Pending || fmt.Sprint(passed) != v.Get("passed")) {
		return false
	}
	for key, sign := range map[string]float64{"minScore": 1, "maxScore": -1} {
		bound, _ := strconv.ParseFloat(v.Get(key), 64)
		if v.Has(key) && (r.Score == nil || *r.Score*sign < bound*sign) {
			return false
		}
	}
	at := r.CreatedAt.String()
	return at >= v.Get("since") && (!v.Has("until") || at < v.Get("until"))
}

func (m *model) evalsOf(who string, v url.Values) (ids []string) {
	var found []Eval
	for _, e := range m.evals {
		if callers[who].Sees(e.ProjectID) && matches(v, "orgId", e.OrgID) && matches(v, "projectId", e.ProjectID) &&
			matches(v, "agentId", e.AgentIdentifier) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b Eval) int { return newest(int64(a.CreatedAt), int64(b.CreatedAt), a.ID, b.ID) })
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	return ids
}

func newest(a, b int64, aID, bID string) int {
	if a != b {
		return int(b - a)
	}
	return strings.Compare(bID, aID)
}

var nextLink = regexp.MustCompile(`<([^>]*)>; rel="next"`)

// comparePages reads a list by offset and by cursor.
func comparePages(rt *rapid.T, f *fixture, who, path string, values url.Values, limit int, want []string) {
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	for key := range values {
		q.Set(key, values.Get(key))
	}
	address := path + "?" + q.Encode()
	var byOffset, byCursor []string
	for offset := 0; offset <= len(want); offset += limit {
		ids, total := f.list(who, fmt.Sprintf("%s&offset=%d", address, offset))
		byOffset = append(byOffset, ids...)
		if total != fmt.Sprint(len(want)) {
			rt.Fatalf("%s has total %s, want %d", address, total, len(want))
		}
	}
	for at := address; at != ""; {
		rec := f.want(200, who, "GET", at, nil)
		byCursor = append(byCursor, idsOf(f, rec)...)
		at = ""
		if found := nextLink.FindStringSubmatch(rec.Header().Get("Link")); found != nil {
			at = found[1]
		}
	}
	if !slices.Equal(byOffset, want) || !slices.Equal(byCursor, want) {
		rt.Fatalf("%s of %s:\nby offset %v\nby cursor %v\nwant      %v", address, who, byOffset, byCursor, want)
	}
}

func idsOf(f *fixture, rec *httptest.ResponseRecorder) (ids []string) {
	for _, one := range read[[]struct{ ID string }](f, rec) {
		ids = append(ids, one.ID)
	}
	return ids
}
