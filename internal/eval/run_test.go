package eval

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
)

// TestRunStates has the steps of a run and the state that they lead to.
func TestRunStates(t *testing.T) {
	begin := func(status int) step { return step{"POST", "", status} }
	end := func(fields string, status int) step { return step{"PUT", fields, status} }
	tests := map[string]struct {
		steps            []step
		pending, success bool
		err, result      string
	}{
		"started":             {[]step{begin(201)}, true, false, "null", "null"},
		"started twice":       {[]step{begin(201), begin(201)}, true, false, "null", "null"},
		"ended with nothing":  {[]step{begin(201), end(``, 200)}, false, true, "null", "null"},
		"ended with null":     {[]step{begin(201), end(`"result":null,"error":null`, 200)}, false, true, "null", "null"},
		"ended with a result": {[]step{begin(201), end(`"result":{"score":0.50}`, 200)}, false, true, "null", `{"score":0.50}`},
		"success false":       {[]step{begin(201), end(`"result":{"success":false}`, 200)}, false, false, "null", `{"success":false}`},
		"success is no false": {[]step{begin(201), end(`"result":{"success":0}`, 200)}, false, true, "null", `{"success":0}`},
		"nested false":        {[]step{begin(201), end(`"result":{"a":{"success":false}}`, 200)}, false, true, "null", `{"a":{"success":false}}`},
		"false itself":        {[]step{begin(201), end(`"result":false`, 200)}, false, true, "null", `false`},
		"error":               {[]step{begin(201), end(`"error":"broke"`, 200)}, false, false, `"broke"`, "null"},
		"error and result":    {[]step{begin(201), end(`"error":"broke","result":[1]`, 200)}, false, false, `"broke"`, "[1]"},
		"empty error":         {[]step{begin(201), end(`"error":""`, 200)}, false, true, "null", "null"},
		"same again":          {[]step{begin(201), end(`"result":[1]`, 200), end(`"result":[ 1.0]`, 200)}, false, true, "null", `[1]`},
		"other result":        {[]step{begin(201), end(`"result":1`, 200), end(`"result":2`, 409)}, false, true, "null", "1"},
		"error after result":  {[]step{begin(201), end(`"result":1`, 200), end(`"error":"x"`, 409)}, false, true, "null", "1"},
		"result after none":   {[]step{begin(201), end(``, 200), end(`"result":1`, 409)}, false, true, "null", "null"},
		"start after the end": {[]step{begin(201), end(`"result":1`, 200), begin(201)}, false, true, "null", "1"},
	}
	each(t, func(t *testing.T, f *fixture) {
		n := 0
		for name, test := range tests {
			n++
			runID := fmt.Sprintf("run_%d", n)
			for _, s := range test.steps {
				s.take(f, runID)
			}
			var r struct {
				Pending, Success bool
				Error, Result    json.RawMessage
			}
			f.must(json.Unmarshal(f.want(200, "ada", "GET", "/cli/eval-run/"+runID, nil).Body.Bytes(), &r))
			if r.Pending != test.pending || r.Success != test.success || string(r.Error) != test.err || string(r.Result) != test.result {
				t.Errorf("%s: got %+v, error %s, result %s", name, r, r.Error, r.Result)
			}
		}
		f.want(404, "ada", "PUT", "/evalrun", object{"id": "run_unknown"})
		if _, total := f.list("ada", "/cli/eval-run"); total != fmt.Sprint(n) {
			t.Errorf("%s runs are counted, %d were started", total, n)
		}
	})
}

// step is a start or a completion with some fields, and the status of its response.
type step struct {
	method, fields string
	status         int
}

func (s step) take(f *fixture, runID string) {
	f.Helper()
	if s.method == "POST" {
		f.want(s.status, "ada", "POST", "/evalrun", start(runID, "sess", "ev", "red"))
		return
	}
	body := strings.TrimSuffix(fmt.Sprintf(`{"id":%q,%s`, runID, s.fields), ",") + "}"
	f.want(s.status, "ada", "PUT", "/evalrun", body)
}

func TestStartWithOtherValuesIsAConflict(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		for _, field := range []string{"sessionId", "evalId", "evalIdentifier", "projectId", "deploymentId", "spanId"} {
			other := start("r", "s", "e", "red")
			other[field] = "other"
			f.want(409, "ada", "POST", "/evalrun", other)
		}
		again := start("r", "s", "e", "red")
		again["timestamp"] = "2026-11-15T11:00:00Z"
		again["deploymentId"] = nil
		f.want(201, "ada", "POST", "/evalrun", again)
		if ids, total := f.list("ada", "/cli/eval-run"); len(ids) != 1 || total != "1" {
			t.Fatalf("got %v of %s", ids, total)
		}
	})
}

// TestFirstOfConcurrentOutcomesStays starts and completes one run by several clients at once.
func TestFirstOfConcurrentOutcomesStays(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		note := func(status int) {
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		}
		for range 8 {
			all.Go(func() { note(f.send("ada", "POST", "/evalrun", start("r", "s", "e", "red")).Code) })
		}
		all.Wait()
		for i := range 8 {
			all.Go(func() { note(f.send("ada", "PUT", "/evalrun", object{"id": "r", "result": i % 2}).Code) })
		}
		all.Wait()
		if statuses[201] != 8 || statuses[200] != 4 || statuses[409] != 4 {
			t.Fatalf("got %v", statuses)
		}
		if _, total := f.list("ada", "/cli/eval-run"); total != "1" {
			t.Fatalf("total is %s", total)
		}
	})
}

// TestBadCompletionFailsAlone completes many runs at once, so that they share transactions. An
// error text that databases cannot store is refused; the others are not.
func TestBadCompletionFailsAlone(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				id := fmt.Sprint("r", i)
				f.want(201, "ada", "POST", "/evalrun", start(id, "s", "e", "red"))
				status, end := 200, object{"id": id, "error": "no"}
				if i%4 == 0 {
					status, end = 422, object{"id": id, "error": "\x00"}
				}
				f.want(status, "ada", "PUT", "/evalrun", end)
			})
		}
		all.Wait()
		for i := range 40 {
			r, err := f.store.Run(t.Context(), &auth.Caller{OrgID: "org_a"}, fmt.Sprint("r", i))
			f.must(err)
			if r.Pending != (i%4 == 0) {
				t.Errorf("%s: pending %v", r.ID, r.Pending)
			}
		}
	})
}

func TestRunTimestamps(t *testing.T) {
	tests := []struct{ sent, created string }{
		{`null`, "2026-11-15T12:00:00.000Z"},
		{`1763200000123`, "2025-11-15T09:46:40.123Z"},
		{`"2026-11-15T13:00:00.5+02:00"`, "2026-11-15T11:00:00.500Z"},
		{`"2026-11-15T12:05:00Z"`, "2026-11-15T12:05:00.000Z"},
		{`"2026-11-15T12:05:01Z"`, "2026-11-15T12:00:00.000Z"},
		{`1894752000000`, "2026-11-15T12:00:00.000Z"},
		{`"yesterday"`, ""},
		{`-1`, ""},
		{`1e300`, ""},
		{`{}`, ""},
		{`true`, ""},
	}
	each(t, func(t *testing.T, f *fixture) {
		for i, test := range tests {
			body := fmt.Sprintf(`{"id":"r%d","sessionId":"s","evalId":"e","orgId":"org_a","projectId":"red","timestamp":%s}`, i, test.sent)
			if test.created == "" {
				if rec := f.want(422, "ada", "POST", "/evalrun", body); !strings.Contains(rec.Body.String(), `"body.timestamp"`) {
					t.Errorf("%s: the field is not named: %s", test.sent, rec.Body)
				}
				f.want(422, "ada", "PUT", "/evalrun", fmt.Sprintf(`{"id":"r0","timestamp":%s}`, test.sent))
				continue
			}
			f.want(201, "ada", "POST", "/evalrun", body)
			got := read[object](f, f.want(200, "ada", "GET", fmt.Sprintf("/cli/eval-run/r%d", i), nil))
			if got["createdAt"] != test.created || got["updatedAt"] != test.created {
				t.Errorf("%s: got %v, %v", test.sent, got["createdAt"], got["updatedAt"])
			}
		}
		early := read[object](f, f.want(200, "ada", "PUT", "/evalrun", `{"id":"r0","timestamp":"2026-11-15T11:59:00Z"}`))
		if early["updatedAt"] != early["createdAt"] {
			t.Errorf("completed at %v before its start at %v", early["updatedAt"], early["createdAt"])
		}
	})
}

func TestStartReportsAllErrorsOfABody(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	bad := object{
		"id": "a b", "sessionId": "", "evalId": strings.Repeat("x", 129), "orgId": "org_a", "projectId": "ü", "spanId": "/",
	}
	body := f.want(422, "ada", "POST", "/evalrun", bad).Body.String()
	for _, field := range []string{"id", "sessionId", "evalId", "projectId", "spanId"} {
		if !strings.Contains(body, `"body.`+field+`"`) {
			t.Errorf("%s is not named: %s", field, body)
		}
	}
	f.want(422, "ada", "POST", "/evalrun", object{"id": "r"})
	f.want(400, "ada", "POST", "/evalrun", "{")
	f.want(403, "bob", "POST", "/evalrun", start("r", "s", "e", "red"))
}

// TestLargeResultsAreStoredAndNotListed stores the largest result byte for byte.
func TestLargeResultsAreStoredAndNotListed(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		filler := strings.Repeat("ä", (maxText-len(`{"n":1.10,"text":""}`))/2)
		f.want(413, "ada", "PUT", "/evalrun", `{"id":"r","result":{"n":1.10,"text":"`+filler+`a"}}`)
		f.want(413, "ada", "PUT", "/evalrun", object{"id": "r", "error": strings.Repeat("a", maxText+1)})
		f.want(413, "ada", "PUT", "/evalrun", object{"id": "r", "ignored": strings.Repeat("a", MaxBody)})
		f.want(200, "ada", "PUT", "/evalrun", `{"id":"r","result":{"n":1.10,"text":"`+filler+`"}}`)
		got := f.want(200, "ada", "GET", "/cli/eval-run/r", nil).Body.String()
		if !strings.Contains(got, `"result":{"n":1.10,"text":"`+filler+`"}`) || strings.Contains(got, "omitted") {
			t.Error("the result is not what was sent")
		}
		listed := read[[]object](f, f.want(200, "ada", "GET", "/cli/eval-run", nil))[0]
		if listed["result"] != nil || listed["result_omitted"] != true || listed["truncated"] != nil ||
			listed["success"] != true {
			t.Errorf("listed as %.300v", listed)
		}
		f.want(201, "ada", "POST", "/evalrun", start("long", "s", "e", "red"))
		f.want(200, "ada", "PUT", "/evalrun", object{"id": "long", "error": strings.Repeat("ä", 50_000)})
		long := read[[]object](f, f.want(200, "ada", "GET", "/cli/eval-run", nil))[1]
		if text, _ := long["error"].(string); text != strings.Repeat("ä", maxListedError) ||
			long["truncated"] != true || long["result_omitted"] != nil {
			t.Errorf("%v is listed with %d bytes of error", long["id"], len(text))
		}
	})
}

// TestRunPageIsBoundedInBytes lists more than page.MaxBytes of results and errors: every run is on
// the page, the first ones whole.
func TestRunPageIsBoundedInBytes(t *testing.T) {
	const fit = page.MaxBytes / maxListed
	each(t, func(t *testing.T, f *fixture) {
		for i := range fit + 5 {
			id := fmt.Sprintf("r%03d", i)
			f.want(201, "ada", "POST", "/evalrun", start(id, "s", "e", "red"))
			end := object{"id": id, "result": strings.Repeat("x", maxListed-2)}
			if i == 1 { // among the last of the list
				end = object{"id": id, "error": strings.Repeat("ä", maxListed/2)}
			}
			if i == 0 {
				end = object{"id": id, "error": "short"}
			}
			f.want(200, "ada", "PUT", "/evalrun", end)
		}
		rec := f.want(200, "ada", "GET", fmt.Sprintf("/cli/eval-run?limit=%d", fit+5), nil)
		if rec.Body.Len() > page.MaxBytes+1<<20 {
			t.Errorf("the page has %d bytes", rec.Body.Len())
		}
		runs := read[[]Run](f, rec)
		if len(runs) != fit+5 {
			t.Fatalf("the page has %d runs, want %d", len(runs), fit+5)
		}
		for i, r := range runs[:fit+3] {
			if (len(r.Result) == maxListed) != (i < fit) || r.ResultOmitted != (i >= fit) || r.Truncated || r.Pending || !r.Success {
				t.Fatalf("run %d: %d bytes of result, omitted %v", i, len(r.Result), r.ResultOmitted)
			}
		}
		if r := runs[fit+3]; r.Error == nil || *r.Error != strings.Repeat("ä", maxListedError) || !r.Truncated || r.ResultOmitted {
			t.Errorf("a long error beyond the budget: truncated %v, result omitted %v", r.Truncated, r.ResultOmitted)
		}
		if r := runs[fit+4]; r.Error == nil || *r.Error != "short" || r.Truncated || r.ResultOmitted {
			t.Errorf("a short error beyond the budget: %+v", r)
		}
		whole := read[Run](f, f.want(200, "ada", "GET", "/cli/eval-run/r002", nil))
		if len(whole.Result) != maxListed || whole.ResultOmitted {
			t.Error("the run itself lacks its result")
		}
	})
}

func TestEqualJSON(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true},
		{`100`, `1e2`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`"a"`, `"\u0061"`, true},
		{`{"a":1,"b":2}`, `{ "b": 2, "a": 1 }`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `{"0":1}`, false},
		{`"1"`, `1`, false},
		{`false`, `0`, false},
		{`[[["x"]]]`, `[[["x"]]]`, true},
		{``, `0`, false},
		{``, ``, true},
	} {
		if equalJSON(json.RawMessage(test.a), json.RawMessage(test.b)) != test.same {
			t.Errorf("%s and %s: want %v", test.a, test.b, test.same)
		}
	}
}

func TestUpdatedAtIsTheTimeOfCompletion(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		f.now = f.now.Add(time.Hour)
		done := read[object](f, f.want(200, "ada", "PUT", "/evalrun", `{"id":"r","timestamp":"2026-11-15T12:30:00Z"}`))
		if done["createdAt"] != "2026-11-15T12:00:00.000Z" || done["updatedAt"] != "2026-11-15T12:30:00.000Z" {
			t.Errorf("got %v", done)
		}
	})
}
