package eval

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
)

// TestRunStates walks the table of what may happen to a run: each row is a list of steps and the state that they lead to.
func TestRunStates(t *testing.T) {
	begin := func(status int) step { return step{"POST", "", status} }
	end := func(said string, status int) step { return step{"PUT", said, status} }
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
	each(t, func(t *testing.T, h *house) {
		n := 0
		for name, test := range tests {
			n++
			runID := fmt.Sprintf("run_%d", n)
			for _, s := range test.steps {
				s.take(h, runID)
			}
			var r struct {
				Pending, Success bool
				Error, Result    json.RawMessage
			}
			h.must(json.Unmarshal(h.want(200, "ada", "GET", "/cli/eval-run/"+runID, nil).Body.Bytes(), &r))
			if r.Pending != test.pending || r.Success != test.success || string(r.Error) != test.err || string(r.Result) != test.result {
				t.Errorf("%s: got %+v, error %s, result %s", name, r, r.Error, r.Result)
			}
		}
		h.want(404, "ada", "PUT", "/evalrun", object{"id": "run_unknown"})
		if _, total := h.list("ada", "/cli/eval-run"); total != fmt.Sprint(n) {
			t.Errorf("%s runs are counted, %d were started", total, n)
		}
	})
}

// step is a start, or a completion that says something, and the status it gets.
type step struct {
	method, said string
	status       int
}

func (s step) take(h *house, runID string) {
	h.Helper()
	if s.method == "POST" {
		h.want(s.status, "ada", "POST", "/evalrun", start(runID, "sess", "ev", "red"))
		return
	}
	body := strings.TrimSuffix(fmt.Sprintf(`{"id":%q,%s`, runID, s.said), ",") + "}"
	h.want(s.status, "ada", "PUT", "/evalrun", body)
}

func TestStartWithOtherValues(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		for _, field := range []string{"sessionId", "evalId", "evalIdentifier", "projectId", "deploymentId", "spanId"} {
			other := start("r", "s", "e", "red")
			other[field] = "other"
			h.want(409, "ada", "POST", "/evalrun", other)
		}
		again := start("r", "s", "e", "red")
		again["timestamp"] = "2026-11-15T11:00:00Z"
		again["deploymentId"] = nil
		h.want(201, "ada", "POST", "/evalrun", again)
		if ids, total := h.list("ada", "/cli/eval-run"); len(ids) != 1 || total != "1" {
			t.Fatalf("got %v of %s", ids, total)
		}
	})
}

// TestConcurrentRepeats has many clients say the same, and different things, about one run.
func TestConcurrentRepeats(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		note := func(status int) {
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		}
		for range 8 {
			all.Go(func() { note(h.send("ada", "POST", "/evalrun", start("r", "s", "e", "red")).Code) })
		}
		all.Wait()
		for i := range 8 {
			all.Go(func() { note(h.send("ada", "PUT", "/evalrun", object{"id": "r", "result": i % 2}).Code) })
		}
		all.Wait()
		if statuses[201] != 8 || statuses[200] != 4 || statuses[409] != 4 {
			t.Fatalf("got %v", statuses)
		}
		if _, total := h.list("ada", "/cli/eval-run"); total != "1" {
			t.Fatalf("total is %s", total)
		}
	})
}

// TestBadCompletionFailsAlone completes many runs at once, so that they share transactions. An error with a character that no database can
// keep is refused; those beside it are not.
func TestBadCompletionFailsAlone(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				id := fmt.Sprint("r", i)
				h.want(201, "ada", "POST", "/evalrun", start(id, "s", "e", "red"))
				status, end := 200, object{"id": id, "error": "no"}
				if i%4 == 0 {
					status, end = 422, object{"id": id, "error": "\x00"}
				}
				h.want(status, "ada", "PUT", "/evalrun", end)
			})
		}
		all.Wait()
		for i := range 40 {
			r, err := h.store.Run(t.Context(), &auth.Caller{OrgID: "org_a"}, fmt.Sprint("r", i))
			h.must(err)
			if r.Pending != (i%4 == 0) {
				t.Errorf("%s: pending %v", r.ID, r.Pending)
			}
		}
	})
}

func TestTimestamps(t *testing.T) {
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
	each(t, func(t *testing.T, h *house) {
		for i, test := range tests {
			body := fmt.Sprintf(`{"id":"r%d","sessionId":"s","evalId":"e","orgId":"org_a","projectId":"red","timestamp":%s}`, i, test.sent)
			if test.created == "" {
				if rec := h.want(422, "ada", "POST", "/evalrun", body); !strings.Contains(rec.Body.String(), `"body.timestamp"`) {
					t.Errorf("%s: the field is not named: %s", test.sent, rec.Body)
				}
				h.want(422, "ada", "PUT", "/evalrun", fmt.Sprintf(`{"id":"r0","timestamp":%s}`, test.sent))
				continue
			}
			h.want(201, "ada", "POST", "/evalrun", body)
			got := read[object](h, h.want(200, "ada", "GET", fmt.Sprintf("/cli/eval-run/r%d", i), nil))
			if got["createdAt"] != test.created || got["updatedAt"] != test.created {
				t.Errorf("%s: got %v, %v", test.sent, got["createdAt"], got["updatedAt"])
			}
		}
		early := read[object](h, h.want(200, "ada", "PUT", "/evalrun", `{"id":"r0","timestamp":"2026-11-15T11:59:00Z"}`))
		if early["updatedAt"] != early["createdAt"] {
			t.Errorf("completed at %v before its start at %v", early["updatedAt"], early["createdAt"])
		}
	})
}

func TestStartFaults(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		bad := object{"id": "a b", "sessionId": "", "evalId": strings.Repeat("x", 129), "orgId": "org_a", "projectId": "ü", "spanId": "/"}
		said := h.want(422, "ada", "POST", "/evalrun", bad).Body.String()
		for _, field := range []string{"id", "sessionId", "evalId", "projectId", "spanId"} {
			if !strings.Contains(said, `"body.`+field+`"`) {
				t.Errorf("%s is not named: %s", field, said)
			}
		}
		h.want(422, "ada", "POST", "/evalrun", object{"id": "r"})
		h.want(400, "ada", "POST", "/evalrun", "{")
		h.want(403, "bob", "POST", "/evalrun", start("r", "s", "e", "red"))
	})
}

// TestLargeResults keeps what just fits, byte for byte, and does not put it into lists.
func TestLargeResults(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		filler := strings.Repeat("ä", (maxText-len(`{"n":1.10,"text":""}`))/2)
		h.want(413, "ada", "PUT", "/evalrun", `{"id":"r","result":{"n":1.10,"text":"`+filler+`a"}}`)
		h.want(413, "ada", "PUT", "/evalrun", object{"id": "r", "error": strings.Repeat("a", maxText+1)})
		h.want(413, "ada", "PUT", "/evalrun", object{"id": "r", "ignored": strings.Repeat("a", MaxBody)})
		h.want(200, "ada", "PUT", "/evalrun", `{"id":"r","result":{"n":1.10,"text":"`+filler+`"}}`)
		got := h.want(200, "ada", "GET", "/cli/eval-run/r", nil).Body.String()
		if !strings.Contains(got, `"result":{"n":1.10,"text":"`+filler+`"}`) || strings.Contains(got, "truncated") {
			t.Error("the result is not what was sent")
		}
		listed := read[[]object](h, h.want(200, "ada", "GET", "/cli/eval-run", nil))
		if listed[0]["result"] != nil || listed[0]["truncated"] != true || listed[0]["success"] != true {
			t.Errorf("listed as %.300v", listed)
		}
		h.want(201, "ada", "POST", "/evalrun", start("long", "s", "e", "red"))
		h.want(200, "ada", "PUT", "/evalrun", object{"id": "long", "error": strings.Repeat("ä", 50_000)})
		for _, r := range read[[]object](h, h.want(200, "ada", "GET", "/cli/eval-run", nil)) {
			if text, _ := r["error"].(string); len(text) > 2000 || r["truncated"] != true {
				t.Errorf("%v is listed with %d bytes of error", r["id"], len(text))
			}
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

// TestUpdatedAt is the time of the end, as the runtime tells it.
func TestUpdatedAt(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.want(201, "ada", "POST", "/evalrun", start("r", "s", "e", "red"))
		h.now = h.now.Add(time.Hour)
		done := read[object](h, h.want(200, "ada", "PUT", "/evalrun", `{"id":"r","timestamp":"2026-11-15T12:30:00Z"}`))
		if done["createdAt"] != "2026-11-15T12:00:00.000Z" || done["updatedAt"] != "2026-11-15T12:30:00.000Z" {
			t.Errorf("got %v", done)
		}
	})
}
